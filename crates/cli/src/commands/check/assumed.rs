//! Objects that manifests refer to but do not contain: assumed to exist in the cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use watchkeeper_meta::Resource;
use watchkeeper_wire::schema::resources;

use super::case::Case;

/// An object assumed to exist.
pub(super) struct Assumed {
    pub(super) resource: Resource,
    pub(super) object: Value,
}

/// The namespaces of objects, and the classes that pods name.
pub(super) fn missing(cases: &[Case<'_>], namespace: &str) -> Vec<Assumed> {
    let given = |kind: &str| -> BTreeSet<&str> {
        let of_kind = cases
            .iter()
            .filter(|case| &*case.manifest.kind.kind == kind && !case.is_test());
        of_kind.map(|case| case.manifest.name.as_str()).collect()
    };
    let named = |field: &str| -> BTreeSet<&str> {
        let pods = cases.iter().filter(|case| &*case.manifest.kind.kind == "Pod");
        pods.filter_map(|case| case.object["spec"][field].as_str())
            .collect()
    };
    let mut namespaces: BTreeSet<&str> = cases
        .iter()
        .map(|case| case.manifest.namespace.as_str())
        .collect();
    namespaces.insert(namespace);
    namespaces.remove("");
    let without = |mentioned: BTreeSet<&str>, given: BTreeSet<&str>| -> Vec<String> {
        mentioned
            .difference(&given)
            .map(|name| (*name).to_owned())
            .collect()
    };
    let mut missing = Vec::new();
    let mut add = |group, version, kind, names: Vec<String>, more: Value| {
        let Some(resource) = resources::by_kind(group, version, kind) else {
            return;
        };
        for name in names {
            let mut object = more.clone();
            object["metadata"] = json!({"name": name});
            missing.push(Assumed {
                resource: resource.resource.clone(),
                object,
            });
        }
    };
    add(
        "",
        "v1",
        "Namespace",
        without(namespaces, given("Namespace")),
        json!({}),
    );
    let priorities = without(named("priorityClassName"), given("PriorityClass"));
    add(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        priorities,
        json!({"value": 0}),
    );
    let runtimes = without(named("runtimeClassName"), given("RuntimeClass"));
    add(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        runtimes,
        json!({"handler": "assumed"}),
    );
    missing
}
