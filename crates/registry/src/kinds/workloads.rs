//! The kinds that make pods: a template of a pod, and how many of it, where, or when.

pub(super) mod cron_job;
pub(super) mod daemon_set;
pub(super) mod deployment;
pub(super) mod job;
pub(super) mod pod_template;
pub(super) mod replica_set;
pub(super) mod replication_controller;
pub(super) mod stateful_set;

use serde_json::Value;

use super::defaulting::object_mut;
use super::pod;

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
