//! What objects take of a quota: how they are counted and measured, and which of them a quota is about. Admission charges
//! by this, and whoever keeps the status of quotas counts by it, so that the two agree.
//!
//! Not counted: device and volume attributes classes, and pod-level resources.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchkeeper_meta::GroupResource;
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use crate::admission::limit_range;
use crate::kinds::resource_names::is_counted_kind;

/// Before the name of any resource, which is then counted.
const COUNT: &str = "count/";

/// Within the name of what claims of one class take.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// What every container must ask for by itself if it is limited.
pub(crate) const STATED: &[&str] = &[
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Amounts by the names under which a quota limits them.
pub type Usage = BTreeMap<String, Quantity>;

/// The amounts of a list by name, `{"cpu": "500m"}`; what is none is left out.
pub fn amounts(list: &Value) -> Usage {
    let entries = list.as_object().into_iter().flatten();
    let amounts = entries.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?)));
    amounts.collect()
}

fn number(count: usize) -> Quantity {
    Quantity::new(
        i64::try_from(count).unwrap_or(i64::MAX),
        QuantityFormat::DecimalSi,
    )
}

/// Everything an object takes that a quota can limit.
pub fn usage(resource: &GroupResource, object: &Value) -> Usage {
    let mut usage = Usage::from([(format!("{COUNT}{resource}"), number(1))]);
    let core = match &*resource.group {
        "" => &*resource.resource,
        _ => "",
    };
    if is_counted_kind(core) {
        usage.insert(core.to_owned(), number(1));
    }
    match core {
        "pods" => pod_usage(object, &mut usage),
        "services" => service_usage(object, &mut usage),
        "persistentvolumeclaims" => claim_usage(object, &mut usage),
        _ => {}
    }
    usage
}

/// A pod that has ended takes nothing but its place in the store.
fn pod_usage(pod: &Value, usage: &mut Usage) {
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        usage.remove("pods");
        return;
    }
    let total = limit_range::total(pod);
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

fn service_usage(service: &Value, usage: &mut Usage) {
    let ports = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    let (balancers, node_ports) = match service["spec"]["type"].as_str() {
        Some("NodePort") => (0, ports),
        Some("LoadBalancer") => {
            let given = |port: &&Value| port["nodePort"].as_i64().unwrap_or_default() != 0;
            let ports = service["spec"]["ports"].as_array().into_iter().flatten();
            (1, ports.filter(given).count())
        }
        _ => (0, 0),
    };
    usage.insert("services.loadbalancers".to_owned(), number(balancers));
    usage.insert("services.nodeports".to_owned(), number(node_ports));
}

fn claim_usage(claim: &Value, usage: &mut Usage) {
    let size = claim["spec"]["resources"]["requests"]["storage"].as_str();
    let size: Option<Quantity> = size.and_then(|size| size.parse().ok());
    let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let of_class = |what: &str| format!("{class}{OF_CLASS}{what}");
    if !class.is_empty() {
        usage.insert(of_class("persistentvolumeclaims"), number(1));
    }
    if let Some(size) = size {
        if !class.is_empty() {
            usage.insert(of_class("requests.storage"), size.clone());
        }
        usage.insert("requests.storage".to_owned(), size);
    }
}

/// The resource whose objects are counted or measured under a name.
pub fn resource_of(name: &str) -> GroupResource {
    if let Some(counted) = name.strip_prefix(COUNT) {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return GroupResource::new(group.to_owned(), plural.to_owned());
    }
    let plural = match name {
        name if is_counted_kind(name) => name,
        name if name.starts_with("services.") => "services",
        name if name == "requests.storage" || name.contains(OF_CLASS) => "persistentvolumeclaims",
        _ => "pods",
    };
    GroupResource::new("", plural.to_owned())
}

/// Whether a quota means an object. Scopes are about pods.
pub fn is_about(quota: &Value, resource: &GroupResource, object: &Value) -> bool {
    let is_pod = resource.group.is_empty() && resource.resource == "pods";
    let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten();
    let scopes: Vec<Value> = scopes
        .map(|scope| json!({"scopeName": scope, "operator": "Exists"}))
        .collect();
    let selectors = quota["spec"]["scopeSelector"]["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    scopes
        .iter()
        .chain(selectors)
        .all(|selector| is_pod && in_scope(selector, object))
}

fn in_scope(selector: &Value, pod: &Value) -> bool {
    let ends = pod["spec"]["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0);
    let is_best_effort = || pod["status"]["qosClass"] == "BestEffort";
    match selector["scopeName"].as_str().unwrap_or_default() {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "CrossNamespacePodAffinity" => reaches_out(pod),
        "PriorityClass" => {
            let class = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
            let values = || selector["values"].as_array().into_iter().flatten();
            match selector["operator"].as_str().unwrap_or_default() {
                "Exists" => !class.is_empty(),
                "DoesNotExist" => class.is_empty(),
                "In" => values().any(|value| value == class),
                "NotIn" => values().all(|value| value != class),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Whether a pod wants to be near, or far from, pods of other namespaces.
fn reaches_out(pod: &Value) -> bool {
    let affinity = &pod["spec"]["affinity"];
    let terms = ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|kind| {
        let required = affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = preferred
            .into_iter()
            .flatten()
            .map(|weighted| &weighted["podAffinityTerm"]);
        required.into_iter().flatten().chain(preferred)
    });
    let mut terms = terms;
    terms.any(|term| {
        term["namespaces"]
            .as_array()
            .is_some_and(|names| !names.is_empty())
            || !term["namespaceSelector"].is_null()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_measured_by_one_resource() {
        let check = |name: &str, resource: &str| assert_eq!(resource_of(name).to_string(), resource);
        check("pods", "pods");
        check("requests.cpu", "pods");
        check("limits.ephemeral-storage", "pods");
        check("count/pods", "pods");
        check("count/deployments.apps", "deployments.apps");
        check("count/widgets.example.com", "widgets.example.com");
        check("services.nodeports", "services");
        check("requests.storage", "persistentvolumeclaims");
        check(
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
            "persistentvolumeclaims",
        );
    }
}
