//! The total resources of a pod, and its quota usage.

use serde_json::{Map, Value, json};
use watchkeeper_wire::values::Quantity;

use crate::quota::{STATED, Usage, amounts, number};

/// Adds the quota usage of a pod. A terminated pod counts as an object only.
pub(crate) fn usage(pod: &Value, usage: &mut Usage) {
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        usage.remove(super::KIND.plural);
        return;
    }
    let total = total_with_overhead(pod);
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
    // A resource that a quota limits must be requested; unset counts as zero.
    for name in STATED {
        usage.entry((*name).to_owned()).or_insert_with(|| number(0));
    }
}

/// The resources of a pod as a whole, and those that its runtime needs besides.
pub fn total_with_overhead(pod: &Value) -> Value {
    let mut total = total(pod);
    let add = |old: Quantity, new: Quantity| old.checked_add(&new);
    let overhead = &pod["spec"]["overhead"];
    for list in ["requests", "limits"] {
        if let Some(amounts) = total[list].as_object_mut() {
            let mut more = overhead.clone();
            if let (Some(more), "limits") = (more.as_object_mut(), list) {
                // What has no limit stays without.
                more.retain(|name, _| amounts.contains_key(name));
            }
            merge(amounts, &more, add);
        }
    }
    total
}

/// True if a pod states resources as a whole.
pub fn has_pod_resources(pod: &Value) -> bool {
    let stated = ["requests", "limits"].map(|list| pod["spec"]["resources"][list].as_object());
    stated
        .into_iter()
        .flatten()
        .flatten()
        .any(|(name, _)| is_of_pods(name))
}

/// True for a resource that can be stated for a pod as a whole.
pub(crate) fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The resources of a pod as a whole: what it states, or what its containers need.
pub fn total(pod: &Value) -> Value {
    let mut total = json!({});
    let spec = &pod["spec"];
    for list in ["requests", "limits"] {
        let mut amounts = of_containers(spec, list);
        let stated = spec["resources"][list].as_object().into_iter().flatten();
        let stated = stated.filter(|(name, _)| is_of_pods(name));
        amounts.extend(stated.map(|(name, amount)| (name.clone(), amount.clone())));
        total[list] = Value::Object(amounts);
    }
    total
}

/// The requests or limits of all containers: the sum over containers and sidecars, or the highest sum while init
/// containers run, each next to the sidecars started before it.
pub(crate) fn of_containers(spec: &Value, list: &str) -> Map<String, Value> {
    let mut amounts: Map<String, Value> = Map::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        merge(&mut amounts, &container["resources"][list], |old, new| {
            old.checked_add(&new)
        });
    }
    let (mut sidecars, mut before): (Map<String, Value>, _) = (Map::new(), Map::new());
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let own = &container["resources"][list];
        // Only its own resources: the sidecars' others are counted since these started.
        let names = own.as_object().into_iter().flatten().map(|(name, _)| name);
        let of_sidecars = names.filter_map(|name| Some((name.clone(), sidecars.get(name)?.clone())));
        let mut together: Map<String, Value> = of_sidecars.collect();
        merge(&mut together, own, |old, new| old.checked_add(&new));
        let together = Value::Object(together);
        merge(&mut before, &together, |old, new| Some(old.max(new)));
        if container["restartPolicy"] == "Always" {
            merge(&mut amounts, own, |old, new| old.checked_add(&new));
            sidecars.extend(together.as_object().cloned().unwrap_or_default());
        }
    }
    merge(&mut amounts, &Value::Object(before), |old, new| {
        Some(old.max(new))
    });
    amounts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_add_up_and_init_containers_run_next_to_them() {
        let container = |cpu: &str, policy: Value| json!({"resources": {"requests": {"cpu": cpu}}, "restartPolicy": policy});
        let check = |init: Vec<Value>, wanted: &str| {
            let pod = json!({"spec": {"containers": [container("1", Value::Null)], "initContainers": init}});
            assert_eq!(total(&pod)["requests"]["cpu"], wanted);
        };
        let (init, sidecar) = (
            |cpu: &str| container(cpu, Value::Null),
            |cpu: &str| container(cpu, json!("Always")),
        );
        check(vec![init("3")], "3");
        check(vec![sidecar("500m")], "1500m");
        check(vec![init("3"), sidecar("500m")], "3");
        check(vec![sidecar("500m"), init("3")], "3500m");
    }

    #[test]
    fn a_pod_has_what_it_states_as_a_whole_and_its_runtime_needs_more() {
        let container =
            json!({"resources": {"requests": {"cpu": "1", "a.b/c": "1"}, "limits": {"memory": "1Gi"}}});
        let pod = json!({"spec": {
            "containers": [container], "resources": {"requests": {"cpu": "3"}},
            "overhead": {"cpu": "250m", "memory": "1Gi"},
        }});
        assert_eq!(
            total(&pod),
            json!({"requests": {"cpu": "3", "a.b/c": "1"}, "limits": {"memory": "1Gi"}})
        );
        assert_eq!(
            total_with_overhead(&pod),
            json!({"requests": {"cpu": "3250m", "a.b/c": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}})
        );
    }
}
