//! What may not change in a pod once it is there: nearly everything.

use serde_json::Value;

use super::super::place::{Faults, Place};
use super::go_structs;
use super::unified_diff::unified_diff;

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                     to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                     previously negative)";

/// What is wrong with a change.
pub(super) fn check_change(pod: &Value, live: &Value) -> Faults {
    let mut faults = Faults::new();
    let (pod, live) = (Place::object(pod), Place::object(live));
    let (spec, live) = (pod.field("spec"), live.field("spec"));
    for name in ["containers", "initContainers"] {
        let containers = spec.field(name);
        if containers.len() != live.field(name).len() {
            faults.push(containers.forbidden("pod updates may not add or remove containers"));
        }
    }
    if !faults.is_empty() {
        return faults;
    }
    check_deadline(&spec, &live, &mut faults);
    check_tolerations(&spec, &live, &mut faults);
    check_gates(&spec, &live, &mut faults);
    if !faults.is_empty() {
        return faults;
    }
    let rest = without_allowed_changes(live.value(), spec.value());
    if rest != *live.value() {
        let changes = unified_diff(&go_structs::lines(live.value()), &go_structs::lines(&rest));
        faults.push(spec.forbidden(format!("{FIXED}\n{changes}")));
    }
    faults
}

/// A deadline can come nearer, not go away.
fn check_deadline(spec: &Place<'_, '_>, live: &Place<'_, '_>, faults: &mut Faults) {
    let name = "activeDeadlineSeconds";
    let (new, old) = (spec.field(name), live.field(name));
    if !old.is_set() {
        return;
    }
    if !new.is_set() {
        faults.push(new.invalid("must not update from a positive integer to nil value"));
    } else if new.number() > old.number() {
        faults.push(new.invalid("must be less than or equal to previous value"));
    }
}

/// Tolerations can be added; of those that are there, only the time can change.
fn check_tolerations(spec: &Place<'_, '_>, live: &Place<'_, '_>, faults: &mut Faults) {
    let (new, old) = (spec.field("tolerations"), live.field("tolerations"));
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration
            .as_object_mut()
            .map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let kept: Vec<Value> = new
        .items()
        .map(|toleration| timeless(toleration.value()))
        .collect();
    let all_kept = old
        .items()
        .all(|toleration| kept.contains(&timeless(toleration.value())));
    if !all_kept {
        faults.push(new.forbidden("existing toleration can not be modified except its tolerationSeconds"));
    }
}

/// What keeps a pod from being scheduled can only go.
fn check_gates(spec: &Place<'_, '_>, live: &Place<'_, '_>, faults: &mut Faults) {
    let old = live.value()["schedulingGates"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for gate in spec.field("schedulingGates").items() {
        if !old.contains(gate.value()) {
            let name = gate.field("name").text();
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.push(gate.forbidden(why));
        }
    }
}

/// The new spec without those changes of the live one that are allowed.
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
    for (name, changes) in [
        ("activeDeadlineSeconds", true),
        ("tolerations", true),
        ("schedulingGates", true),
        ("terminationGracePeriodSeconds", ended),
        // Where a pod may run is open until nothing keeps it from being scheduled.
        ("nodeSelector", gated),
        ("affinity", gated),
    ] {
        if changes {
            take(&mut rest, live, name);
        }
    }
    rest
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
