//! Requests for the certificates of pods.

use serde_json::{Value, json};

use crate::recording::{registry, send};
use crate::refusals::{check, check_change};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";

/// A request in PKCS#10, without the lines around it.
fn stub(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with('-')).collect()
}

fn ed25519() -> String {
    stub(include_str!(
        "../../../kinds/src/rules/certificate_request/ed25519.pem"
    ))
}

fn request() -> Value {
    json!({
        "metadata": {"name": "x"},
        "spec": {
            "signerName": "example.com/signer",
            "podName": "p", "podUID": "1",
            "serviceAccountName": "s", "serviceAccountUID": "2",
            "nodeName": "n", "nodeUID": "3",
            "stubPKCS10Request": ed25519(),
        },
    })
}

#[tokio::test]
async fn a_pod_certificate_request_names_its_pod_and_asks_for_a_lifetime() {
    let long = "u".repeat(129);
    check(
        REQUESTS,
        request(),
        &[
            ("/spec/maxExpirationSeconds", json!(7_862_400), ""),
            (
                "/spec/maxExpirationSeconds",
                json!(3599),
                "spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]",
            ),
            ("/spec/podUID", json!(""), "spec.podUID: Invalid value: \"\": must not be empty"),
            ("/spec/nodeUID", json!(long), "spec.nodeUID: Too long: may not be more than 128 bytes"),
            ("/spec/signerName", json!(""), "spec.signerName: Required value"),
            (
                "/spec/unverifiedUserAnnotations",
                json!({"plain": "x"}),
                "spec.unverifiedUserAnnotations: Invalid value: \"plain\": must be a domain-prefixed key (such as \
                 \"acme.io/foo\")",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_pod_certificate_request_is_signed_by_its_own_key() {
    const AT: &str = "/spec/stubPKCS10Request";
    let mut forged = ed25519();
    let end = forged.len() - 6;
    forged.replace_range(
        end..end + 1,
        if forged.as_bytes()[end] == b'A' { "B" } else { "A" },
    );
    let p521 = stub(include_str!(
        "../../../kinds/src/rules/certificate_request/p521.pem"
    ));
    check(
        REQUESTS,
        request(),
        &[
            (AT, json!(p521), ""),
            (AT, json!(forged), "spec.stubPKCS10Request: Invalid value: could not verify signature"),
            (
                AT,
                json!("AAAA"),
                "spec.stubPKCS10Request: Invalid value: \"AAAA\": must be a valid PKCS#10 certificate signing request",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_spec_of_a_pod_certificate_request_is_immutable() {
    let spec =
        r#"{"SignerName":"example.com/signer","PodName":"other","PodUID":"1","ServiceAccountName":"s","#;
    let rest = format!(
        r#""ServiceAccountUID":"2","NodeName":"n","NodeUID":"3","MaxExpirationSeconds":86400,"PKIXPublicKey":null,"ProofOfPossession":null,"StubPKCS10Request":"{}","UnverifiedUserAnnotations":null}}"#,
        ed25519()
    );
    check_change(
        REQUESTS,
        request(),
        &[
            ("/metadata/labels", json!({"a": "b"}), ""),
            (
                "/spec/podName",
                json!("other"),
                &format!("spec: Invalid value: {spec}{rest}: field is immutable"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_pod_certificate_request_can_be_denied_once() {
    let registry = registry().await;
    send(&registry, "POST", REQUESTS, request()).await.unwrap();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let deny = |kind: &str| json!({"status": {"conditions": [condition(kind)]}});
    let status = format!("{REQUESTS}/x/status");
    let denied = send(&registry, "PATCH", &status, deny("Denied")).await.unwrap();
    assert_eq!(denied["status"]["conditions"][0]["type"], "Denied");
    let again = send(&registry, "PATCH", &status, deny("Failed"))
        .await
        .unwrap_err();
    assert_eq!(
        again.message,
        "PodCertificateRequest.certificates.k8s.io \"x\" is invalid: status: Invalid value: immutable after \
         PodCertificateRequest is issued, denied, or failed"
    );
}
