//! Recorded writes of all kinds but pods, workloads, services and namespaces.

use crate::recording::{Exchange, Report, cases, replay, writes_any};

/// The resources whose answers are compared.
const RESOURCES: &[&str] = &[
    "certificatesigningrequests",
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "endpoints",
    "endpointslices",
    "events",
    "horizontalpodautoscalers",
    "ingressclasses",
    "ingresses",
    "leases",
    "limitranges",
    "mutatingwebhookconfigurations",
    "networkpolicies",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets",
    "priorityclasses",
    "resourcequotas",
    "rolebindings",
    "roles",
    "runtimeclasses",
    "secrets",
    "serviceaccounts",
    "storageclasses",
    "validatingadmissionpolicies",
    "validatingwebhookconfigurations",
];

/// Most cases about other topics write config maps; these areas are about config maps themselves.
const ABOUT_CONFIG_MAPS: &[&str] = &["crud/", "update/", "validation/"];

/// Known differences, with the reason.
const DIFFERS: &[(&str, &str)] = &[];

#[tokio::test]
async fn writes_are_answered_as_recorded() {
    let mut report = Report::new(DIFFERS);
    for (file, case) in cases() {
        if !writes_any(&case, RESOURCES) {
            continue;
        }
        for mut exchange in replay(&file, &case).await {
            if !is_compared(&file, &exchange) {
                continue;
            }
            if exchange.resource == "endpoints" {
                // This warning comes from the server, not from the registry.
                exchange
                    .expected
                    .warnings
                    .retain(|text| !text.contains("is deprecated in"));
            }
            report.add(&exchange);
        }
    }
    report.finish(100);
}

fn is_compared(file: &str, exchange: &Exchange) -> bool {
    let is_write = !matches!(exchange.method.as_str(), "GET" | "DELETE");
    let is_about = exchange.resource != "configmaps"
        || ABOUT_CONFIG_MAPS.iter().any(|area| file.starts_with(area))
        || exchange.name == "create/too-large.json data-limit";
    is_write && is_about && RESOURCES.contains(&exchange.resource.as_str())
}
