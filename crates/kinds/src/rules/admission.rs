//! Webhooks and policies that look at writes: what they may say. When they are asked is said in
//! [`webhooks`](crate::admission::webhooks) and [`policies`](crate::admission::policies).

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1035_label, dns1123_subdomain};

use crate::expressions;
use crate::rules::defaulting::{fill_empty, items_mut, object_mut};
use crate::rules::place::{Faults, Place};
use crate::rules::webhook_client;

pub(crate) const HTTPS: i64 = 443;
/// How long a webhook may take, in seconds, if it does not say.
pub(crate) const TIMEOUT_SECONDS: i64 = 10;
pub(crate) const MAX_TIMEOUT_SECONDS: i64 = 30;
pub(crate) const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
pub(crate) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
/// As which reviews a webhook may want to be asked.
pub(crate) const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
/// The most conditions of a webhook or a policy.
pub(crate) const MAX_CONDITIONS: usize = 64;
pub(crate) const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(crate) fn default_policy(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec") else {
        return;
    };
    fill_empty(spec, "failurePolicy", "Fail");
    if let Some(constraints) = object_mut(spec, "matchConstraints") {
        default_match(constraints, &["resourceRules", "excludeResourceRules"]);
    }
}

pub(crate) fn default_binding(binding: &mut Value) {
    let spec = binding.get_mut("spec");
    if let Some(resources) = spec.and_then(|spec| object_mut(spec, "matchResources")) {
        default_match(resources, &["resourceRules", "excludeResourceRules"]);
    }
}

pub(crate) fn default_webhook(webhook: &mut Value) {
    fill_empty(webhook, "failurePolicy", "Fail");
    fill_empty(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
    default_match(webhook, &["rules"]);
    let service = webhook
        .get_mut("clientConfig")
        .and_then(|config| config.get_mut("service"));
    if let Some(service) = service {
        fill_empty(service, "port", HTTPS);
    }
}

/// What webhooks and policies have in common: which writes they want to see.
pub(crate) fn default_match(matching: &mut Value, rules: &[&str]) {
    fill_empty(matching, "matchPolicy", "Equivalent");
    fill_empty(matching, "namespaceSelector", json!({}));
    fill_empty(matching, "objectSelector", json!({}));
    for name in rules {
        for rule in items_mut(matching, name) {
            fill_empty(rule, "scope", "*");
        }
    }
}

pub(crate) fn check_webhooks(configuration: &Place<'_, '_>, faults: &mut Faults) {
    let mut names = HashSet::new();
    for webhook in configuration.field("webhooks").items() {
        check_webhook(&webhook, faults);
        let name = webhook.field("name");
        if !names.insert(name.text()) {
            faults.push(name.duplicate());
        }
    }
}

pub(crate) fn check_webhook(webhook: &Place<'_, '_>, faults: &mut Faults) {
    check_name(&webhook.field("name"), faults);
    for rule in webhook.field("rules").items() {
        check_rule(&rule, faults);
    }
    webhook
        .field("failurePolicy")
        .may_be_one_of(FAILURE_POLICIES, faults);
    webhook
        .field("matchPolicy")
        .may_be_one_of(&["Equivalent", "Exact"], faults);
    let effects = webhook.field("sideEffects");
    match effects.text() {
        "" => faults.push(effects.required("must specify one of None, NoneOnDryRun")),
        _ => effects.is_one_of(&["None", "NoneOnDryRun"], faults),
    }
    let timeout = webhook.field("timeoutSeconds");
    if timeout.is_set() && !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout.number()) {
        faults.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    check_selectors(webhook, faults);
    webhook
        .field("reinvocationPolicy")
        .may_be_one_of(&["IfNeeded", "Never"], faults);
    webhook_client::check(&webhook.field("clientConfig"), faults);
    check_conditions(webhook, faults);
    check_versions(&webhook.field("admissionReviewVersions"), faults);
}

pub(crate) fn check_conditions(webhook: &Place<'_, '_>, faults: &mut Faults) {
    let conditions = webhook.field("matchConditions");
    if conditions.len() > MAX_CONDITIONS {
        faults.push(conditions.too_many(MAX_CONDITIONS));
    }
    faults.append(expressions::condition_faults(&webhook.path(), webhook.value()));
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let name = condition.field("name");
        if !name.text().is_empty() && !names.insert(name.text()) {
            faults.push(name.duplicate());
        }
    }
}

pub(crate) fn check_versions(versions: &Place<'_, '_>, faults: &mut Faults) {
    let known = REVIEW_VERSIONS.join(", ");
    if versions.len() == 0 {
        return faults.push(versions.required(&format!("must specify one of {known}")));
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        match seen.insert(version.text()) {
            true => version.must_keep(dns1035_label, faults),
            false => faults.push(version.invalid("duplicate version")),
        }
    }
    if !REVIEW_VERSIONS.iter().any(|known| seen.contains(known)) {
        faults.push(versions.invalid(format!("must include at least one of {known}")));
    }
}

pub(crate) fn check_name(name: &Place<'_, '_>, faults: &mut Faults) {
    let problems = dns1123_subdomain(name.text());
    faults.extend(if name.text().is_empty() {
        Some(name.required(""))
    } else if !problems.is_empty() {
        Some(name.invalid(problems.join(",")))
    } else if name.text().split('.').count() < 3 {
        Some(name.invalid("should be a domain with at least three segments separated by dots"))
    } else {
        None
    });
}

pub(crate) fn check_selectors(matching: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["namespaceSelector", "objectSelector"] {
        matching.field(name).must_select(faults);
    }
}

pub(crate) fn check_rule(rule: &Place<'_, '_>, faults: &mut Faults) {
    for (name, what) in [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
        ("resources", "resources without subresources"),
    ] {
        let list = rule.field(name);
        if list.len() == 0 {
            faults.push(list.required(""));
        }
        let is_other = |text: &str| text != "*" && !(name == "resources" && text.contains('/'));
        if list.texts().any(|text| text == "*") && list.texts().any(is_other) {
            faults.push(list.invalid(format!("if '*' is present, must not specify other {what}")));
        }
    }
    for operation in rule.field("operations").items() {
        operation.is_one_of(OPERATIONS, faults);
    }
    rule.field("scope")
        .may_be_one_of(&["*", "Cluster", "Namespaced"], faults);
}
