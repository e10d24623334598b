//! Recorded requests to subresources: scale, binding, eviction, token, approval and others.

use crate::recording::{Report, cases, replay};

/// The cases about subresources.
const CASES: &[&str] = &[
    "crud/certificate-signing-request.json",
    "crud/namespace.json",
    "patch/scale-subresource.json",
    "subresource/",
    "watch/field-selectors.json",
];

/// Known differences, with the reason.
const DIFFERS: &[(&str, &str)] = &[
    (
        "subresource/csr-approval.json unknown-sub",
        "routing is the server's task",
    ),
    (
        "subresource/csr-approval.json unknown-sub-svc",
        "routing is the server's task",
    ),
];

#[tokio::test]
async fn subresources_answer_as_recorded() {
    let mut report = Report::new(DIFFERS);
    for (file, case) in cases() {
        if !CASES.iter().any(|about| file.starts_with(about)) {
            continue;
        }
        for exchange in replay(&file, &case).await {
            // The registry returns the object even where a server may answer with a Status.
            if exchange.method == "DELETE" {
                continue;
            }
            report.add(&exchange);
        }
    }
    report.finish(60);
}
