//! Roles and their bindings.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_subdomain, label_selector, path_segment_name};
use watchkeeper_meta::{BadValue, FieldError, FieldPath};

use super::check::{items, one_of, required, set_default, text};
use super::defaulting::items_mut;
use super::formats::each;
use super::{Hooks, PLAIN};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const ROLE: Hooks = Hooks {
    faults: |role| rules_faults(role, true),
    ..PLAIN
};

pub(super) const CLUSTER_ROLE: Hooks = Hooks {
    faults: |role| {
        let mut faults = rules_faults(role, false);
        faults.extend(aggregation_faults(role));
        faults
    },
    ..PLAIN
};

pub(super) const ROLE_BINDING: Hooks = Hooks {
    default: default_binding,
    faults: |binding| binding_faults(binding, &["Role", "ClusterRole"]),
    update_faults: |_, binding, live| role_change(binding, live),
    ..PLAIN
};

pub(super) const CLUSTER_ROLE_BINDING: Hooks = Hooks {
    default: default_binding,
    faults: |binding| binding_faults(binding, &["ClusterRole"]),
    update_faults: |_, binding, live| role_change(binding, live),
    ..PLAIN
};

fn default_binding(binding: &mut Value) {
    if binding["roleRef"].is_object() {
        set_default(&mut binding["roleRef"], "apiGroup", GROUP);
    }
    for subject in items_mut(binding, "subjects") {
        if matches!(text(subject, "/kind"), "User" | "Group") {
            set_default(subject, "apiGroup", GROUP);
        }
    }
}

fn rules_faults(role: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (index, rule) in items(role, "/rules").enumerate() {
        rule_faults(
            rule,
            is_namespaced,
            &FieldPath::new("rules").index(index),
            &mut faults,
        );
    }
    faults
}

fn rule_faults(rule: &Value, is_namespaced: bool, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let has = |name: &str| !rule[name].as_array().is_none_or(Vec::is_empty);
    if !has("verbs") {
        faults.push(FieldError::required(&path.child("verbs"), ""));
    }
    if has("nonResourceURLs") {
        let urls = path.child("nonResourceURLs");
        let mut refuse =
            |why: &str| faults.push(FieldError::invalid(&urls, rule["nonResourceURLs"].clone(), why));
        if is_namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if !has("apiGroups") {
        let why = "resource rules must supply at least one api group";
        faults.push(FieldError::required(&path.child("apiGroups"), why));
    }
    if !has("resources") {
        let why = "resource rules must supply at least one resource";
        faults.push(FieldError::required(&path.child("resources"), why));
    }
}

fn aggregation_faults(role: &Value) -> Vec<FieldError> {
    let Some(rule) = role.get("aggregationRule").filter(|rule| rule.is_object()) else {
        return Vec::new();
    };
    let path = FieldPath::new("aggregationRule").child("clusterRoleSelectors");
    let selectors: Vec<&Value> = items(rule, "/clusterRoleSelectors").collect();
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        return vec![FieldError::required(&path, why)];
    }
    let selectors = selectors.iter().enumerate();
    selectors
        .flat_map(|(index, selector)| label_selector(selector, &path.index(index)))
        .collect()
}

fn binding_faults(binding: &Value, kinds: &[&str]) -> Vec<FieldError> {
    let role = FieldPath::new("roleRef");
    let mut faults = Vec::new();
    one_of(
        &mut faults,
        &role.child("apiGroup"),
        text(binding, "/roleRef/apiGroup"),
        &[GROUP],
    );
    one_of(
        &mut faults,
        &role.child("kind"),
        text(binding, "/roleRef/kind"),
        kinds,
    );
    let needs_namespace = !kinds.contains(&"Role");
    for (index, subject) in items(binding, "/subjects").enumerate() {
        subject_faults(
            subject,
            needs_namespace,
            &FieldPath::new("subjects").index(index),
            &mut faults,
        );
    }
    let name = text(binding, "/roleRef/name");
    required(&mut faults, &role.child("name"), name);
    each(&mut faults, &role.child("name"), name, path_segment_name(name));
    faults
}

fn subject_faults(subject: &Value, needs_namespace: bool, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let kind = text(subject, "/kind");
    one_of(
        faults,
        &path.child("kind"),
        kind,
        &["ServiceAccount", "User", "Group"],
    );
    let name = text(subject, "/name");
    required(faults, &path.child("name"), name);
    let group = text(subject, "/apiGroup");
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                each(faults, &path.child("name"), name, dns1123_subdomain(name));
            }
            one_of(faults, &path.child("apiGroup"), group, &[""]);
            if needs_namespace {
                required(faults, &path.child("namespace"), text(subject, "/namespace"));
            }
        }
        "User" | "Group" => one_of(faults, &path.child("apiGroup"), group, &[GROUP]),
        _ => {}
    }
}

/// A binding is to one role for ever; whoever wants another makes another binding.
fn role_change(binding: &Value, live: &Value) -> Vec<FieldError> {
    if binding["roleRef"] == live["roleRef"] {
        return Vec::new();
    }
    let field = |name: &str| json!(text(&binding["roleRef"], &format!("/{name}")));
    // As Kubernetes shows a struct of its own.
    let shown = format!(
        r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
        field("apiGroup"),
        field("kind"),
        field("name")
    );
    let fault = FieldError::invalid(&FieldPath::new("roleRef"), Value::Null, "field is immutable");
    vec![FieldError {
        value: BadValue::Printed(shown),
        ..fault
    }]
}
