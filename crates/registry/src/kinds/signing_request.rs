//! Certificate signing requests: asked for once, approved or denied by someone else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use watchkeeper_meta::validation::dns1123_subdomain;
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{items, one_of, required, set_default, text};
use super::defaulting::items_mut;
use super::formats::each;
use super::{Hooks, PLAIN};
use crate::update::Part;
use crate::user::User;

const MIN_SECONDS: i64 = 600;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) const HOOKS: Hooks = Hooks {
    prepare_for_update: |part, request, live, now| {
        request["spec"] = live["spec"].clone();
        match part {
            Part::Approval => stamp_conditions(request, now),
            Part::Status => keep_decision(request, live),
            _ => {}
        }
    },
    faults,
    update_faults: |part, request, live| match part {
        Part::Object => Vec::new(),
        _ => status_faults(request, live),
    },
    ..PLAIN
};

/// Says since when each condition holds, unless it says so itself.
fn stamp_conditions(request: &mut Value, now: &str) {
    let Some(status) = request.get_mut("status") else {
        return;
    };
    for condition in items_mut(status, "conditions") {
        set_default(condition, "lastUpdateTime", now);
        set_default(condition, "lastTransitionTime", now);
    }
}

/// Who signs does not decide.
fn keep_decision(request: &mut Value, live: &Value) {
    let is_decision = |condition: &Value| matches!(text(condition, "/type"), "Approved" | "Denied");
    let decided = items(live, "/status/conditions").filter(|condition| is_decision(condition));
    let others = items(request, "/status/conditions").filter(|condition| !is_decision(condition));
    let conditions: Vec<Value> = decided.chain(others).cloned().collect();
    if !conditions.is_empty() {
        request["status"]["conditions"] = Value::Array(conditions);
    }
}

/// Who asks for the certificate is the server's to say.
pub(super) fn sign(request: &mut Value, requester: Option<&User>) {
    let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for owned in ["username", "uid", "groups", "extra"] {
        spec.remove(owned);
    }
    if let Some(requester) = requester {
        spec.insert("username".to_owned(), json!(requester.name));
        spec.insert("uid".to_owned(), json!(requester.uid));
        spec.insert("groups".to_owned(), json!(requester.groups));
    }
}

fn faults(request: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let body = text(request, "/spec/request");
    let pem = BASE64.decode(body).unwrap_or_default();
    if !has_block(&pem, "CERTIFICATE REQUEST") {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        faults.push(FieldError::invalid(&spec.child("request"), body, why));
    }
    let usages = spec.child("usages");
    if items(request, "/spec/usages").next().is_none() {
        faults.push(FieldError::required(&usages, ""));
    }
    for (index, usage) in items(request, "/spec/usages").enumerate() {
        one_of(
            &mut faults,
            &usages.index(index),
            usage.as_str().unwrap_or_default(),
            USAGES,
        );
    }
    signer_faults(
        text(request, "/spec/signerName"),
        &spec.child("signerName"),
        &mut faults,
    );
    if let Some(seconds) = request["spec"]["expirationSeconds"].as_i64()
        && seconds < MIN_SECONDS
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        faults.push(FieldError::invalid(
            &spec.child("expirationSeconds"),
            seconds,
            why,
        ));
    }
    faults
}

fn has_block(pem: &[u8], kind: &str) -> bool {
    String::from_utf8_lossy(pem).contains(&format!("-----BEGIN {kind}-----"))
}

fn signer_faults(signer: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    if signer.is_empty() {
        return required(faults, path, signer);
    }
    match signer.split_once('/') {
        Some((domain, name)) if !domain.is_empty() && !name.is_empty() && !name.contains('/') => {
            each(faults, path, signer, dns1123_subdomain(domain));
        }
        _ => {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            each(faults, path, signer, [why]);
        }
    }
}

fn status_faults(request: &Value, live: &Value) -> Vec<FieldError> {
    let status = FieldPath::new("status");
    let mut faults = Vec::new();
    let has = |kind: &str| items(request, "/status/conditions").any(|condition| condition["type"] == kind);
    if has("Approved") && has("Denied") {
        let [approved, denied] =
            ["Approved", "Denied"].map(|kind| format!(r#"conditions[{{"type": "{kind}"}}]"#));
        let why = format!("must specify at most one of: `{approved}`, `{denied}`");
        let shown = format!("{{{approved}, {denied}}}");
        faults.push(FieldError::invalid(&status.child("conditions"), shown, why));
    }
    let certificate = text(request, "/status/certificate");
    if !certificate.is_empty() && certificate != text(live, "/status/certificate") {
        let pem = BASE64.decode(certificate).unwrap_or_default();
        if !has_block(&pem, "CERTIFICATE") {
            let why = "must contain at least one CERTIFICATE PEM block";
            let path = status.child("certificate");
            faults.push(FieldError::invalid(&path, "<certificate data>", why));
        }
    }
    faults
}
