//! Daemon sets: a pod on every node.

use serde_json::{Value, json};

use super::super::defaulting::{fill, object_mut};
use super::super::{Hooks, PLAIN};
use super::{KEPT_REVISIONS, default_template};
use crate::metadata;
use crate::update::Part;

/// Counts the states of the template. It is a field that is no longer shown, except in this annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            default(spec);
        }
        annotate(set, template_generation(set));
    },
    prepare_for_create: |set| annotate(set, 1),
    prepare_for_update: |part, set, live| {
        let changed = part != Part::Status && set["spec"]["template"] != live["spec"]["template"];
        annotate(set, template_generation(live) + i64::from(changed));
    },
    ..PLAIN
};

fn default(spec: &mut Value) {
    fill(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        fill(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        fill(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
    fill(spec, "revisionHistoryLimit", KEPT_REVISIONS);
    default_template(spec);
}

fn template_generation(set: &Value) -> i64 {
    let stated = set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    stated.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn annotate(set: &mut Value, generation: i64) {
    let annotations = metadata::of(set)
        .entry("annotations")
        .or_insert_with(|| json!({}));
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[TEMPLATE_GENERATION] = json!(generation.to_string());
}
