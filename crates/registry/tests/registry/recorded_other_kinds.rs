//! Everything but pods, workloads, services and namespaces, as a recorded Kubernetes server writes it.

use crate::recording::{Exchange, Report, cases, replay, writes_any};

/// Whose answers are compared.
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

/// Config maps are what most cases about something else write; these areas are about them.
const ABOUT_CONFIG_MAPS: &[&str] = &["crud/", "update/", "validation/"];

/// What is known to differ, and why.
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
                // Said of every request about them, by the server.
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
