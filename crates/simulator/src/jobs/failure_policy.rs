//! The pod failure policy of a job: the first matching rule decides.

use serde_json::Value;

use crate::item::Item;

/// The consequence of a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    /// It counts as a failure.
    Count,
    /// It is ignored.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The job has failed, with this message.
    FailJob(String),
}

/// The consequence of a failed pod for its job.
pub(super) fn consequence(job: &Item, pod: &Item) -> Consequence {
    for (index, rule) in job.list("/spec/podFailurePolicy/rules").iter().enumerate() {
        let Some(cause) = cause(rule, pod) else {
            continue;
        };
        let action = rule["action"].as_str().unwrap_or_default();
        return match action {
            "Ignore" => Consequence::Ignore,
            "FailIndex" => Consequence::FailIndex,
            "FailJob" => Consequence::FailJob(format!("{cause} matching {action} rule at index {index}")),
            _ => Consequence::Count,
        };
    }
    Consequence::Count
}

/// The description of why a rule matches a pod.
fn cause(rule: &Value, pod: &Item) -> Option<String> {
    match &rule["onExitCodes"] {
        Value::Null => condition(rule, pod),
        codes => exit_code(codes, pod),
    }
}

fn exit_code(codes: &Value, pod: &Item) -> Option<String> {
    let values = codes["values"].as_array().map_or(&[][..], Vec::as_slice);
    let statuses = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let mut statuses = statuses.iter().flat_map(|list| pod.list(list));
    let matching = statuses.find(|status| {
        let code = &status["state"]["terminated"]["exitCode"];
        let is_meant = codes["containerName"].is_null() || codes["containerName"] == status["name"];
        let is_in = values.contains(code);
        let matches = match codes["operator"].as_str() {
            Some("In") => is_in,
            Some("NotIn") => !is_in,
            _ => false,
        };
        is_meant && matches && code.as_i64().is_some_and(|code| code != 0)
    })?;
    let name = matching["name"].as_str().unwrap_or_default();
    let code = &matching["state"]["terminated"]["exitCode"];
    let pod = format!("{}/{}", pod.namespace(), pod.name());
    Some(format!(
        "Container {name} for pod {pod} failed with exit code {code}"
    ))
}

fn condition(rule: &Value, pod: &Item) -> Option<String> {
    let patterns = rule["onPodConditions"].as_array().into_iter().flatten();
    for pattern in patterns {
        let wanted = pattern["status"].as_str().unwrap_or("True");
        let mut conditions = pod.list("/status/conditions").iter();
        if conditions.any(|known| known["type"] == pattern["type"] && known["status"] == wanted) {
            let kind = pattern["type"].as_str().unwrap_or_default();
            return Some(format!(
                "Pod {}/{} has condition {kind}",
                pod.namespace(),
                pod.name()
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::item::tests::item;

    #[track_caller]
    fn check(rules: Value, code: i64, condition: &str, wanted: Consequence) {
        let job = item(&json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {"podFailurePolicy": {"rules": rules}},
        }));
        let pod = item(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "work-1", "namespace": "default"},
            "status": {
                "conditions": [{"type": condition, "status": "True"}],
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}],
            },
        }));
        assert_eq!(consequence(&job, &pod), wanted);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let on_exit = |action: &str, operator: &str, values: &[i64]| {
            json!({
                "action": action, "onExitCodes": {"operator": operator, "values": values},
            })
        };
        let disrupted = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
        let rules = json!([
            disrupted,
            on_exit("FailJob", "In", &[42]),
            on_exit("FailIndex", "NotIn", &[1])
        ]);
        check(rules.clone(), 42, "DisruptionTarget", Consequence::Ignore);
        let words =
            "Container c for pod default/work-1 failed with exit code 42 matching FailJob rule at index 1";
        check(rules.clone(), 42, "Ready", Consequence::FailJob(words.to_owned()));
        check(rules.clone(), 7, "Ready", Consequence::FailIndex);
        check(rules, 1, "Ready", Consequence::Count);
        let other = json!([{"action": "FailJob", "onExitCodes": {
            "containerName": "d", "operator": "In", "values": [42],
        }}]);
        check(other, 42, "Ready", Consequence::Count);
    }
}
