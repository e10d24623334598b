//! Validation of pod updates. Most fields are immutable.

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::FieldError;

use super::annotation_rules::MIRROR;
use super::warnings::APP_ARMOR;
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::rules::unified_diff;

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                     to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                     previously negative)";

/// Checks an update.
pub(crate) fn check_change(pod: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    check_annotations(pod, live, errors);
    let (spec, live) = (pod.field("spec"), live.field("spec"));
    for name in ["containers", "initContainers"] {
        let containers = spec.field(name);
        if containers.len() != live.field(name).len() {
            errors.push(containers.forbidden("pod updates may not add or remove containers"));
            return;
        }
    }
    if !check_deadline(&spec, &live, errors) {
        return;
    }
    check_tolerations(&spec, &live, errors);
    check_gates(&spec, &live, errors);
    check_node_selector(&spec, &live, errors);
    check_node_affinity(&spec, &live, errors);
    let rest = without_allowed_changes(live.value(), spec.value());
    if rest != *live.value() {
        let changes = unified_diff::of_structs("PodSpec", live.value(), &rest);
        errors.push(spec.forbidden(format!("{FIXED}\n{changes}")));
    }
}

/// Checks the immutable annotations.
fn check_annotations(pod: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let (metadata, old_metadata) = (pod.field("metadata"), live.field("metadata"));
    let (new, old) = (metadata.field("annotations"), old_metadata.field("annotations"));
    for (kind, what) in [
        (APP_ARMOR, "AppArmor annotations"),
        (MIRROR, "mirror pod annotation"),
    ] {
        for (key, value) in old.entries().filter(|(key, _)| key.starts_with(kind)) {
            if new.value().get(key) != Some(value.value()) {
                let place = value.path();
                errors.push(FieldError::forbidden(
                    &place,
                    format!("may not remove or update {what}"),
                ));
            }
        }
        for (key, value) in new.entries().filter(|(key, _)| key.starts_with(kind)) {
            if old.value().get(key).is_none() {
                errors.push(value.forbidden(format!("may not add {what}")));
            }
        }
    }
}

/// Checks the node selector. Before scheduling, entries can be added.
fn check_node_selector(spec: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let (new, old) = (spec.field("nodeSelector"), live.field("nodeSelector"));
    let is_gated = live.field("schedulingGates").len() > 0;
    if is_gated
        && old
            .entries()
            .any(|(key, value)| new.value().get(key) != Some(value.value()))
    {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(new.invalid(why));
    }
}

/// Checks the required node affinity. Before scheduling, it can be narrowed.
fn check_node_affinity(spec: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    if live.field("schedulingGates").len() == 0 {
        return;
    }
    let (affinity, old) = (spec.field("affinity"), live.field("affinity"));
    let (affinity, old) = (affinity.field("nodeAffinity"), old.field("nodeAffinity"));
    let (required, old) = (affinity.field(REQUIRED), old.field(REQUIRED));
    let (terms, old) = (
        required.field("nodeSelectorTerms"),
        old.field("nodeSelectorTerms"),
    );
    if old.len() == 0 {
        return;
    }
    if terms.len() != old.len() {
        let shown = go_structs::list("NodeSelectorTerm", terms.value());
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.push(terms.invalid_in_go(shown, why));
    }
    for (term, old) in terms.items().zip(old.items()) {
        if !has_only_more(term.value(), old.value()) {
            errors.push(term.invalid_as(
                "NodeSelectorTerm",
                "only additions are allowed (no mutations or deletions)",
            ));
        }
    }
}

/// True if a term has all its old requirements. A term without requirements matches nothing, and must stay so.
fn has_only_more(term: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let items = |term: &Value, name: &str| term[name].as_array().cloned().unwrap_or_default();
    let selects_nothing = lists.iter().all(|name| items(old, name).is_empty());
    if selects_nothing {
        return lists.iter().all(|name| items(term, name).is_empty());
    }
    lists
        .iter()
        .all(|name| items(term, name).starts_with(&items(old, name)))
}

