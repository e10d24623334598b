//! The part of an object that a write concerns; the rest keeps its live values.

use std::collections::HashMap;

use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_wire::difference::Difference;

use crate::definition::Definition;
use crate::subresources::scale::with_replicas_of;

/// Restores everything but the written part.
pub(super) fn restrict(definition: &Definition, part: Part, new: &mut Value, live: &Value) {
    let only = |new: &mut Value, parent: &str, name: &str| {
        let taken = new[parent].get(name).cloned();
        *new = live.clone();
        match (taken, &mut new[parent]) {
            (Some(taken), fields) => fields[name] = taken,
            (None, Value::Object(fields)) => drop(fields.remove(name)),
            (None, _) => {}
        }
    };
    match part {
        Part::Scale => match with_replicas_of(definition, live, new) {
            Some(scaled) => return *new = scaled,
            None => return only(new, "spec", "replicas"),
        },
        Part::EphemeralContainers => return only(new, "spec", "ephemeralContainers"),
        Part::Approval => return only(new, "status", "conditions"),
        Part::Resize => return take_resources(new, live),
        Part::Object | Part::Status | Part::Finalize | Part::Whole => {}
    }
    if let Some(conversion) = definition.conversion {
        conversion.keep(part, new, live);
    }
    // For a custom object's status, labels are not written either.
    if part == Part::Status && definition.is_custom() {
        let status = new.get("status").cloned();
        *new = live.clone();
        return match (status, new.as_object_mut()) {
            (Some(status), _) => new["status"] = status,
            (None, Some(fields)) => drop(fields.remove("status")),
            (None, None) => {}
        };
    }
    let Some(fields) = new.as_object_mut() else { return };
    let mut keep = |name: &str| match live.get(name) {
        Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
        None => drop(fields.remove(name)),
    };
    match part {
        Part::Object if definition.has_status() => keep("status"),
        Part::Finalize => keep("status"),
        Part::Status => {
            let names: Vec<String> = live
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect();
            let is_kept = |name: &&String| match name.as_str() {
                "status" => false,
                "metadata" => definition.kind.status_keeps_metadata,
                _ => true,
            };
            for name in names.iter().filter(is_kept) {
                keep(name);
            }
        }
        _ => {}
    }
}

/// Restricts a pod's change to the resources of its containers.
fn take_resources(new: &mut Value, live: &Value) {
    let wanted = std::mem::replace(new, live.clone());
    for list in ["containers", "initContainers"] {
        let Some(containers) = new["spec"].get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        let wanted = wanted["spec"][list].as_array().into_iter().flatten();
        // The first of several with one name counts.
        let named: HashMap<Option<&str>, &Value> =
            wanted.rev().map(|same| (same["name"].as_str(), same)).collect();
        for container in containers {
            if let Some(same) = named.get(&container["name"].as_str()) {
                container["resources"] = same["resources"].clone();
            }
        }
    }
}

/// True if two states are equal except for their versions.
pub(super) fn is_same_but_for_version(live: &Value, new: &Value, difference: &Difference) -> bool {
    is_same_but_for(difference, live, new, |name| name != "metadata")
        && is_same(&live["metadata"], &new["metadata"], |name| {
            name != "resourceVersion"
        })
}

/// True if the members that count are equal in two objects with a known difference.
pub(super) fn is_same_but_for(
    difference: &Difference,
    live: &Value,
    new: &Value,
    counts: impl Fn(&str) -> bool,
) -> bool {
    match difference {
        Difference::Members { changed, gone: false } => {
            let mut changed = changed.iter().filter(|(name, _)| counts(name));
            !changed.any(|(name, below)| below.persists(live.get(name), new.get(name)))
        }
        _ => is_same(live, new, counts),
    }
}

/// True if the members that count are equal in two objects.
fn is_same(one: &Value, other: &Value, counts: impl Fn(&str) -> bool) -> bool {
    let (Some(members), Some(others)) = (one.as_object(), other.as_object()) else {
        return one == other;
    };
    let counted = |(name, _): &(&String, &Value)| counts(name);
    members.iter().filter(counted).eq(others.iter().filter(counted))
}
