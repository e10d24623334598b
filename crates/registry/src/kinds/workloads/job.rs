//! Jobs: pods that end.

use serde_json::{Value, json};

use super::super::defaulting::{fill, items_mut, object_mut};
use super::super::{Hooks, PLAIN};
use super::default_template;
use super::replication_controller::fill_empty;
use crate::metadata;

/// The job's own uid, on its pods and in its selector.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |job| {
        let labels = job["spec"]["template"]["metadata"]["labels"].clone();
        if let Some(spec) = object_mut(job, "spec") {
            default(spec);
        }
        if labels.is_object() {
            metadata::of(job);
            fill_empty(&mut job["metadata"], "labels", &labels);
        }
    },
    prepare_for_create: |job| {
        if job["spec"]["manualSelector"] != true {
            select_own_pods(job);
        }
    },
    ..PLAIN
};

fn default(spec: &mut Value) {
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let retries = match spec.get("backoffLimitPerIndex") {
        Some(_) => i32::MAX,
        None => 6,
    };
    fill(spec, "backoffLimit", retries);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replaced_when = match object_mut(spec, "podFailurePolicy") {
        Some(policy) => {
            items_mut(policy, "rules").for_each(default_failure_rule);
            "Failed"
        }
        None => "TerminatingOrFailed",
    };
    fill(spec, "podReplacementPolicy", replaced_when);
    fill(spec, "manualSelector", false);
    default_template(spec);
}

fn default_failure_rule(rule: &mut Value) {
    for pattern in items_mut(rule, "onPodConditions") {
        fill(pattern, "status", "True");
    }
}

/// Marks the job's pods with its name and uid, each under its old and its new label, and selects them by uid.
fn select_own_pods(job: &mut Value) {
    let uid = metadata::text(job, "uid").to_owned();
    let name = metadata::text(job, "name").to_owned();
    let spec = &mut job["spec"];
    let labels = &mut spec["template"]["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    for (label, value) in [
        ("controller-uid", &uid),
        (CONTROLLER_UID, &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        labels[label] = json!(value);
    }
    fill(spec, "selector", json!({}));
    fill(&mut spec["selector"], "matchLabels", json!({}));
    fill(&mut spec["selector"]["matchLabels"], CONTROLLER_UID, uid);
}
