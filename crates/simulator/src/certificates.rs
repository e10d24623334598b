//! Certificates: kubelets' requests are approved, approved requests are signed, and old ones are deleted.
//!
//! The signers are those of kube-controller-manager. Without an authority nothing is signed.

pub(crate) mod authority;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_kinds::{AlternativeName, CertificateRequest, requested_certificate};
use watchkeeper_runtime::controller::{Action, Request};

use self::authority::{SigningAuthority, expiry};
use crate::cluster::{Cluster, Task, ignore_gone};
use crate::item::Item;
use crate::kinds::{certificate_signing_requests, subject_access_reviews};
use crate::time;

const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// How long requests are kept after they were decided, and how long undecided ones are.
const DECIDED_SECONDS: i64 = 3600;
const PENDING_SECONDS: i64 = 24 * 3600;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster, authority: Option<Arc<SigningAuthority>>) -> Task {
    let controller = cluster.controller("certificates", &certificate_signing_requests());
    cluster.run(controller, move |cluster, request| {
        reconcile(cluster, authority.clone(), request)
    })
}

async fn reconcile(
    cluster: Cluster,
    authority: Option<Arc<SigningAuthority>>,
    request: Request,
) -> Result<Action, Error> {
    let Some(request) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let Some(left) = time_left(&request) else {
        cluster
            .delete(&certificate_signing_requests(), &request, None)
            .await?;
        return Ok(Action::Done);
    };
    let is_issued = !request.text("/status/certificate").is_empty();
    let (is_approved, is_denied) = (request.has_condition("Approved"), request.has_condition("Denied"));
    match requested_certificate(request.value()) {
        Some(asked) if !is_issued && !is_approved && !is_denied => {
            approve_kubelet(&cluster, &request, &asked).await?;
        }
        Some(asked) if !is_issued && is_approved && !is_denied && !request.has_condition("Failed") => {
            if let Some(authority) = authority {
                sign(&cluster, &authority, &request, &asked).await?;
            }
        }
        _ => {}
    }
    Ok(Action::After(left))
}

/// Approves a kubelet's request for a client certificate if whoever sent it may have one.
async fn approve_kubelet(cluster: &Cluster, request: &Item, asked: &CertificateRequest) -> Result<(), Error> {
    let is_of_kubelet = request.text("/spec/signerName") == KUBELET_CLIENT;
    if !is_of_kubelet || refusal_of_kubelet_client(asked, &usages(request)).is_some() {
        return Ok(());
    }
    let of_itself = (
        "selfnodeclient",
        "Auto approving self kubelet client certificate after SubjectAccessReview.",
    );
    let of_any = (
        "nodeclient",
        "Auto approving kubelet client certificate after SubjectAccessReview.",
    );
    let is_itself = request.text("/spec/username") == asked.common_name;
    for (subresource, message) in is_itself.then_some(of_itself).into_iter().chain([of_any]) {
        if may_create(cluster, request, subresource).await? {
            let condition = json!({
                "type": "Approved", "status": "True", "reason": "AutoApproved", "message": message,
            });
            return add_condition(cluster, request, "approval", condition).await;
        }
    }
    Ok(())
}

/// True if the user of a request may create such requests.
async fn may_create(cluster: &Cluster, request: &Item, subresource: &str) -> Result<bool, Error> {
    let spec = &request["spec"];
    let kind = subject_access_reviews().group_version_kind();
    let review = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "spec": {
            "user": spec["username"], "uid": spec["uid"], "groups": spec["groups"], "extra": spec["extra"],
            "resourceAttributes": {
                "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
                "subresource": subresource,
            },
        },
    });
    let answer = cluster.api(&subject_access_reviews(), "").create(&review).await?;
    Ok(Item::read(&answer).at("/status/allowed") == true)
}

