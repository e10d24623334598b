//! APIService: the server that serves a group and version.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{
    FinalizerRule, NameRule, dns1035_label, dns1123_subdomain, path_segment_name,
};

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::defaulting::fill;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{condition_of, text_at};

/// The kind served as `apiservices`.
pub static KIND: Kind = Kind {
    group: "apiregistration.k8s.io",
    name: "APIService",
    plural: "apiservices",
    // The name is derived from the spec; `check_name` validates it.
    names: NameRule::OfKind,
    key_has_group: true,
    status_keeps_metadata: true,
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Service", |row| json!(shown_service(row.at("/spec/service")))),
    Column::text("Available", |row| json!(shown_availability(row.object))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |service| {
        if let Some(provider) = service.pointer_mut("/spec/service") {
            fill(provider, "port", 443);
        }
    },
    prepare_for_create: |service, _| {
        // Groups that this server serves itself are always available.
        if service["spec"]["service"].is_null() {
            let condition = json!({
                "type": "Available",
                "status": "True",
                "lastTransitionTime": service["metadata"]["creationTimestamp"],
                "reason": "Local",
                "message": "Local APIServices are always available",
            });
            service["status"] = json!({"conditions": [condition]});
        }
    },
    check,
    ..PLAIN
};

fn check(service: &Place<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let [group, version, provider, bundle] =
        ["group", "version", "service", "caBundle"].map(|name| spec.field(name));
    let wanted = format!("{}.{}", version.text(), group.text());
    service.must_be_named(|name, _| check_name(name, &wanted), errors);
    if group.text().is_empty() {
        if version.text() != "v1" {
            errors.push(group.required("only v1 may have an empty group and it better be legacy kube"));
        }
    } else {
        group.must_keep(dns1123_subdomain, errors);
    }
    let problems = dns1035_label(version.text()).into_iter();
    errors.extend(problems.map(|why| version.invalid_for(version.text(), why)));
    for (name, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = spec.field(name);
        if !(1..=max).contains(&priority.number()) {
            let why = format!("must be positive and less than {max}");
            errors.push(priority.invalid_for(priority.number(), why));
        }
    }
    let insecure = spec.field("insecureSkipTLSVerify");
    if !provider.is_set() {
        if !bundle.text().is_empty() {
            errors.push(bundle.invalid_unshown("local APIServices may not have a caBundle"));
        }
        if insecure.is_true() {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(insecure.invalid(why));
        }
        return;
    }
    check_provider(&provider, errors);
    if insecure.is_true() && !bundle.text().is_empty() {
        errors.push(insecure.invalid("may not be true if caBundle is present"));
    }
}

/// Checks that the name is `<version>.<group>`.
fn check_name(name: &str, wanted: &str) -> Vec<String> {
    let mut reasons = path_segment_name(name);
    if reasons.is_empty() && name != wanted {
        reasons.push(format!("must be `spec.version+\".\"+spec.group`: {wanted:?}"));
    }
    reasons
}

fn check_provider(provider: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["namespace", "name"] {
        provider.field(name).must_be_set(errors);
    }
    let port = provider.field("port");
    if port.is_set() && !(1..=65_535).contains(&port.number()) {
        errors.push(port.invalid("port is not valid: must be between 1 and 65535, inclusive"));
    }
}

/// Whether the service is available, and why if it is not.
fn shown_availability(service: &Value) -> String {
    let Some(condition) = condition_of(service, "Available") else {
        return "Unknown".to_owned();
    };
    let (status, reason) = (text_at(condition, "/status"), text_at(condition, "/reason"));
    match reason.is_empty() || status == "True" {
        true => status,
        false => format!("{status} ({reason})"),
    }
}

fn shown_service(service: &Value) -> String {
    match service.is_null() {
        true => "Local".to_owned(),
        false => format!("{}/{}", text_at(service, "/namespace"), text_at(service, "/name")),
    }
}
