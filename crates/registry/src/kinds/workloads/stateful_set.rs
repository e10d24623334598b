//! Stateful sets: pods with names and disks of their own.

use serde_json::{Value, json};

use super::super::defaulting::{fill, items_mut, object_mut};
use super::super::{Hooks, PLAIN};
use super::{KEPT_REVISIONS, default_template};

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            default(spec);
        }
    },
    ..PLAIN
};

fn default(spec: &mut Value) {
    fill(spec, "podManagementPolicy", "OrderedReady");
    default_strategy(spec);
    fill(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", KEPT_REVISIONS);
    items_mut(spec, "volumeClaimTemplates").for_each(default_claim);
    default_template(spec);
}

fn default_strategy(spec: &mut Value) {
    fill(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    if strategy["type"].is_null() {
        fill(strategy, "type", "RollingUpdate");
        fill(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = object_mut(strategy, "rollingUpdate")
    {
        fill(rolling, "partition", 0);
        fill(rolling, "maxUnavailable", 1);
    }
}

/// A claim within a set is shown as the object it will be.
fn default_claim(claim: &mut Value) {
    fill(claim, "apiVersion", "v1");
    fill(claim, "kind", "PersistentVolumeClaim");
    if let Some(spec) = object_mut(claim, "spec") {
        fill(spec, "volumeMode", "Filesystem");
    }
    fill(claim, "status", json!({}));
    fill(&mut claim["status"], "phase", "Pending");
}
