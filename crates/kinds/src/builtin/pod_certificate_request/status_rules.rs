//! Validation of the status: it is written once, when the request is issued, denied or failed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use watchkeeper_meta::{FieldError, Time};

use super::MIN_SECONDS;
use crate::kind::Change;
use crate::rules::certificate::Certificate;
use crate::rules::certificate_request::Signed;
use crate::rules::certificates::blocks;
use crate::rules::conditions;
use crate::rules::place::{Errors, Place};

/// The final conditions. There are no others.
const OUTCOMES: &[&str] = &["Issued", "Denied", "Failed"];
const MAX_CHAIN_BYTES: usize = 100 * 1024;
/// The exclusive upper bound of the time between now and the start of the validity.
const MAX_SKEW_SECONDS: i64 = 5 * 60;
/// The shortest time between the refresh and either end of the validity.
const MIN_REFRESH_SECONDS: i64 = 10 * 60;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Checks a write of the status.
pub(super) fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (status, live) = (change.new.field("status"), change.live.field("status"));
    let before = errors.len();
    check_conditions(&status.field("conditions"), errors);
    if errors.len() > before {
        return;
    }
    if outcome(&live).is_some() {
        let why = "immutable after PodCertificateRequest is issued, denied, or failed";
        return check_same(&status, &content(live.value()), why, errors);
    }
    match outcome(&status) {
        Some("Issued") => check_issued(change, &status, errors),
        Some(_) => {
            let wanted = content(&json!({"conditions": status.field("conditions").value()}));
            let why =
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            check_same(&status, &wanted, why, errors);
        }
        None => {
            let why = r#"status is immutable unless transitioning to "Issued", "Denied", or "Failed""#;
            check_same(&status, &content(live.value()), why, errors);
        }
    }
}

/// The final condition of a status.
fn outcome<'v>(status: &Place<'v, '_>) -> Option<&'v str> {
    let conditions = status.value()["conditions"].as_array().into_iter().flatten();
    let mut reached = conditions.filter(|condition| condition["status"] == "True");
    reached.find_map(|condition| condition["type"].as_str().filter(|kind| OUTCOMES.contains(kind)))
}

