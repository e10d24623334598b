//! Scale, binding, eviction, tokens, approval and the like, as a recorded Kubernetes server answers them.

use crate::recording::{Report, cases, replay};

/// Cases about subresources.
const CASES: &[&str] = &[
    "crud/certificate-signing-request.json",
    "crud/namespace.json",
    "patch/scale-subresource.json",
    "subresource/",
    "watch/field-selectors.json",
];

/// What is known to differ, and why.
const DIFFERS: &[(&str, &str)] = &[
    (
        "subresource/csr-approval.json unknown-sub",
        "which addresses there are is the server's to say",
    ),
    (
        "subresource/csr-approval.json unknown-sub-svc",
        "which addresses there are is the server's to say",
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
            // The registry returns the object where a server may answer with a Status.
            if exchange.method == "DELETE" {
                continue;
            }
            report.add(&exchange);
        }
    }
    report.finish(60);
}
