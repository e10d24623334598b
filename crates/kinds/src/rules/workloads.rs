//! Shared rules of workloads: the kinds with a pod template.

pub(crate) mod rollout_rules;
pub(crate) mod status_rules;
pub(crate) mod template_rules;

use serde_json::Value;
use status_rules::Counts;

use crate::builtin::pod;
use crate::kind::Change;
use crate::rules::defaulting::object_mut;
use crate::rules::go_structs::LABEL_SELECTOR;
use crate::rules::place::{Errors, Place};
use crate::{Warnings, metadata};

/// The default revision history limit, as in Kubernetes.
pub(crate) const KEPT_REVISIONS: i64 = 10;

/// Sets the defaults of the pod template in a spec.
pub(crate) fn default_template(spec: &mut Value) {
    if let Some(template) = object_mut(spec, "template")
        && let Some(spec) = object_mut(template, "spec")
    {
        pod::default_spec(spec);
    }
}

/// The status counts of replica sets and replication controllers.
pub(crate) const REPLICA_COUNTS: Counts = Counts {
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

/// Refuses a change of the selector.
pub(crate) fn check_same_selector(change: &Change<'_>, errors: &mut Errors) {
    let (new, live) = (change.new.field("spec"), change.live.field("spec"));
    new.field("selector")
        .must_stay_as(LABEL_SELECTOR, &live.field("selector"), errors);
}

/// Keeps the live labels in a status write.
pub(crate) fn keep_labels(object: &mut Value, live: &Value) {
    match live["metadata"].get("labels") {
        Some(labels) => drop(metadata::of(object).insert("labels".to_owned(), labels.clone())),
        None => drop(metadata::of(object).remove("labels")),
    }
}

/// Warns of a new or changed template, and of the name of a new object.
pub(crate) fn warn_of_workload(object: &Value, live: Option<&Value>, warnings: &Warnings) {
    if live.is_none() {
        pod::warn_name(object, "Pod names and hostnames", warnings);
    }
    warn_template(object, live, warnings);
}

/// Warns of a new or changed template.
pub(crate) fn warn_template(object: &Value, live: Option<&Value>, warnings: &Warnings) {
    if live.is_none_or(|live| live["spec"] != object["spec"]) {
        let object = Place::object(object);
        pod::warn_template(&object.field("spec").field("template"), warnings);
    }
}
