//! Nodes: not ready until they say so.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{label_value, qualified_name};
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{items, one_of, required, text};
use super::formats::{cidr, each};
use super::{Hooks, PLAIN};
use crate::update::Part;

/// Keeps pods away from a node that has not reported itself ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) const HOOKS: Hooks = Hooks {
    default: |node| {
        default_allocatable(node);
        sync_ranges(node);
    },
    prepare_for_create: taint_until_ready,
    faults,
    update_faults: |part, node, live| match part {
        Part::Status => Vec::new(),
        _ => update_faults(node, live),
    },
    ..PLAIN
};

/// The one range that older clients know is the first of all.
fn sync_ranges(node: &mut Value) {
    let first = node["spec"]["podCIDR"].clone();
    if first.as_str().is_some_and(|first| !first.is_empty()) && node["spec"]["podCIDRs"][0] != first {
        node["spec"]["podCIDRs"] = json!([first]);
    }
}

/// A node that keeps nothing for itself gives pods all it has.
fn default_allocatable(node: &mut Value) {
    if let Some(capacity) = node["status"].get("capacity").cloned()
        && node["status"].get("allocatable").is_none()
    {
        node["status"]["allocatable"] = capacity;
    }
}

fn taint_until_ready(node: &mut Value) {
    let is_tainted = items(node, "/spec/taints").any(|taint| taint["key"] == NOT_READY);
    if is_tainted {
        return;
    }
    let mut taints: Vec<Value> = items(node, "/spec/taints").cloned().collect();
    taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    node["spec"]["taints"] = Value::Array(taints);
}

fn faults(node: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    // Kubernetes says `metadata` where it means `spec`.
    let path = FieldPath::new("metadata").child("taints");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in items(node, "/spec/taints").enumerate() {
        let path = path.index(index);
        taint_faults(taint, &path, &mut faults);
        let identity = (text(taint, "/key"), text(taint, "/effect"));
        if seen.contains(&identity) {
            let mut fault = FieldError::duplicate(&path, taint.clone());
            fault.detail = "taints must be unique by key and effect pair".to_owned();
            faults.push(fault);
        }
        seen.push(identity);
    }
    let path = FieldPath::new("spec").child("podCIDRs");
    for (index, range) in items(node, "/spec/podCIDRs").enumerate() {
        cidr(
            &mut faults,
            &path.index(index),
            range.as_str().unwrap_or_default(),
        );
    }
    faults
}

fn taint_faults(taint: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let (key, value) = (text(taint, "/key"), text(taint, "/value"));
    each(faults, &path.child("key"), key, qualified_name(key));
    let problems = label_value(value);
    if !problems.is_empty() {
        each(faults, &path.child("value"), value, [problems.join(";")]);
    }
    match text(taint, "/effect") {
        "" => required(faults, &path.child("effect"), ""),
        effect => {
            let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            one_of(faults, &path.child("effect"), effect, &known);
        }
    }
}

fn update_faults(node: &Value, live: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    for (name, shown) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let (new, old) = (node["spec"].get(name), live["spec"].get(name));
        if old.is_some_and(|old| old != "") && new != old {
            let why = format!("node updates may not change {shown} except from \"\" to valid");
            faults.push(FieldError::forbidden(&spec.child(name), why));
        }
    }
    faults
}
