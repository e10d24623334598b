//! Validation of `/resize`: the CPU and memory of a running pod may change, but no resource may be removed and the QoS
//! class stays.

use serde_json::{Value, json};

use super::annotation_rules::MIRROR;
use super::quality_of_service;
use crate::rules::place::{Errors, Place};

/// The resources that can change while a container runs.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// Checks an update.
pub(crate) fn check_change(pod: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    for (is_fixed, whose) in [
        (
            live.value()["metadata"]["annotations"].get(MIRROR).is_some(),
            "static",
        ),
        (live.value()["spec"]["os"]["name"] == "windows", "windows"),
    ] {
        if is_fixed {
            *errors = Errors::new();
            errors.push(Place::object(pod.value()).forbidden(format!("{whose} pods cannot be resized")));
            return;
        }
    }
    let (spec, old) = (pod.field("spec"), live.field("spec"));
    if quality_of_service::of(spec.value()) != quality_of_service::of(old.value()) {
        let class = &pod.value()["status"]["qosClass"];
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(spec.invalid_for(class.clone(), why));
    }
    for list in ["initContainers", "containers"] {
        let (containers, before) = (spec.field(list), old.field(list));
        for (container, before) in containers.items().zip(before.items()) {
            if is_resizable(list, before.value()) {
                check_nothing_removed(&container.field("resources"), &before.field("resources"), errors);
            }
        }
    }
    if with_old_amounts(spec.value(), old.value()) != *old.value() {
        errors.push(spec.forbidden("only cpu and memory resources are mutable"));
    }
}

/// True unless the container is an init container that runs once.
fn is_resizable(list: &str, container: &Value) -> bool {
    list == "containers" || container["restartPolicy"] == "Always"
}

fn check_nothing_removed(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["requests", "limits"] {
        let (amounts, before) = (new.field(name), old.field(name));
        if before
            .entries()
            .any(|(resource, _)| !amounts.entry(resource).is_set())
        {
            errors.push(amounts.forbidden(format!("resource {name} cannot be removed")));
        }
    }
}

/// The new spec with the live amounts of the mutable resources.
fn with_old_amounts(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for list in ["initContainers", "containers"] {
        let before = old[list].as_array().into_iter().flatten();
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for (container, before) in containers.into_iter().flatten().zip(before) {
            if is_resizable(list, before) {
                take_amounts(container, before);
            }
        }
    }
    spec
}

fn take_amounts(container: &mut Value, before: &Value) {
    for list in ["requests", "limits"] {
        for resource in MUTABLE {
            match before["resources"][list].get(resource) {
                Some(amount) => container["resources"][list][resource] = amount.clone(),
                None => {
                    let amounts = container["resources"]
                        .get_mut(list)
                        .and_then(Value::as_object_mut);
                    amounts.map(|amounts| amounts.remove(resource));
                }
            }
        }
        if before["resources"].get(list).is_none() && container["resources"][list] == json!({}) {
            let resources = container["resources"].as_object_mut();
            resources.map(|resources| resources.remove(list));
        }
    }
}
