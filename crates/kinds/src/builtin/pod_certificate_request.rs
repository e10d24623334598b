//! PodCertificateRequest: a kubelet's request for a pod's certificate.
//!
//! The spec names the pod, its service account and its node, and carries a request in PKCS#10 that proves possession
//! of the key; only its key and signature matter. The spec is immutable, and the status is written once
//! ([`status_rules`]).

mod status_rules;

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;
use watchkeeper_meta::validation::dns1123_subdomain;

use crate::Part;
use crate::fields::Selectable;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::certificate_request::{KeyType, Signed};
use crate::rules::certificates::{check_signer, check_user_annotations, is_of_kubernetes};
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::NONE;

const MAX_UID_BYTES: usize = 128;
const MAX_REQUEST_BYTES: usize = 10 * 1024;
/// An hour.
const MIN_SECONDS: i64 = 3600;
/// 91 days.
const MAX_SECONDS: i64 = 7_862_400;
/// A day, for the signers of Kubernetes itself.
const MAX_SECONDS_OF_KUBERNETES: i64 = 86_400;
/// The sizes of RSA keys, in bits.
const RSA_SIZES: [usize; 2] = [3072, 4096];

/// The kind served as `podcertificaterequests`.
pub static KIND: Kind = Kind {
    group: "certificates.k8s.io",
    name: "PodCertificateRequest",
    plural: "podcertificaterequests",
    updates_unconditionally: false,
    status_keeps_metadata: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("PodName", |row| json!(row.text("/spec/podName"))),
    Column::text("ServiceAccountName", |row| {
        json!(row.text("/spec/serviceAccountName"))
    }),
    Column::text("NodeName", |row| json!(row.text("/spec/nodeName"))),
    Column::text("SignerName", |row| row.text_or_none("/spec/signerName")),
    Column::text("State", |_| json!(NONE)),
    Column::text("UnverifiedUserAnnotations", |_| json!(NONE)),
];

const SELECTABLE: &[Selectable] = &[
    Selectable::at("spec.signerName", &["/spec/signerName"]),
    Selectable::at("spec.podName", &["/spec/podName"]),
    Selectable::at("spec.nodeName", &["/spec/nodeName"]),
];

const HOOKS: Hooks = Hooks {
    check_new: |request, errors| check(&request.field("spec"), errors),
    check_change: |change, errors| match change.part {
        Part::Status => status_rules::check_change(change, errors),
        _ => {
            let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
            spec.must_stay_as("PodCertificateRequestSpec", &live, errors);
        }
    },
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    check_signer(&spec.field("signerName"), errors);
    check_user_annotations(&spec.field("unverifiedUserAnnotations"), errors);
    for (name, id) in [
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ] {
        let name = spec.field(name);
        let reasons = dns1123_subdomain(name.text()).into_iter();
        errors.extend(reasons.map(|why| name.invalid_for(name.text(), why)));
        check_id(&spec.field(id), errors);
    }
    let lifetime = spec.field("maxExpirationSeconds");
    if !lifetime.is_set() {
        return errors.push(lifetime.required("must be set"));
    }
    let seconds = lifetimes(spec.field("signerName").text());
    if !seconds.contains(&lifetime.number()) {
        let why = format!("must be in the range [{}, {}]", seconds.start(), seconds.end());
        errors.push(lifetime.invalid(why));
    }
    check_request(&spec.field("stubPKCS10Request"), errors);
}

/// The lifetimes that may be asked of a signer, in seconds.
pub(crate) fn lifetimes(signer: &str) -> RangeInclusive<i64> {
    match is_of_kubernetes(signer) {
        true => MIN_SECONDS..=MAX_SECONDS_OF_KUBERNETES,
        false => MIN_SECONDS..=MAX_SECONDS,
    }
}

fn check_id(id: &Place<'_, '_>, errors: &mut Errors) {
    if id.text().is_empty() {
        errors.push(id.invalid_for("", "must not be empty"));
    }
    if id.text().len() > MAX_UID_BYTES {
        errors.push(id.too_long(MAX_UID_BYTES));
    }
}

/// Checks the key, and that it has signed the request. As in Kubernetes, only the first error is reported.
fn check_request(request: &Place<'_, '_>, errors: &mut Errors) {
    let bytes = BASE64.decode(request.text()).unwrap_or_default();
    if bytes.len() > MAX_REQUEST_BYTES {
        return errors.push(request.too_long(MAX_REQUEST_BYTES));
    }
    let Some(signed) = Signed::read(&bytes) else {
        return errors.push(request.invalid_for(
            request.text(),
            "must be a valid PKCS#10 certificate signing request",
        ));
    };
    errors.extend(match signed.key_type() {
        KeyType::Rsa(bits) if !RSA_SIZES.contains(&bits) => {
            let why = "RSA keys must have modulus size 3072 or 4096";
            Some(request.invalid_for(format!("{bits}-bit modulus"), why))
        }
        KeyType::OtherCurve => {
            Some(request.invalid("elliptic public keys must use curve P256, P384, or P521"))
        }
        KeyType::Other => {
            let why = "unknown public key type; supported types are Ed25519, ECDSA, and RSA";
            Some(request.invalid(why))
        }
        _ if signed.refusal().is_some() => Some(request.invalid_unshown("could not verify signature")),
        _ => None,
    });
}
