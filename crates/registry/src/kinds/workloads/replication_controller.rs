//! Replication controllers: replica sets before there were replica sets. They take labels and selector from their
//! template.

use serde_json::Value;

use super::super::defaulting::{fill, object_mut};
use super::super::{Hooks, PLAIN};
use super::default_template;
use crate::metadata;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |controller| {
        let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
        if let Some(spec) = object_mut(controller, "spec") {
            fill(spec, "replicas", 1);
            default_template(spec);
        }
        if labels.is_object() {
            fill_empty(&mut controller["spec"], "selector", &labels);
            metadata::of(controller);
            fill_empty(&mut controller["metadata"], "labels", &labels);
        }
    },
    ..PLAIN
};

/// Here, a map without entries counts as not set.
pub(super) fn fill_empty(object: &mut Value, name: &str, labels: &Value) {
    if object[name].as_object().is_none_or(serde_json::Map::is_empty) {
        object[name] = labels.clone();
    }
}
