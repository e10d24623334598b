//! Quota usage of objects: what is counted and measured, and which objects a quota covers. Admission and the quota
//! controller both use it, so that they agree.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchkeeper_meta::GroupResource;
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use crate::builtin;
use crate::rules::resource_names::is_counted_kind;

/// The prefix of counts of any resource.
const COUNT: &str = "count/";

/// The infix of limits per storage class.
pub(crate) const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// The infix of limits per device class.
pub(crate) const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// The resources every container must state if a quota limits them.
pub const STATED: &[&str] = &[
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Amounts by their names in quotas.
pub type Usage = BTreeMap<String, Quantity>;

/// The amounts of a list by name, `{"cpu": "500m"}`; invalid ones are skipped.
pub fn amounts(list: &Value) -> Usage {
    let entries = list.as_object().into_iter().flatten();
    let amounts = entries.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?)));
    amounts.collect()
}

pub(crate) fn number(count: usize) -> Quantity {
    Quantity::new(
        i64::try_from(count).unwrap_or(i64::MAX),
        QuantityFormat::DecimalSi,
    )
}

/// The quota usage of an object.
pub fn usage(resource: &GroupResource, object: &Value) -> Usage {
    let mut usage = Usage::from([(format!("{COUNT}{resource}"), number(1))]);
    if let Some(kind) = builtin::by_plural(&resource.group, &resource.resource) {
        if kind.counted_by_plural {
            usage.insert(kind.plural.to_owned(), number(1));
        }
        (kind.usage)(object, &mut usage);
    }
    usage
}

/// The resource that is counted or measured under a name.
pub fn resource_of(name: &str) -> GroupResource {
    if let Some(counted) = name.strip_prefix(COUNT) {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return GroupResource::new(group.to_owned(), plural.to_owned());
    }
    if name.ends_with(OF_DEVICE_CLASS) {
        let kind = &builtin::RESOURCE_CLAIM;
        return GroupResource::new(kind.group, kind.plural);
    }
    let plural = match name {
        name if is_counted_kind(name) => name,
        name if name.starts_with("services.") => builtin::SERVICE.plural,
        name if name == "requests.storage" || name.contains(OF_CLASS) => {
            builtin::PERSISTENT_VOLUME_CLAIM.plural
        }
        _ => builtin::POD.plural,
    };
    GroupResource::new("", plural.to_owned())
}

/// True if a quota covers an object. Scopes apply to pods, and one to claims.
pub fn is_about(quota: &Value, resource: &GroupResource, object: &Value) -> bool {
    let kind = builtin::by_plural(&resource.group, &resource.resource);
    let is_within = |selector: &Value| {
        if kind == Some(&builtin::POD) {
            return in_scope(selector, object);
        }
        let is_of_classes = selector["scopeName"] == "VolumeAttributesClass";
        kind == Some(&builtin::PERSISTENT_VOLUME_CLAIM)
            && is_of_classes
            && selects(selector, &attributes_classes(object))
    };
    let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten();
    let scopes: Vec<Value> = scopes
        .map(|scope| json!({"scopeName": scope, "operator": "Exists"}))
        .collect();
    let selectors = quota["spec"]["scopeSelector"]["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    scopes.iter().chain(selectors).all(is_within)
}

/// The volume attributes classes of a claim: those it wants, has, and is changing to.
fn attributes_classes(claim: &Value) -> Vec<&str> {
    let stated = [
        &claim["spec"]["volumeAttributesClassName"],
        &claim["status"]["currentVolumeAttributesClassName"],
        &claim["status"]["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    let stated = stated.into_iter().filter_map(Value::as_str);
    stated.filter(|class| !class.is_empty()).collect()
}

/// True if a selector of classes selects any of these, or nothing.
fn selects(selector: &Value, classes: &[&str]) -> bool {
    let values = |class: &str| {
        let mut values = selector["values"].as_array().into_iter().flatten();
        values.any(|value| value == class)
    };
    match selector["operator"].as_str().unwrap_or_default() {
        "Exists" => !classes.is_empty(),
        "DoesNotExist" => classes.is_empty(),
        "In" => classes.iter().any(|class| values(class)),
        "NotIn" => classes.is_empty() || classes.iter().any(|class| !values(class)),
        _ => false,
    }
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
            let class = pod["spec"]["priorityClassName"].as_str();
            let classes: Vec<&str> = class.filter(|class| !class.is_empty()).into_iter().collect();
            selects(selector, &classes)
        }
        _ => false,
    }
}

/// True if a pod has affinity terms for other namespaces.
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
    fn a_scope_selects_claims_by_their_attributes_classes() {
        let claims = GroupResource::new("", "persistentvolumeclaims");
        let check = |operator: &str, values: Value, claim: Value, expected: bool| {
            let scope = json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": values});
            let quota = json!({"spec": {"scopeSelector": {"matchExpressions": [scope]}}});
            assert_eq!(is_about(&quota, &claims, &claim), expected, "{operator} {claim}");
        };
        let plain = json!({"spec": {}});
        let gold = json!({"spec": {"volumeAttributesClassName": "gold"}});
        let leaving = json!({"spec": {"volumeAttributesClassName": "silver"},
            "status": {"currentVolumeAttributesClassName": "gold"}});
        for (operator, expected) in [
            ("In", [false, true, true]),
            ("NotIn", [true, false, true]),
            ("Exists", [false, true, true]),
            ("DoesNotExist", [true, false, false]),
        ] {
            for (claim, expected) in [&plain, &gold, &leaving].into_iter().zip(expected) {
                check(operator, json!(["gold"]), claim.clone(), expected);
            }
        }
        let pods = json!({"spec": {"scopes": ["BestEffort"]}});
        assert!(!is_about(&pods, &claims, &plain));
    }

    #[test]
    fn every_name_belongs_to_one_resource() {
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