/// Checks `activeDeadlineSeconds`: it can be shortened, not removed. Returns false if the remaining checks are moot.
fn check_deadline(spec: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) -> bool {
    let name = "activeDeadlineSeconds";
    let (new, old) = (spec.field(name), live.field(name));
    if new.is_set() && !(0..=i64::from(i32::MAX)).contains(&new.number()) {
        errors.push(new.invalid("must be between 0 and 2147483647, inclusive"));
        return false;
    }
    if new.is_set() && old.is_set() && new.number() > old.number() {
        errors.push(new.invalid("must be less than or equal to previous value"));
        return false;
    }
    if old.is_set() && !new.is_set() {
        errors.push(new.invalid("must not update from a positive integer to nil value"));
    }
    true
}

/// Checks tolerations: they can be added, and `tolerationSeconds` can change.
fn check_tolerations(spec: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let (new, old) = (spec.field("tolerations"), live.field("tolerations"));
    let kept: HashSet<_> = new
        .items()
        .map(|toleration| timeless(toleration.value()))
        .collect();
    let all_kept = old
        .items()
        .all(|toleration| kept.contains(&timeless(toleration.value())));
    if !all_kept {
        errors.push(new.forbidden("existing toleration can not be modified except its tolerationSeconds"));
    }
}

/// The fields of a toleration besides its time.
fn timeless(toleration: &Value) -> [Option<&str>; 4] {
    ["key", "operator", "value", "effect"].map(|name| toleration[name].as_str())
}

/// Checks scheduling gates: they can only be removed.
fn check_gates(spec: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let old = live.field("schedulingGates");
    let known: HashSet<&str> = old.items().map(|gate| gate.field("name").text()).collect();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name");
        if !known.contains(name.text()) {
            let gate = name.text();
            let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            errors.push(name.forbidden(why));
        }
    }
}

/// The new spec with the allowed changes reverted to the live values.
fn without_allowed_changes(live: &Value, new: &Value) -> Value {
    let mut rest = new.clone();
    for list in ["containers", "initContainers"] {
        let containers = rest.get_mut(list).and_then(Value::as_array_mut);
        let before = live[list].as_array().into_iter().flatten();
        for (container, before) in containers.into_iter().flatten().zip(before) {
            container["image"] = before["image"].clone();
        }
    }
    let gated = live["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty());
    let ended =
        live["terminationGracePeriodSeconds"].as_i64() < Some(0) && new["terminationGracePeriodSeconds"] == 1;
    if gated {
        take_node_affinity(&mut rest, live);
    }
    for (name, changes) in [
        ("activeDeadlineSeconds", true),
        ("tolerations", true),
        ("schedulingGates", true),
        ("terminationGracePeriodSeconds", ended),
        // While a pod is gated, where it may run is mutable.
        ("nodeSelector", gated),
    ] {
        if changes {
            take(&mut rest, live, name);
        }
    }
    rest
}

/// Restores the live node affinity. Removes an affinity that is empty without it.
fn take_node_affinity(spec: &mut Value, live: &Value) {
    let old = &live["affinity"]["nodeAffinity"];
    if spec["affinity"]["nodeAffinity"] == *old {
        return;
    }
    if !spec["affinity"].is_object() {
        spec["affinity"] = json!({});
    }
    take(&mut spec["affinity"], &live["affinity"], "nodeAffinity");
    let is_empty = spec["affinity"].as_object().is_none_or(serde_json::Map::is_empty);
    if is_empty && live["affinity"].is_null() {
        spec.as_object_mut().map(|fields| fields.remove("affinity"));
    }
}

fn take(spec: &mut Value, from: &Value, name: &str) {
    let Some(fields) = spec.as_object_mut() else {
        return;
    };
    match from.get(name) {
        Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
        None => drop(fields.remove(name)),
    }
}
