//! CertificateSigningRequest: an immutable request for a certificate, approved or denied through a subresource.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use watchkeeper_meta::human_duration;
use watchkeeper_meta::validation::NameRule;

use crate::Part;
use crate::fields::Selectable;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::certificate_request::{CertificateRequest, refusal};
use crate::rules::certificates::check_signer;
use crate::rules::defaulting::{fill_empty, items_mut};
use crate::rules::place::{Errors, Place};
use crate::table::cells::{NONE, condition, text_at};
use crate::table::{Column, Row};
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

/// The kind served as `certificatesigningrequests`.
pub static KIND: Kind = Kind {
    group: "certificates.k8s.io",
    name: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    names: NameRule::PathSegment,
    // The spec is immutable, so managed fields do not track it.
    unmanaged: &["spec"],
    not_of_status: &[&["status", "conditions"]],
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::AGE,
    Column::text("SignerName", |row| row.text_or_none("/spec/signerName")),
    Column::text("Requestor", |row| json!(row.text("/spec/username"))),
    Column::text("RequestedDuration", |row| json!(requested_duration(row))),
    Column::text("Condition", |row| json!(shown_condition(row.object))),
];

const SELECTABLE: &[Selectable] = &[Selectable::at("spec.signerName", &["/spec/signerName"])];

const HOOKS: Hooks = Hooks {
    sign,
    prepare_for_update: |part, request, live, now| {
        request["spec"] = live["spec"].clone();
        match part {
            Part::Approval => stamp_conditions(request, now),
            Part::Status => keep_decision(request, live),
            _ => {}
        }
    },
    check: |request, errors| check(&request.field("spec"), errors),
    check_change: |change, errors| {
        if change.part != Part::Object {
            check_status(change, errors);
        }
    },
    ..PLAIN
};

/// Fills in `lastUpdateTime` and `lastTransitionTime` of conditions that lack them.
fn stamp_conditions(request: &mut Value, now: &str) {
    let Some(status) = request.get_mut("status") else {
        return;
    };
    for condition in items_mut(status, "conditions") {
        fill_empty(condition, "lastUpdateTime", now);
        fill_empty(condition, "lastTransitionTime", now);
    }
}

/// Keeps the live approval conditions: a write of `/status` cannot approve or deny.
fn keep_decision(request: &mut Value, live: &Value) {
    let is_decision = |condition: &Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        matches!(kind, "Approved" | "Denied")
    };
    let conditions = |request: &Value, decisions: bool| {
        let all = request["status"]["conditions"].as_array().cloned();
        let all = all.unwrap_or_default().into_iter();
        all.filter(move |condition| is_decision(condition) == decisions)
    };
    let conditions: Vec<Value> = conditions(live, true).chain(conditions(request, false)).collect();
    if !conditions.is_empty() {
        request["status"]["conditions"] = Value::Array(conditions);
    }
}

/// Records the requesting user in the spec, whatever the client sent.
fn sign(request: &mut Value, requester: Option<&User>) {
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

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    let request = spec.field("request");
    let pem = BASE64.decode(request.text()).unwrap_or_default();
    if let Some(why) = refusal(&String::from_utf8_lossy(&pem)) {
        errors.push(request.invalid(why));
    }
    let usages = spec.field("usages");
    if usages.len() == 0 {
        errors.push(usages.required(""));
    }
    usages.items().for_each(|usage| usage.is_one_of(USAGES, errors));
    let mut seen = HashSet::new();
    let repeated = usages.items().filter(|usage| !seen.insert(usage.text()));
    repeated.for_each(|usage| errors.push(usage.duplicate()));
    check_signer(&spec.field("signerName"), errors);
    let lifetime = spec.field("expirationSeconds");
    if lifetime.is_set() && lifetime.number() < MIN_SECONDS {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(lifetime.invalid(why));
    }
}

/// What the request in an object asks for; `None` if it cannot be read.
pub fn requested_certificate(object: &Value) -> Option<CertificateRequest> {
    let pem = BASE64.decode(object["spec"]["request"].as_str()?).ok()?;
    CertificateRequest::from_pem(&String::from_utf8_lossy(&pem))
}

fn has_block(pem: &[u8], kind: &str) -> bool {
    String::from_utf8_lossy(pem).contains(&format!("-----BEGIN {kind}-----"))
}

fn check_status(change: &Change<'_>, errors: &mut Errors) {
    let (status, live) = (change.new.field("status"), change.live.field("status"));
    let conditions = status.field("conditions");
    check_conditions(&conditions, errors);
    let old = live.field("conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        let count = |conditions: &Place<'_, '_>| {
            let all = conditions.items();
            all.filter(|condition| condition.value()["type"] == kind).count()
        };
        if count(&conditions) < count(&old) {
            let why = format!("updates may not remove a condition of type {kind:?}");
            errors.push(conditions.forbidden(why));
        }
    }
    check_certificate(
        &status.field("certificate"),
        live.field("certificate").text(),
        errors,
    );
}

/// Checks the conditions: a request is approved or denied, never both.
fn check_conditions(conditions: &Place<'_, '_>, errors: &mut Errors) {
    let mut types = HashSet::new();
    for condition in conditions.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        kind.must_be_set(errors);
        let is_decision = matches!(kind.text(), "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if is_decision {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        status.must_be_one_of(allowed, errors);
        if !types.insert(kind.text()) {
            errors.push(kind.duplicate());
        }
    }
    if types.contains("Approved") && types.contains("Denied") {
        let [approved, denied] =
            ["Approved", "Denied"].map(|kind| format!(r#"conditions[{{"type": "{kind}"}}]"#));
        let why = format!("must specify at most one of: `{approved}`, `{denied}`");
        let shown = format!("{{{approved}, {denied}}}");
        errors.push(conditions.invalid_for(shown, why));
    }
}

/// Checks the issued certificate. It is immutable once set.
fn check_certificate(certificate: &Place<'_, '_>, old: &str, errors: &mut Errors) {
    if certificate.text() == old {
        return;
    }
    if !old.is_empty() {
        let why = "updates may not modify existing certificate content";
        return errors.push(certificate.forbidden(why));
    }
    let pem = BASE64.decode(certificate.text()).unwrap_or_default();
    if !has_block(&pem, "CERTIFICATE") {
        let why = "must contain at least one CERTIFICATE PEM block";
        errors.push(certificate.invalid_for("<certificate data>", why));
    }
}

fn shown_condition(request: &Value) -> String {
    let is = |kind: &str| !condition(request, kind).is_empty();
    let mut words = Vec::new();
    words.push(match (is("Approved"), is("Denied")) {
        (_, true) => "Denied",
        (true, _) => "Approved",
        _ => "Pending",
    });
    words.extend(is("Failed").then_some("Failed"));
    words.extend((!text_at(request, "/status/certificate").is_empty()).then_some("Issued"));
    words.join(",")
}

fn requested_duration(row: &Row<'_>) -> String {
    let seconds = row.at("/spec/expirationSeconds").as_i64();
    seconds.map_or_else(|| NONE.to_owned(), human_duration)
}
