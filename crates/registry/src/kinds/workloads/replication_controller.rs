//! Replication controllers: replica sets before there were replica sets. They take labels and selector from their
//! template.

use serde_json::Value;

use super::super::defaulting::{fill, object_mut};
use super::super::place::{Faults, Place};
use super::super::{Hooks, PLAIN};
use super::template_rules::{check_runs_on, check_selected_by_labels, check_template};
use super::{REPLICA_COUNTS, default_template};
use crate::metadata;
use crate::update::Part;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |controller| {
        let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
        if let Some(spec) = object_mut(controller, "spec") {
            fill(spec, "replicas", 1);
            default_template(spec);
        }
        if labels.is_object() {
            fill_labels(&mut controller["spec"], "selector", &labels);
            metadata::of(controller);
            fill_labels(&mut controller["metadata"], "labels", &labels);
        }
    },
    check: |controller, faults| check(&controller.field("spec"), faults),
    check_change: |change, faults| {
        if change.part == Part::Status {
            REPLICA_COUNTS.check_change(change, faults);
        }
    },
    warn: super::warn,
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    spec.field("minReadySeconds").must_not_be_negative(faults);
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if selector.len() == 0 {
        faults.push(selector.required(""));
    }
    spec.field("replicas").must_not_be_negative(faults);
    if !template.is_set() {
        faults.push(template.required(""));
        return;
    }
    check_selected_by_labels(spec, faults);
    check_template(&template, Vec::new(), faults);
    check_runs_on(&template, "ReplicationController", faults);
}

/// Here, a map without entries counts as not set.
pub(super) fn fill_labels(object: &mut Value, name: &str, labels: &Value) {
    if object[name].as_object().is_none_or(serde_json::Map::is_empty) {
        object[name] = labels.clone();
    }
}
