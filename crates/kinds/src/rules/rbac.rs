//! Rules of roles and role bindings.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_subdomain, path_segment_name};

use crate::kind::Change;
use crate::rules::defaulting::{fill_empty, items_mut};
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::subjects;

/// The columns of both kinds of bindings.
pub(crate) const BINDING_COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role", |row| {
        json!(format!(
            "{}/{}",
            row.text("/roleRef/kind"),
            row.text("/roleRef/name")
        ))
    }),
    Column::AGE,
    Column::text("Users", |row| json!(subjects(row.object, "User"))).wide(),
    Column::text("Groups", |row| json!(subjects(row.object, "Group"))).wide(),
    Column::text("ServiceAccounts", |row| {
        json!(subjects(row.object, "ServiceAccount"))
    })
    .wide(),
];

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
pub(crate) const SUBJECTS: &[&str] = &["ServiceAccount", "User", "Group"];

pub(crate) fn default_binding(binding: &mut Value) {
    if binding["roleRef"].is_object() {
        fill_empty(&mut binding["roleRef"], "apiGroup", GROUP);
    }
    for subject in items_mut(binding, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            fill_empty(subject, "apiGroup", GROUP);
        }
    }
}

pub(crate) fn check_rules(rules: &Place<'_, '_>, is_namespaced: bool, errors: &mut Errors) {
    for rule in rules.items() {
        check_rule(&rule, is_namespaced, errors);
    }
}

pub(crate) fn check_rule(rule: &Place<'_, '_>, is_namespaced: bool, errors: &mut Errors) {
    let verbs = rule.field("verbs");
    let (groups, resources) = (rule.field("apiGroups"), rule.field("resources"));
    let urls = rule.field("nonResourceURLs");
    if urls.len() > 0 {
        if is_namespaced {
            errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if groups.len() + resources.len() + rule.field("resourceNames").len() > 0 {
            errors.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return check_verbs(&verbs, errors);
    }
    if groups.len() == 0 {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.len() == 0 {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
    check_verbs(&verbs, errors);
}

fn check_verbs(verbs: &Place<'_, '_>, errors: &mut Errors) {
    if verbs.len() == 0 {
        errors.push(verbs.required(""));
    }
}

pub(crate) fn check_binding(binding: &Place<'_, '_>, kinds: &[&str], errors: &mut Errors) {
    let role = binding.field("roleRef");
    role.field("apiGroup").is_one_of(&[GROUP], errors);
    role.field("kind").is_one_of(kinds, errors);
    let needs_namespace = !kinds.contains(&"Role");
    for subject in binding.field("subjects").items() {
        check_subject(&subject, needs_namespace, errors);
    }
    role.field("name").must_be_set_and_keep(path_segment_name, errors);
}

pub(crate) fn check_subject(subject: &Place<'_, '_>, needs_namespace: bool, errors: &mut Errors) {
    let (kind, name) = (subject.field("kind"), subject.field("name"));
    let group = subject.field("apiGroup");
    kind.is_one_of(SUBJECTS, errors);
    name.must_be_set(errors);
    match kind.text() {
        "ServiceAccount" => {
            name.may_keep(dns1123_subdomain, errors);
            group.is_one_of(&[""], errors);
            if needs_namespace {
                subject.field("namespace").must_be_set(errors);
            }
        }
        "User" | "Group" => group.is_one_of(&[GROUP], errors),
        _ => {}
    }
}

/// Checks that the role of a binding is unchanged. It is immutable.
pub(crate) fn check_same_role(change: &Change<'_>, errors: &mut Errors) {
    let (role, live) = (change.new.field("roleRef"), change.live.field("roleRef"));
    if role.value() != live.value() {
        let shown = go_structs::structure("RoleRef", role.value());
        errors.push(role.invalid_in_go(shown, "field is immutable"));
    }
}
