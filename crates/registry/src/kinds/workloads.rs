//! The kinds that make pods: a template of a pod, and how many of it, where, or when.

pub(super) mod controller_revision;
pub(super) mod cron_job;
pub(super) mod daemon_set;
pub(super) mod deployment;
pub(super) mod job;
mod job_policies;
pub(super) mod pod_template;
pub(super) mod replica_set;
pub(super) mod replication_controller;
mod rollout_rules;
pub(super) mod stateful_set;
mod status_rules;
mod template_rules;

use serde_json::Value;

use super::defaulting::object_mut;
use super::place::{Faults, Place};
use super::{Change, pod};
use crate::metadata;
use crate::write::Warnings;
use status_rules::Counts;

/// How many old states are kept for a way back: ten, as Kubernetes has it.
const KEPT_REVISIONS: i64 = 10;

/// Fills in what the template in a spec leaves open.
fn default_template(spec: &mut Value) {
    if let Some(template) = object_mut(spec, "template")
        && let Some(spec) = object_mut(template, "spec")
    {
        pod::default_spec(spec);
    }
}

/// How many pods the older kinds count, and in which states.
const REPLICA_COUNTS: Counts = Counts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ],
    of_replicas: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
};

/// Refuses a change of the one thing that never changes.
fn check_same_selector(change: &Change<'_>, faults: &mut Faults) {
    let (new, live) = (change.new.field("spec"), change.live.field("spec"));
    new.field("selector").must_stay(&live.field("selector"), faults);
}

/// Who reports on an object does not label it.
fn keep_labels(object: &mut Value, live: &Value) {
    match live["metadata"].get("labels") {
        Some(labels) => drop(metadata::of(object).insert("labels".to_owned(), labels.clone())),
        None => drop(metadata::of(object).remove("labels")),
    }
}

/// Warns of a new or changed template; a name is warned of once, when it is given.
fn warn(object: &Value, live: Option<&Value>, warnings: &Warnings) {
    if live.is_none() {
        pod::warn_name(object, "Pod names and hostnames", warnings);
    }
    warn_template(object, live, warnings);
}

/// Warns of a new or changed template.
fn warn_template(object: &Value, live: Option<&Value>, warnings: &Warnings) {
    if live.is_none_or(|live| live["spec"] != object["spec"]) {
        let object = Place::object(object);
        pod::warn_template(&object.field("spec").field("template"), warnings);
    }
}
