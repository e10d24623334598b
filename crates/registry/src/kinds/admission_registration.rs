//! Webhooks and policies that look at writes: what they may say. When they are asked is said in
//! [`webhooks`](crate::admission::webhooks) and [`policies`](crate::admission::policies).

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1035_label, dns1123_subdomain};

use super::defaulting::{fill_empty, items_mut};
use super::place::{Faults, Place};
use super::{Hooks, PLAIN, webhook_client};
use crate::admission::policies;

const HTTPS: i64 = 443;
/// How long a webhook may take, in seconds, if it does not say.
const TIMEOUT_SECONDS: i64 = 10;
const MAX_TIMEOUT_SECONDS: i64 = 30;
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
/// As which reviews a webhook may want to be asked.
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
/// The most conditions of a webhook or a policy.
const MAX_CONDITIONS: usize = 64;
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) const VALIDATING_WEBHOOKS: Hooks = Hooks {
    default: |configuration| items_mut(configuration, "webhooks").for_each(default_webhook),
    check: check_webhooks,
    ..PLAIN
};

pub(super) const MUTATING_WEBHOOKS: Hooks = Hooks {
    default: |configuration| {
        for webhook in items_mut(configuration, "webhooks") {
            default_webhook(webhook);
            fill_empty(webhook, "reinvocationPolicy", "Never");
        }
    },
    check: check_webhooks,
    ..PLAIN
};

pub(super) const VALIDATING_POLICY: Hooks = Hooks {
    default: |policy| {
        let Some(spec) = policy.get_mut("spec") else {
            return;
        };
        fill_empty(spec, "failurePolicy", "Fail");
        if let Some(constraints) = spec.get_mut("matchConstraints") {
            default_match(constraints, &["resourceRules", "excludeResourceRules"]);
        }
    },
    check: |policy, faults| check_policy(&policy.field("spec"), faults),
    ..PLAIN
};

pub(super) const VALIDATING_POLICY_BINDING: Hooks = Hooks {
    default: |binding| {
        let resources = binding
            .get_mut("spec")
            .and_then(|spec| spec.get_mut("matchResources"));
        if let Some(resources) = resources {
            default_match(resources, &["resourceRules", "excludeResourceRules"]);
        }
    },
    check: |binding, faults| {
        let spec = binding.field("spec");
        spec.field("policyName").must_be_set(faults);
        let actions = spec.field("validationActions");
        if actions.len() == 0 {
            faults.push(actions.required(""));
        }
        actions
            .items()
            .for_each(|action| action.is_one_of(ACTIONS, faults));
    },
    ..PLAIN
};

fn default_webhook(webhook: &mut Value) {
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
fn default_match(matching: &mut Value, rules: &[&str]) {
    fill_empty(matching, "matchPolicy", "Equivalent");
    fill_empty(matching, "namespaceSelector", json!({}));
    fill_empty(matching, "objectSelector", json!({}));
    for name in rules {
        for rule in items_mut(matching, name) {
            fill_empty(rule, "scope", "*");
        }
    }
}

fn check_webhooks(configuration: &Place<'_, '_>, faults: &mut Faults) {
    let mut names = HashSet::new();
    for webhook in configuration.field("webhooks").items() {
        check_webhook(&webhook, faults);
        let name = webhook.field("name");
        if !names.insert(name.text()) {
            faults.push(name.duplicate());
        }
    }
}

fn check_webhook(webhook: &Place<'_, '_>, faults: &mut Faults) {
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

fn check_conditions(webhook: &Place<'_, '_>, faults: &mut Faults) {
    let conditions = webhook.field("matchConditions");
    if conditions.len() > MAX_CONDITIONS {
        faults.push(conditions.too_many(MAX_CONDITIONS));
    }
    faults.append(policies::condition_faults(&webhook.path(), webhook.value()));
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let name = condition.field("name");
        if !name.text().is_empty() && !names.insert(name.text()) {
            faults.push(name.duplicate());
        }
    }
}

fn check_versions(versions: &Place<'_, '_>, faults: &mut Faults) {
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

fn check_name(name: &Place<'_, '_>, faults: &mut Faults) {
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

fn check_selectors(matching: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["namespaceSelector", "objectSelector"] {
        matching.field(name).must_select(faults);
    }
}

fn check_rule(rule: &Place<'_, '_>, faults: &mut Faults) {
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

fn check_policy(spec: &Place<'_, '_>, faults: &mut Faults) {
    spec.field("failurePolicy")
        .may_be_one_of(FAILURE_POLICIES, faults);
    let constraints = spec.field("matchConstraints");
    match constraints.is_set() {
        false => faults.push(constraints.required("")),
        true => {
            check_selectors(&constraints, faults);
            let rules = constraints.field("resourceRules");
            if rules.len() == 0 {
                faults.push(rules.required(""));
            }
            rules.items().for_each(|rule| check_rule(&rule, faults));
        }
    }
    let lists = ["validations", "auditAnnotations"].map(|name| spec.field(name));
    if lists.iter().all(|list| list.len() == 0) {
        let why = "validations or auditAnnotations must contain at least one item";
        faults.extend(lists.map(|list| list.required(why)));
    }
    faults.append(policies::faults(&spec.path(), spec.value()));
}
