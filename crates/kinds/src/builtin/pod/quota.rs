//! What a pod asks for as a whole, and what it takes of a quota.

use serde_json::{Map, Value, json};
use watchkeeper_wire::values::Quantity;

use crate::quota::{STATED, Usage, amounts, number};

/// A pod that has ended takes nothing but its place in the store.
pub(crate) fn usage(pod: &Value, usage: &mut Usage) {
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        usage.remove(super::KIND.plural);
        return;
    }
    let total = total(pod);
    for (list, is_request) in [("requests", true), ("limits", false)] {
        for (name, amount) in amounts(&total[list]) {
            let is_native = !name.contains('/');
            if is_native || is_request {
                usage.insert(format!("{list}.{name}"), amount.clone());
            }
            if is_native && is_request {
                usage.insert(name, amount);
            }
        }
    }
    // What is limited and not asked for counts as nothing, and has to be asked for.
    for name in STATED {
        usage.entry((*name).to_owned()).or_insert_with(|| number(0));
    }
}

/// What a pod asks for as a whole: the sum of its containers, or the most that one of those before them asks for.
pub fn total(pod: &Value) -> Value {
    let mut total = json!({});
    let spec = &pod["spec"];
    for list in ["requests", "limits"] {
        let mut amounts: Map<String, Value> = Map::new();
        for container in spec["containers"].as_array().into_iter().flatten() {
            merge(&mut amounts, &container["resources"][list], |old, new| {
                old.checked_add(&new)
            });
        }
        for container in spec["initContainers"].as_array().into_iter().flatten() {
            merge(&mut amounts, &container["resources"][list], |old, new| {
                Some(old.max(new))
            });
        }
        total[list] = Value::Object(amounts);
    }
    total
}

fn merge(amounts: &mut Map<String, Value>, more: &Value, join: fn(Quantity, Quantity) -> Option<Quantity>) {
    for (name, amount) in more.as_object().into_iter().flatten() {
        let joined = match (amounts.get(name).and_then(quantity), quantity(amount)) {
            (Some(old), Some(new)) => join(old, new).map(|sum| json!(sum.to_string())),
            _ => Some(amount.clone()),
        };
        amounts.extend(joined.map(|joined| (name.clone(), joined)));
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}