/// A status without what is unset or empty.
fn content(status: &Value) -> Value {
    let is_set = |value: &Value| {
        !value.is_null() && value != "" && value.as_array().is_none_or(|list| !list.is_empty())
    };
    let fields = status.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| is_set(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn check_same(status: &Place<'_, '_>, wanted: &Value, why: &str, errors: &mut Errors) {
    if content(status.value()) != *wanted {
        errors.push(status.invalid_unshown(why));
    }
}

/// Checks that there is at most one final condition, that it is true, and that there is no other.
fn check_conditions(list: &Place<'_, '_>, errors: &mut Errors) {
    let mut known = 0;
    for (index, condition) in list.items().enumerate() {
        // As in Kubernetes, these paths have a dot before the index.
        let index = format!("[{index}]");
        let place = list.field(&index).with_value(condition.value());
        let (kind, status) = (place.field("type"), place.field("status"));
        if !OUTCOMES.contains(&kind.text()) {
            errors.push(kind.unsupported(OUTCOMES));
            continue;
        }
        known += 1;
        if known > 1 {
            let why = r#"There may be at most one condition with type "Issued", "Denied", or "Failed""#;
            errors.push(kind.invalid(why));
        }
        status.is_one_of(&["True"], errors);
    }
    conditions::check(list, errors);
}

/// Checks an issued certificate. Only the first error is reported, except for names and missing times.
fn check_issued(change: &Change<'_>, status: &Place<'_, '_>, errors: &mut Errors) {
    let chain = status.field("certificateChain");
    if chain.text().len() > MAX_CHAIN_BYTES {
        return errors.push(chain.too_long(MAX_CHAIN_BYTES));
    }
    let Some(leaf) = read_leaf(&chain, errors) else {
        return;
    };
    let before = errors.len();
    check_names(&chain, &leaf, errors);
    let spec = change.live.field("spec");
    let request = BASE64
        .decode(spec.field("stubPKCS10Request").text())
        .unwrap_or_default();
    if Signed::read(&request).is_none_or(|request| request.public_key != leaf.public_key) {
        let why = "leaf certificate was not issued to the requested public key";
        return errors.push(chain.invalid_for(chain.text(), why));
    }
    check_times_are_set(status, errors);
    if errors.len() > before {
        return;
    }
    let error = validity_error(change, status, &leaf)
        .or_else(|| refresh_error(status))
        .or_else(|| rest_of_chain_error(&chain));
    errors.extend(error);
}

/// The first certificate of the chain.
fn read_leaf(chain: &Place<'_, '_>, errors: &mut Errors) -> Option<Certificate> {
    let blocks = blocks(chain.text());
    let why = match blocks.first() {
        None => "issued certificate chain must contain at least one certificate",
        Some(block) if block.label != "CERTIFICATE" => {
            "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
        }
        Some(block) => match Certificate::read(&block.bytes) {
            Some(leaf) => return Some(leaf),
            None => "leaf certificate does not parse as valid X.509",
        },
    };
    errors.push(chain.invalid_for(chain.text(), why));
    None
}

fn check_names(chain: &Place<'_, '_>, leaf: &Certificate, errors: &mut Errors) {
    for name in &leaf.dns_names {
        for (is_wrong, why) in [
            (
                name.is_empty(),
                "leaf certificate should not contain empty DNSName",
            ),
            (
                name.contains(".."),
                "leaf certificate's DNSName should not contain '..'",
            ),
            (
                name.starts_with('.') || name.ends_with('.'),
                "leaf certificate's DNSName should not start or end with '.'",
            ),
        ] {
            if is_wrong {
                errors.push(chain.invalid_for(name.as_str(), why));
            }
        }
    }
    for address in leaf.emails.iter().filter(|address| !is_address(address)) {
        let why = "leaf certificate should not contain invalid EmailAddress";
        errors.push(chain.invalid_for(address.as_str(), why));
    }
}

/// True for `someone@example.com`. Kubernetes also accepts comments, quotes and display names.
fn is_address(address: &str) -> bool {
    let fits = |part: &str| !part.is_empty() && !part.contains(['@', ' ', '<', '>', ',', ';']);
    address
        .split_once('@')
        .is_some_and(|(name, host)| fits(name) && fits(host))
}

fn check_times_are_set(status: &Place<'_, '_>, errors: &mut Errors) {
    const CONSISTENT: &str = "must be present and consistent with the issued certificate";
    for (name, why) in [
        ("notBefore", CONSISTENT),
        ("notAfter", CONSISTENT),
        (
            "beginRefreshAt",
            "must be present and in the range [notbefore+10min, notafter-10min]",
        ),
    ] {
        let time = status.field(name);
        if !time.is_set() {
            errors.push(time.required(why));
        }
    }
}

/// The validity must be that of the certificate, begin about now, and be neither too short nor too long.
fn validity_error(change: &Change<'_>, status: &Place<'_, '_>, leaf: &Certificate) -> Option<FieldError> {
    let (start, end) = (status.field("notBefore"), status.field("notAfter"));
    let skew = (seconds(&start) - change.now.seconds).abs();
    let spec = change.new.field("spec");
    let longest = spec.field("maxExpirationSeconds").number();
    let lifetime = leaf.not_after.seconds - leaf.not_before.seconds;
    let chain = status.field("certificateChain");
    let of_lifetime = |why: String| chain.invalid_for(lifetime.saturating_mul(NANOS_PER_SECOND), why);
    Some(if seconds(&start) != leaf.not_before.seconds {
        start.invalid("must be set to the NotBefore time encoded in the leaf certificate")
    } else if skew >= MAX_SKEW_SECONDS {
        start.invalid("must be set to within 5 minutes of kube-apiserver's current time")
    } else if seconds(&end) != leaf.not_after.seconds {
        end.invalid("must be set to the NotAfter time encoded in the leaf certificate")
    } else if lifetime < MIN_SECONDS {
        of_lifetime("leaf certificate lifetime must be >= 1 hour".to_owned())
    } else if lifetime > longest {
        of_lifetime(format!(
            "leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"
        ))
    } else {
        return None;
    })
}

/// The refresh must be well within the validity.
fn refresh_error(status: &Place<'_, '_>) -> Option<FieldError> {
    let [refresh, start, end] = ["beginRefreshAt", "notBefore", "notAfter"].map(|name| status.field(name));
    let why = if seconds(&refresh) < seconds(&start) + MIN_REFRESH_SECONDS {
        "must be at least 10 minutes after status.notBefore"
    } else if seconds(&refresh) > seconds(&end) - MIN_REFRESH_SECONDS {
        "must be at least 10 minutes before status.notAfter"
    } else {
        return None;
    };
    Some(refresh.invalid(why))
}

/// Times in objects are whole seconds.
fn seconds(time: &Place<'_, '_>) -> i64 {
    let time: Option<Time> = time.text().parse().ok();
    time.unwrap_or_default().seconds
}

/// The certificates of intermediate signers must be such. As in Kubernetes, it is not verified that one has signed the
/// other.
fn rest_of_chain_error(chain: &Place<'_, '_>) -> Option<FieldError> {
    let blocks = blocks(chain.text());
    let wrong = blocks.iter().skip(1).find_map(|block| match block.label {
        "CERTIFICATE" if Certificate::read(&block.bytes).is_some() => None,
        "CERTIFICATE" => Some("intermediate certificate does not parse as valid X.509"),
        _ => Some("issued certificate chain must consist entirely of CERTFICATE PEM blocks"),
    });
    wrong.map(|why| chain.invalid_for(chain.text(), why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KindVersion, Part, Warnings, builtin};

    const REQUEST: &str = include_str!("../../rules/certificate_request/ed25519.pem");
    const LEAF: &str = include_str!("../../rules/certificate_request/ed25519_leaf.pem");
    const START: &str = "2026-11-19T02:08:44Z";
    const END: &str = "2026-11-20T02:08:44Z";

    fn request(status: Value) -> Value {
        let stub = BASE64.encode(&blocks(REQUEST)[0].bytes);
        json!({"spec": {"stubPKCS10Request": stub, "maxExpirationSeconds": 86_400}, "status": status})
    }

    fn condition(kind: &str) -> Value {
        json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": START})
    }

    fn issued() -> Value {
        json!({
            "conditions": [condition("Issued")], "certificateChain": LEAF,
            "notBefore": START, "beginRefreshAt": "2026-11-19T12:00:00Z", "notAfter": END,
        })
    }

    /// Writes a status over another; an empty text means that it is valid.
    fn check(live: Value, status: Value, now: &str, why: &str) {
        let all = KindVersion::all();
        let kind = all
            .iter()
            .find(|it| it.is(&builtin::POD_CERTIFICATE_REQUEST))
            .unwrap();
        let (now, warnings) = (now.parse().unwrap(), Warnings::default());
        let (live, new) = (request(live), request(status));
        let errors = kind.update_errors(Part::Status, &new, &live, now, &warnings);
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(told.join(" | "), why, "{new}");
    }

    fn with(name: &str, value: Value) -> Value {
        let mut status = issued();
        status[name] = value;
        status
    }

    #[test]
    fn a_status_is_written_once() {
        let immutable =
            "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed";
        check(json!({}), issued(), START, "");
        check(issued(), issued(), "2027-01-01T00:00:00Z", "");
        check(
            issued(),
            json!({"conditions": [condition("Denied")]}),
            START,
            immutable,
        );
        check(
            json!({}),
            json!({"certificateChain": LEAF}),
            START,
            r#"status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed""#,
        );
    }

    #[test]
    fn a_refused_request_has_no_certificate() {
        let denied = with("conditions", json!([condition("Denied")]));
        let why = "status: Invalid value: non-condition status fields must be empty when denying or failing the \
                   PodCertificateRequest";
        check(json!({}), denied, START, why);
        check(json!({}), json!({"conditions": [condition("Failed")]}), START, "");
    }

    #[test]
    fn there_is_one_final_condition() {
        let both = json!({"conditions": [condition("Issued"), condition("Denied")]});
        let why = r#"status.conditions.[1].type: Invalid value: "Denied": There may be at most one condition with type "Issued", "Denied", or "Failed""#;
        check(json!({}), both, START, why);
        let mut unsure = condition("Issued");
        unsure["status"] = json!("Unknown");
        let why = r#"status.conditions.[0].status: Unsupported value: "Unknown": supported values: "True""#;
        check(json!({}), json!({"conditions": [unsure]}), START, why);
    }

    #[test]
    fn the_validity_is_that_of_the_certificate_and_begins_now() {
        let late = "2026-11-19T02:13:44Z";
        check(
            json!({}),
            issued(),
            late,
            &format!(
                "status.notBefore: Invalid value: {START:?}: must be set to within 5 minutes of kube-apiserver's current time"
            ),
        );
        check(
            json!({}),
            with("notBefore", json!(late)),
            START,
            &format!(
                "status.notBefore: Invalid value: {late:?}: must be set to the NotBefore time encoded in the leaf certificate"
            ),
        );
        check(
            json!({}),
            with("beginRefreshAt", json!(late)),
            START,
            &format!(
                "status.beginRefreshAt: Invalid value: {late:?}: must be at least 10 minutes after status.notBefore"
            ),
        );
        check(
            json!({}),
            with("notAfter", Value::Null),
            START,
            "status.notAfter: Required value: must be present and consistent with the issued certificate",
        );
    }

    #[test]
    fn the_chain_is_of_certificates_for_the_requested_key() {
        let refused = |chain: &str, why: &str| {
            let shown = watchkeeper_meta::quote(chain);
            let error = format!("status.certificateChain: Invalid value: {shown}: {why}");
            check(json!({}), with("certificateChain", json!(chain)), START, &error);
        };
        refused(
            "x",
            "issued certificate chain must contain at least one certificate",
        );
        refused(
            REQUEST,
            "issued certificate chain must consist entirely of CERTIFICATE PEM blocks",
        );
        refused(
            &REQUEST.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
            "leaf certificate does not parse as valid X.509",
        );
        refused(
            &format!("{LEAF}{REQUEST}"),
            "issued certificate chain must consist entirely of CERTFICATE PEM blocks",
        );
    }
}
