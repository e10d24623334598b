//! A short description of an object's state: a pod's phase, a deployment's ready replicas.

use serde_json::Value;
use watchkeeper_wire::Object;

/// The state of an existing object.
pub(crate) fn present(object: &Object) -> String {
    match object.to_value() {
        Ok(value) if object.is_deleting() => match phase(&value) {
            Some(phase) => format!("{phase}, Terminating"),
            None => "Terminating".to_owned(),
        },
        Ok(value) => state(object.kind(), &value),
        Err(_) => "unreadable".to_owned(),
    }
}

/// The last state of a deleted object.
pub(crate) fn last(object: &Object) -> String {
    match object.to_value() {
        Ok(value) => state(object.kind(), &value),
        Err(_) => "unreadable".to_owned(),
    }
}

fn state(kind: &str, object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => {
            format!(
                "{}/{} ready",
                count(&status["readyReplicas"]),
                spec["replicas"].as_u64().unwrap_or(1)
            )
        }
        "DaemonSet" => format!(
            "{}/{} ready",
            count(&status["numberReady"]),
            count(&status["desiredNumberScheduled"])
        ),
        "Job" => format!(
            "{}/{} done",
            count(&status["succeeded"]),
            spec["completions"].as_u64().unwrap_or(1)
        ),
        "Node" => if condition(object, "Ready") == Some("True") {
            "Ready"
        } else {
            "NotReady"
        }
        .to_owned(),
        "Service" => spec["type"].as_str().unwrap_or("-").to_owned(),
        "Pod" => pod_state(object),
        _ => phase(object).unwrap_or("-").to_owned(),
    }
}

/// A pod's phase; the reason if it waits for something, as kubectl shows it.
fn pod_state(pod: &Value) -> String {
    let phase = phase(pod).unwrap_or("-");
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    match (phase, waiting.as_str(), pod["spec"]["nodeName"].as_str()) {
        (_, Some(reason), _) => reason.to_owned(),
        ("Pending", None, Some(node)) => format!("{phase} on {node}"),
        ("Running", None, _) if condition(pod, "Ready") == Some("False") => "Running, not ready".to_owned(),
        _ => phase.to_owned(),
    }
}

fn phase(object: &Value) -> Option<&str> {
    object["status"]["phase"].as_str()
}

/// The status of one of an object's conditions.
pub(crate) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| {
        condition["type"]
            .as_str()
            .is_some_and(|own| own.eq_ignore_ascii_case(kind))
    })?;
    found["status"].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_wire::ObjectOptions;

    use super::*;

    #[test]
    fn a_state_is_a_word_or_two() {
        let check = |object: Value, expected_present: &str, expected_last: &str| {
            let object = Object::from_json(object.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
            assert_eq!(
                (&*present(&object), &*last(&object)),
                (expected_present, expected_last)
            );
        };
        let named =
            |kind: &str, status: Value| json!({"kind": kind, "metadata": {"name": "a"}, "status": status});
        check(named("Pod", json!({"phase": "Running"})), "Running", "Running");
        check(named("ConfigMap", json!(null)), "-", "-");
        let pulling = json!([{"state": {"waiting": {"reason": "ErrImagePull"}}}]);
        let pulling = named("Pod", json!({"phase": "Pending", "containerStatuses": pulling}));
        check(pulling, "ErrImagePull", "ErrImagePull");
        let mut deployment = named("Deployment", json!({"readyReplicas": 2}));
        deployment["spec"]["replicas"] = 3.into();
        check(deployment, "2/3 ready", "2/3 ready");
        let mut leaving = named("Pod", json!({"phase": "Running"}));
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        check(leaving, "Running, Terminating", "Running");
    }
}
