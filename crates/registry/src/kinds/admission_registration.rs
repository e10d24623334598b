//! Webhooks and policies that look at writes. They are stored and checked; whether they are called is not decided
//! here. Expressions are not compiled.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_subdomain, label_selector};
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{items, one_of, required, set_default, text};
use super::defaulting::items_mut;
use super::formats::each;
use super::{Hooks, PLAIN};

const HTTPS: i64 = 443;
/// How long a webhook may take, in seconds, if it does not say.
const TIMEOUT_SECONDS: i64 = 10;
const MAX_TIMEOUT_SECONDS: i64 = 30;

pub(super) const VALIDATING_WEBHOOKS: Hooks = Hooks {
    default: |configuration| items_mut(configuration, "webhooks").for_each(default_webhook),
    faults: webhooks_faults,
    ..PLAIN
};

pub(super) const MUTATING_WEBHOOKS: Hooks = Hooks {
    default: |configuration| {
        for webhook in items_mut(configuration, "webhooks") {
            default_webhook(webhook);
            set_default(webhook, "reinvocationPolicy", "Never");
        }
    },
    faults: webhooks_faults,
    ..PLAIN
};

pub(super) const VALIDATING_POLICY: Hooks = Hooks {
    default: |policy| {
        let Some(spec) = policy.get_mut("spec") else {
            return;
        };
        set_default(spec, "failurePolicy", "Fail");
        if let Some(constraints) = spec.get_mut("matchConstraints") {
            default_match(constraints, &["resourceRules", "excludeResourceRules"]);
        }
    },
    faults: policy_faults,
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
    faults: |binding| {
        let spec = FieldPath::new("spec");
        let mut faults = Vec::new();
        required(
            &mut faults,
            &spec.child("policyName"),
            text(binding, "/spec/policyName"),
        );
        if items(binding, "/spec/validationActions").next().is_none() {
            faults.push(FieldError::required(&spec.child("validationActions"), ""));
        }
        for (index, action) in items(binding, "/spec/validationActions").enumerate() {
            let path = spec.child("validationActions").index(index);
            let known = ["Audit", "Deny", "Warn"];
            one_of(&mut faults, &path, action.as_str().unwrap_or_default(), &known);
        }
        faults
    },
    ..PLAIN
};

fn default_webhook(webhook: &mut Value) {
    set_default(webhook, "failurePolicy", "Fail");
    set_default(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
    default_match(webhook, &["rules"]);
    let service = webhook
        .get_mut("clientConfig")
        .and_then(|config| config.get_mut("service"));
    if let Some(service) = service {
        set_default(service, "port", HTTPS);
    }
}

/// What webhooks and policies have in common: which writes they want to see.
fn default_match(matching: &mut Value, rules: &[&str]) {
    set_default(matching, "matchPolicy", "Equivalent");
    set_default(matching, "namespaceSelector", json!({}));
    set_default(matching, "objectSelector", json!({}));
    for name in rules {
        for rule in items_mut(matching, name) {
            set_default(rule, "scope", "*");
        }
    }
}

fn webhooks_faults(configuration: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (index, webhook) in items(configuration, "/webhooks").enumerate() {
        let path = FieldPath::new("webhooks").index(index);
        webhook_faults(webhook, &path, &mut faults);
        let name = text(webhook, "/name");
        if names.contains(&name) {
            faults.push(FieldError::duplicate(&path.child("name"), name));
        }
        names.push(name);
    }
    faults
}

fn webhook_faults(webhook: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    name_faults(text(webhook, "/name"), &path.child("name"), faults);
    if items(webhook, "/admissionReviewVersions").next().is_none() {
        let why = "must specify one of v1, v1beta1";
        faults.push(FieldError::required(&path.child("admissionReviewVersions"), why));
    }
    for (index, rule) in items(webhook, "/rules").enumerate() {
        rule_faults(rule, &path.child("rules").index(index), faults);
    }
    closed(webhook, "failurePolicy", &["Fail", "Ignore"], path, faults);
    closed(webhook, "matchPolicy", &["Equivalent", "Exact"], path, faults);
    match text(webhook, "/sideEffects") {
        "" => {
            let why = "must specify one of None, NoneOnDryRun";
            faults.push(FieldError::required(&path.child("sideEffects"), why));
        }
        effects => one_of(
            faults,
            &path.child("sideEffects"),
            effects,
            &["None", "NoneOnDryRun"],
        ),
    }
    if let Some(seconds) = webhook["timeoutSeconds"].as_i64()
        && !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds)
    {
        let why = "the timeout value must be between 1 and 30 seconds";
        faults.push(FieldError::invalid(&path.child("timeoutSeconds"), seconds, why));
    }
    selector_faults(webhook, path, faults);
    let config = &webhook["clientConfig"];
    if config.get("url").is_some() == config.get("service").is_some() {
        let why = "exactly one of url or service is required";
        faults.push(FieldError::required(&path.child("clientConfig"), why));
    }
}

fn name_faults(name: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let problems = dns1123_subdomain(name);
    if name.is_empty() {
        required(faults, path, name);
    } else if !problems.is_empty() {
        each(faults, path, name, [problems.join(",")]);
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        each(faults, path, name, [why]);
    }
}

fn closed(object: &Value, name: &str, allowed: &[&str], path: &FieldPath, faults: &mut Vec<FieldError>) {
    if let Some(value) = object.get(name).and_then(Value::as_str) {
        one_of(faults, &path.child(name), value, allowed);
    }
}

fn selector_faults(matching: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    for name in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = matching.get(name) {
            faults.extend(label_selector(selector, &path.child(name)));
        }
    }
}

fn rule_faults(rule: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    for name in ["operations", "apiGroups", "apiVersions", "resources"] {
        if items(rule, &format!("/{name}")).next().is_none() {
            faults.push(FieldError::required(&path.child(name), ""));
        }
    }
    for (index, operation) in items(rule, "/operations").enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        let operation = operation.as_str().unwrap_or_default();
        one_of(faults, &path.child("operations").index(index), operation, &known);
    }
    closed(rule, "scope", &["*", "Cluster", "Namespaced"], path, faults);
}

fn policy_faults(policy: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    closed(
        &policy["spec"],
        "failurePolicy",
        &["Fail", "Ignore"],
        &spec,
        &mut faults,
    );
    let constraints = policy.pointer("/spec/matchConstraints");
    match constraints {
        None => faults.push(FieldError::required(&spec.child("matchConstraints"), "")),
        Some(constraints) => {
            let path = spec.child("matchConstraints");
            selector_faults(constraints, &path, &mut faults);
            let path = path.child("resourceRules");
            if items(constraints, "/resourceRules").next().is_none() {
                faults.push(FieldError::required(&path, ""));
            }
            for (index, rule) in items(constraints, "/resourceRules").enumerate() {
                rule_faults(rule, &path.index(index), &mut faults);
            }
        }
    }
    let lists = ["validations", "auditAnnotations"];
    if lists
        .iter()
        .all(|name| items(&policy["spec"], &format!("/{name}")).next().is_none())
    {
        let why = "validations or auditAnnotations must contain at least one item";
        faults.extend(lists.map(|name| FieldError::required(&spec.child(name), why)));
    }
    for (index, validation) in items(policy, "/spec/validations").enumerate() {
        if text(validation, "/expression").trim().is_empty() {
            let path = spec.child("validations").index(index).child("expression");
            faults.push(FieldError::required(&path, "expression is not specified"));
        }
    }
    faults
}
