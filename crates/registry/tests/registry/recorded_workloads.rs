//! Recorded writes of pods, workloads and namespaces.

use crate::recording::{Report, cases, replay, writes_any};

/// The resources whose answers are compared.
const RESOURCES: &[&str] = &[
    "controllerrevisions",
    "cronjobs",
    "daemonsets",
    "deployments",
    "jobs",
    "namespaces",
    "pods",
    "podtemplates",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
];

/// Cases with steps that need a server and affect later steps.
const NEEDS_SERVER: &[&str] = &[
    // Namespaces are finalized by a subresource.
    "crud/namespace.json",
    "patch/scale-subresource.json",
    "protobuf/deployment.json",
    "protobuf/pod.json",
    "subresource/binding.json",
    "subresource/eviction.json",
    "subresource/pod-status-and-ephemeral.json",
    "watch/field-selectors.json",
];

/// Known differences, with the reason.
const DIFFERS: &[(&str, &str)] = &[];

#[tokio::test]
async fn writes_are_answered_as_recorded() {
    let mut report = Report::new(DIFFERS);
    for (file, case) in cases() {
        if !writes_any(&case, RESOURCES) || NEEDS_SERVER.contains(&file.as_str()) {
            continue;
        }
        for exchange in replay(&file, &case).await {
            if !RESOURCES.contains(&exchange.resource.as_str()) || exchange.method == "DELETE" {
                continue;
            }
            report.add(&exchange);
        }
    }
    report.finish(100);
}
