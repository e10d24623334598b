//! Scale, binding, eviction, tokens, approval and the like, as a recorded Kubernetes server answers them.

#[path = "support/recording.rs"]
mod recording;

use recording::{Exchange, cases, replay};

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
        "patch/scale-subresource.json deployment",
        "an applied scale says when it was applied",
    ),
    (
        "subresource/csr-approval.json unknown-sub",
        "which addresses there are is the server's to say",
    ),
    (
        "subresource/csr-approval.json unknown-sub-svc",
        "which addresses there are is the server's to say",
    ),
    (
        "subresource/pod-status-and-ephemeral.json ephemeral-on-main",
        "the change is told in fields, not as a difference of Go structs",
    ),
    (
        "subresource/pod-status-and-ephemeral.json resize-on-main",
        "the change is told in fields, not as a difference of Go structs",
    ),
];

#[tokio::test]
async fn subresources_answer_as_recorded() {
    let mut wrong = Vec::new();
    let mut right = 0;
    for (file, case) in cases() {
        if !CASES.iter().any(|about| file.starts_with(about)) {
            continue;
        }
        for exchange in replay(&file, &case).await {
            // The registry returns the object where a server may answer with a Status.
            if exchange.method == "DELETE" {
                continue;
            }
            let is_known = DIFFERS.iter().any(|(name, _)| *name == exchange.name);
            match exchange.got == exchange.expected {
                true if is_known => wrong.push(format!("{} no longer differs", exchange.name)),
                true => right += 1,
                false if is_known => {}
                false => wrong.push(difference(&exchange)),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{right} as recorded, {} not:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(right > 60, "only {right} answers were compared");
}

fn difference(exchange: &Exchange) -> String {
    let (got, expected) = (&exchange.got, &exchange.expected);
    format!(
        "{}\n  recorded {} {:?}\n  got      {} {:?}",
        exchange.name, expected.body, expected.warnings, got.body, got.warnings
    )
}
