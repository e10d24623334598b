//! ReplicaSet: keeps a number of pods running.

use crate::Part;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, object_mut};
use crate::rules::workloads::template_rules::check_selected_template;
use crate::rules::workloads::{REPLICA_COUNTS, check_same_selector, default_template, warn_of_workload};
use crate::table::Column;

/// The kind served as `replicasets`.
pub static KIND: Kind = Kind {
    group: "apps",
    name: "ReplicaSet",
    plural: "replicasets",
    generation: Generation::Spec,
    columns: COLUMNS,
    pod_spec: Some("/spec/template/spec"),
    states_replicas: true,
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
    Column::SELECTOR,
];

const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            fill(spec, "replicas", 1);
            default_template(spec);
        }
    },
    check: |set, errors| {
        let spec = set.field("spec");
        spec.field("replicas").must_not_be_negative(errors);
        spec.field("minReadySeconds").must_not_be_negative(errors);
        check_selected_template(&spec, errors);
    },
    check_change: |change, errors| match change.part {
        Part::Status => REPLICA_COUNTS.check_change(change, errors),
        _ => check_same_selector(change, errors),
    },
    warn: warn_of_workload,
    heeds: Some(|_| false),
    ..PLAIN
};
