//! Placement of pods: node selectors, node affinity, taints.

use serde_json::{Value, json};
use watchkeeper_meta::{LabelRequirement, LabelSelector, LabelTest};

use crate::item::Item;

/// The taint of a cordoned node.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// True if a pod may be placed on a node.
pub(crate) fn admits(node: &Item, pod_spec: &Value) -> bool {
    let is_tolerated = tolerates(node, pod_spec, &["NoSchedule", "NoExecute"]);
    is_tolerated && matches(node, pod_spec) && !is_barred(node, pod_spec)
}

/// True if a node is cordoned and the pod does not tolerate that.
pub(crate) fn is_barred(node: &Item, pod_spec: &Value) -> bool {
    let cordon = json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"});
    let mut tolerations = pod_spec["tolerations"].as_array().into_iter().flatten();
    node.at("/spec/unschedulable") == true && !tolerations.any(|toleration| stands(toleration, &cordon))
}

/// The preference of a pod for a node: the total weight of the preferred terms that match.
pub(crate) fn preference(node: &Item, pod_spec: &Value) -> i64 {
    let affinity = &pod_spec["affinity"]["nodeAffinity"];
    let terms = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    let met = terms
        .into_iter()
        .flatten()
        .filter(|term| meets(node, &term["preference"]));
    met.filter_map(|term| term["weight"].as_i64()).sum()
}

/// The preference of a pod for a node that matches all its preferred terms.
pub(crate) fn most_preferred(pod_spec: &Value) -> i64 {
    let affinity = &pod_spec["affinity"]["nodeAffinity"];
    let terms = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    let weights = terms
        .into_iter()
        .flatten()
        .filter_map(|term| term["weight"].as_i64());
    weights.sum()
}

/// True if a node matches the pod's node selector and required affinity.
pub(crate) fn matches(node: &Item, pod_spec: &Value) -> bool {
    let mut wanted = pod_spec["nodeSelector"].as_object().into_iter().flatten();
    let selected = wanted.all(|(name, value)| node.at("/metadata/labels")[name] == *value);
    let affinity = &pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = affinity["nodeSelectorTerms"].as_array();
    selected && terms.is_none_or(|terms| terms.iter().any(|term| meets(node, term)))
}

/// True if a node meets all requirements of a term; an empty term matches nothing.
fn meets(node: &Item, term: &Value) -> bool {
    let list = |name: &str| term[name].as_array().map_or(&[][..], Vec::as_slice);
    let (labels, fields) = (list("matchExpressions"), list("matchFields"));
    let name = json!({"metadata.name": node.name()});
    !(labels.is_empty() && fields.is_empty())
        && labels
            .iter()
            .all(|wanted| is_met(wanted, node.at("/metadata/labels")))
        && fields.iter().all(|wanted| is_met(wanted, &name))
}

fn is_met(wanted: &Value, labels: &Value) -> bool {
    requirement(wanted).is_some_and(|wanted| LabelSelector::new([wanted]).matches(labels))
}

fn requirement(wanted: &Value) -> Option<LabelRequirement> {
    let values = wanted["values"].as_array().into_iter().flatten();
    let mut values = values.filter_map(Value::as_str).map(str::to_owned);
    let test = match wanted["operator"].as_str()? {
        "In" => LabelTest::In(values.collect()),
        "NotIn" => LabelTest::NotIn(values.collect()),
        "Exists" => LabelTest::Exists,
        "DoesNotExist" => LabelTest::DoesNotExist,
        "Gt" => LabelTest::GreaterThan(values.next()?.parse().ok()?),
        "Lt" => LabelTest::LessThan(values.next()?.parse().ok()?),
        _ => return None,
    };
    LabelRequirement::new(wanted["key"].as_str()?, test).ok()
}

/// True if a pod tolerates all taints of a node with one of these effects.
pub(crate) fn tolerates(node: &Item, pod_spec: &Value, effects: &[&str]) -> bool {
    let tolerations = pod_spec["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
    node.list("/spec/taints").iter().all(|taint| {
        let counts = effects.iter().any(|effect| taint["effect"] == *effect);
        !counts || tolerations.iter().any(|toleration| stands(toleration, taint))
    })
}

/// True if a toleration matches a taint.
pub(crate) fn stands(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let same = |name: &str| text(&toleration[name]) == text(&taint[name]);
    let any = |name: &str| text(&toleration[name]).is_empty();
    let value = toleration["operator"] == "Exists" || same("value");
    (any("effect") || same("effect")) && (any("key") || same("key")) && value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    #[track_caller]
    fn check(pod_spec: Value, wanted: bool) {
        let node = item(&json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "one", "labels": {"disk": "ssd", "cores": "8"}},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        }));
        let mut pod_spec = pod_spec;
        if pod_spec["tolerations"].is_null() {
            pod_spec["tolerations"] = json!([{"operator": "Exists"}]);
        }
        assert_eq!(admits(&node, &pod_spec), wanted, "{pod_spec}");
    }

    fn affinity(term: Value) -> Value {
        let terms = json!({"nodeSelectorTerms": [term]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    }

    #[test]
    fn a_pod_goes_where_it_is_sent() {
        check(json!({}), true);
        check(json!({"nodeSelector": {"disk": "ssd"}}), true);
        check(json!({"nodeSelector": {"disk": "tape"}}), false);
        let term = |key: &str, operator: &str, values: &[&str]| {
            affinity(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        check(term("disk", "In", &["ssd", "tape"]), true);
        check(term("disk", "NotIn", &["ssd"]), false);
        check(term("cores", "Gt", &["4"]), true);
        check(term("cores", "Lt", &["4"]), false);
        check(term("gpu", "Exists", &[]), false);
        let named = |name: &str| {
            affinity(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}))
        };
        check(named("one"), true);
        check(named("two"), false);
        check(affinity(json!({})), false);
    }

    #[test]
    fn a_taint_keeps_pods_away_that_do_not_stand_it() {
        check(json!({"tolerations": []}), false);
        check(
            json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
            true,
        );
        check(
            json!({"tolerations": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}),
            true,
        );
        check(json!({"tolerations": [{"key": "gpu", "value": "no"}]}), false);
    }
}