/// Signs an approved request, or says why that signer does not.
async fn sign(
    cluster: &Cluster,
    authority: &SigningAuthority,
    request: &Item,
    asked: &CertificateRequest,
) -> Result<(), Error> {
    let usages = usages(request);
    let refused = match request.text("/spec/signerName") {
        "kubernetes.io/kube-apiserver-client" => refusal_of_client(&usages),
        KUBELET_CLIENT => refusal_of_kubelet_client(asked, &usages),
        "kubernetes.io/kubelet-serving" => refusal_of_kubelet_serving(asked, &usages),
        "kubernetes.io/legacy-unknown" => None,
        _ => return Ok(()),
    };
    if let Some(why) = refused {
        let condition = json!({
            "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
            "lastUpdateTime": time::timestamp(),
        });
        return add_condition(cluster, request, "status", condition).await;
    }
    let seconds = request["spec"]["expirationSeconds"].as_i64();
    let Some(certificate) = authority.sign(asked, &usages, seconds, time::now()) else {
        tracing::warn!(
            request = request.name(),
            "the authority has expired or its key cannot sign"
        );
        return Ok(());
    };
    let mut status = request["status"].clone();
    status["certificate"] = json!(BASE64.encode(certificate));
    cluster
        .replace_status_of(&certificate_signing_requests(), request, "status", status)
        .await
}

async fn add_condition(
    cluster: &Cluster,
    request: &Item,
    subresource: &str,
    condition: Value,
) -> Result<(), Error> {
    let mut conditions = request.list("/status/conditions").to_vec();
    conditions.push(condition);
    let mut status = request["status"].clone();
    status["conditions"] = Value::Array(conditions);
    let written = cluster
        .replace_status_of(&certificate_signing_requests(), request, subresource, status)
        .await;
    ignore_gone(written)
}

fn usages(request: &Item) -> Vec<&str> {
    let mut usages: Vec<&str> = request
        .list("/spec/usages")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    usages.sort_unstable();
    usages.dedup();
    usages
}

/// The reason to refuse a client certificate, in Kubernetes' words.
fn refusal_of_client(usages: &[&str]) -> Option<String> {
    const OPTIONAL: [&str; 2] = ["digital signature", "key encipherment"];
    let mut others = usages.iter().filter(|usage| !OPTIONAL.contains(usage));
    match others.find(|usage| **usage != "client auth") {
        Some(other) => Some(format!("invalid usage for client certificate: {other}")),
        None if usages.contains(&"client auth") => None,
        None => Some("missing required usage for client certificate: client auth".to_owned()),
    }
}

/// The reason to refuse the client certificate of a kubelet, in Kubernetes' words.
fn refusal_of_kubelet_client(asked: &CertificateRequest, usages: &[&str]) -> Option<String> {
    let has = |is: fn(&AlternativeName) -> bool| asked.alternative_names.iter().any(is);
    let why = if asked.organizations != ["system:nodes"] {
        "subject organization is not system:nodes"
    } else if has(|name| matches!(name, AlternativeName::Dns(_))) {
        "DNS subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AlternativeName::Email(_))) {
        "Email subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AlternativeName::Ip(_))) {
        "IP subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AlternativeName::Uri(_))) {
        "URI subjectAltNames are not allowed"
    } else if !asked.common_name.starts_with("system:node:") {
        "subject common name does not begin with system:node:"
    } else {
        return refusal_of_usages("client auth", usages);
    };
    Some(why.to_owned())
}

