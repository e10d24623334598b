//! ReplicationController: the predecessor of ReplicaSet. Labels and selector default to those of the template.

use serde_json::{Value, json};

use crate::fields::Selectable;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, object_mut};
use crate::rules::place::{Errors, Place};
use crate::rules::workloads::template_rules::{check_runs_on, check_selected_by_labels, check_template};
use crate::rules::workloads::{REPLICA_COUNTS, default_template, warn_of_workload};
use crate::table::Column;
use crate::table::cells::label_pairs;
use crate::{Part, metadata};

/// The kind served as `replicationcontrollers`.
pub static KIND: Kind = Kind {
    group: "",
    name: "ReplicationController",
    plural: "replicationcontrollers",
    storage_name: Some("controllers"),
    generation: Generation::Spec,
    orphans_by_default: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    pod_spec: Some("/spec/template/spec"),
    counted_by_plural: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", |row| row.count("/spec/replicas")),
    Column::integer("Current", |row| row.count("/status/replicas")),
    Column::integer("Ready", |row| row.count("/status/readyReplicas")),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::text("Selector", |row| json!(label_pairs(row.at("/spec/selector")))).wide(),
];

const SELECTABLE: &[Selectable] = &[Selectable::number("status.replicas", &["/status/replicas"])];

const HOOKS: Hooks = Hooks {
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
    check: |controller, errors| check(&controller.field("spec"), errors),
    check_change: |change, errors| {
        if change.part == Part::Status {
            REPLICA_COUNTS.check_change(change, errors);
        }
    },
    warn: warn_of_workload,
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("minReadySeconds").must_not_be_negative(errors);
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if selector.len() == 0 {
        errors.push(selector.required(""));
    }
    spec.field("replicas").must_not_be_negative(errors);
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    check_selected_by_labels(spec, errors);
    check_template(&template, errors);
    check_runs_on(&template, "ReplicationController", errors);
}

/// Copies labels to a field that is unset or empty.
pub(crate) fn fill_labels(object: &mut Value, name: &str, labels: &Value) {
    if object[name].as_object().is_none_or(serde_json::Map::is_empty) {
        object[name] = labels.clone();
    }
}
