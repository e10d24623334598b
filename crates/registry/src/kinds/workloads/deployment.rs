//! Deployments: replica sets that follow each other.

use serde_json::{Value, json};

use super::super::defaulting::{fill, object_mut};
use super::super::{Hooks, PLAIN};
use super::{KEPT_REVISIONS, default_template};

/// How many pods more, or fewer, there may be while old ones are replaced.
const QUARTER: &str = "25%";

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |deployment| {
        if let Some(spec) = object_mut(deployment, "spec") {
            default(spec);
        }
    },
    ..PLAIN
};

fn default(spec: &mut Value) {
    fill(spec, "replicas", 1);
    fill(spec, "strategy", json!({}));
    let strategy = &mut spec["strategy"];
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        fill(&mut strategy["rollingUpdate"], "maxUnavailable", QUARTER);
        fill(&mut strategy["rollingUpdate"], "maxSurge", QUARTER);
    }
    fill(spec, "revisionHistoryLimit", KEPT_REVISIONS);
    fill(spec, "progressDeadlineSeconds", 600);
    default_template(spec);
}