/// The reason to refuse the serving certificate of a kubelet, in Kubernetes' words.
fn refusal_of_kubelet_serving(asked: &CertificateRequest, usages: &[&str]) -> Option<String> {
    let has = |is: fn(&AlternativeName) -> bool| asked.alternative_names.iter().any(is);
    let why = if asked.organizations != ["system:nodes"] {
        "subject organization is not system:nodes"
    } else if !has(|name| matches!(name, AlternativeName::Dns(_) | AlternativeName::Ip(_))) {
        "DNS or IP subjectAltName is required"
    } else if has(|name| matches!(name, AlternativeName::Email(_))) {
        "Email subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AlternativeName::Uri(_))) {
        "URI subjectAltNames are not allowed"
    } else if let Some(why) = refusal_of_usages("server auth", usages) {
        return Some(why);
    } else if !asked.common_name.starts_with("system:node:") {
        "subject common name does not begin with system:node:"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// The reason to refuse sorted usages of a kubelet. A key that only signs needs no key encipherment.
fn refusal_of_usages(purpose: &str, usages: &[&str]) -> Option<String> {
    let mut all = ["digital signature", "key encipherment", purpose];
    all.sort_unstable();
    let signing: Vec<&str> = all
        .into_iter()
        .filter(|usage| *usage != "key encipherment")
        .collect();
    (usages != all && usages != signing).then(|| format!("usages did not match [{}]", all.join(" ")))
}

/// The time until a request is deleted; `None` if that has come.
fn time_left(request: &Item) -> Option<Duration> {
    let mut ends = Vec::new();
    let certificate = request.text("/status/certificate");
    let is_issued = !certificate.is_empty();
    for condition in request.list("/status/conditions") {
        let seconds = match condition["type"].as_str().unwrap_or_default() {
            "Approved" if !is_issued => PENDING_SECONDS,
            "Approved" | "Denied" | "Failed" => DECIDED_SECONDS,
            _ => continue,
        };
        ends.extend(time::read(&condition["lastUpdateTime"]).map(|since| (since, seconds)));
    }
    if request.list("/status/conditions").is_empty() {
        let created = time::read(&request["metadata"]["creationTimestamp"]);
        ends.extend(created.map(|since| (since, PENDING_SECONDS)));
    }
    if request.has_condition("Approved") && is_issued {
        ends.extend(
            BASE64
                .decode(certificate)
                .ok()
                .and_then(|pem| expiry(&pem))
                .map(|end| (end, 0)),
        );
    }
    let mut left = Duration::from_secs(PENDING_SECONDS.unsigned_abs());
    for (since, seconds) in ends {
        left = left.min(time::left(since, seconds)?);
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    fn kubelet(names: &[AlternativeName]) -> CertificateRequest {
        CertificateRequest {
            common_name: "system:node:n1".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            alternative_names: names.to_vec(),
            ..CertificateRequest::default()
        }
    }

    #[test]
    fn a_signer_refuses_in_kubernetes_words() {
        assert_eq!(refusal_of_client(&["client auth", "digital signature"]), None);
        let why = |usages: &[&str]| refusal_of_client(usages).unwrap();
        assert_eq!(
            why(&["client auth", "server auth"]),
            "invalid usage for client certificate: server auth"
        );
        assert_eq!(
            why(&["digital signature"]),
            "missing required usage for client certificate: client auth"
        );
        let (client, server) = (
            ["client auth", "digital signature"],
            ["digital signature", "key encipherment", "server auth"],
        );
        let dns = [AlternativeName::Dns(b"n1".to_vec())];
        assert_eq!(refusal_of_kubelet_client(&kubelet(&[]), &client), None);
        assert_eq!(refusal_of_kubelet_serving(&kubelet(&dns), &server), None);
        assert_eq!(
            refusal_of_kubelet_client(&kubelet(&dns), &client).unwrap(),
            "DNS subjectAltNames are not allowed"
        );
        assert_eq!(
            refusal_of_kubelet_serving(&kubelet(&[]), &server).unwrap(),
            "DNS or IP subjectAltName is required"
        );
        assert_eq!(
            refusal_of_kubelet_serving(&kubelet(&dns), &client).unwrap(),
            "usages did not match [digital signature key encipherment server auth]"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn old_requests_are_deleted() {
        let request = |conditions: Value, certificate: &str| {
            item(&json!({
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                "metadata": {"name": "r", "creationTimestamp": time::timestamp()},
                "status": {"conditions": conditions, "certificate": certificate},
            }))
        };
        let condition =
            |kind: &str| json!([{"type": kind, "status": "True", "lastUpdateTime": time::timestamp()}]);
        let requests = [
            request(json!([]), ""),
            request(condition("Approved"), ""),
            request(condition("Approved"), "eA=="),
            request(condition("Denied"), ""),
        ];
        let kept = || requests.each_ref().map(|request| time_left(request).is_some());
        tokio::time::advance(Duration::from_secs(3500)).await;
        assert_eq!(kept(), [true; 4]);
        tokio::time::advance(Duration::from_secs(200)).await;
        assert_eq!(kept(), [true, true, false, false]);
        tokio::time::advance(Duration::from_secs(24 * 3600)).await;
        assert_eq!(kept(), [false; 4]);
    }
}
