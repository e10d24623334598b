//! Replica sets: so many pods of one template.

use super::super::defaulting::{fill, object_mut};
use super::super::{Hooks, PLAIN};
use super::template_rules::check_selected_template;
use super::{REPLICA_COUNTS, check_same_selector, default_template};
use crate::update::Part;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            fill(spec, "replicas", 1);
            default_template(spec);
        }
    },
    check: |set, faults| {
        let spec = set.field("spec");
        spec.field("replicas").must_not_be_negative(faults);
        spec.field("minReadySeconds").must_not_be_negative(faults);
        check_selected_template(&spec, faults);
    },
    check_change: |change, faults| match change.part {
        Part::Status => REPLICA_COUNTS.check_change(change, faults),
        _ => check_same_selector(change, faults),
    },
    warn: super::warn,
    heeds: Some(|_| false),
    ..PLAIN
};
