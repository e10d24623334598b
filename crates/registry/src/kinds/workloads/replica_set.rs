//! Replica sets: so many pods of one template.

use super::super::defaulting::{fill, object_mut};
use super::super::place::{Faults, Place};
use super::super::{Hooks, PLAIN};
use super::template_rules::{check_runs_on, check_selected, check_selector, check_template, is_valid};
use super::{REPLICA_COUNTS, default_template, faults_of_spec, selector_is_immutable};
use crate::update::Part;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            fill(spec, "replicas", 1);
            default_template(spec);
        }
    },
    faults: |set| faults_of_spec(set, check),
    update_faults: |part, set, live| match part {
        Part::Status => REPLICA_COUNTS.faults(set),
        _ => selector_is_immutable(set, live),
    },
    warn: super::warn,
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    spec.field("replicas").must_not_be_negative(faults);
    spec.field("minReadySeconds").must_not_be_negative(faults);
    let selector = spec.field("selector");
    check_selector(&selector, "deployment", faults);
    check_selected(spec, faults);
    if is_valid(&selector) {
        let template = spec.field("template");
        check_template(&template, faults);
        check_runs_on(&template, "ReplicaSet", faults);
    }
}
