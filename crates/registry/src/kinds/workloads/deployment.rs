//! Deployments: replica sets that follow each other.

use serde_json::{Value, json};
use watchkeeper_meta::FieldErrorKind;

use super::super::defaulting::{fill, object_mut};
use super::super::place::{Faults, Place};
use super::super::{Hooks, PLAIN};
use super::rollout_rules::{check_amount, check_at_most_all, size, unknown_type};
use super::status_rules::Counts;
use super::template_rules::{check_runs_on, check_selected, check_selector, check_template, is_valid};
use super::{KEPT_REVISIONS, default_template, faults_of_spec, selector_is_immutable};
use crate::update::Part;

/// How many pods more, or fewer, there may be while old ones are replaced.
const QUARTER: &str = "25%";

const COUNTS: Counts = Counts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "collisionCount",
    ],
    of_replicas: &["updatedReplicas", "readyReplicas", "availableReplicas"],
};

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |deployment| {
        if let Some(spec) = object_mut(deployment, "spec") {
            default(spec);
        }
    },
    faults: |deployment| faults_of_spec(deployment, check),
    update_faults: |part, set, live| match part {
        Part::Status => COUNTS.faults(set),
        _ => selector_is_immutable(set, live),
    },
    warn: super::warn,
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

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    spec.field("replicas").must_not_be_negative(faults);
    let selector = spec.field("selector");
    check_selector(&selector, "deployment", faults);
    check_selected(spec, faults);
    if is_valid(&selector) {
        let template = spec.field("template");
        check_template(&template, faults);
        check_runs_on(&template, "ReplicaSet", faults);
    }
    check_strategy(&spec.field("strategy"), faults);
    let ready_after = spec.field("minReadySeconds");
    ready_after.must_not_be_negative(faults);
    spec.field("revisionHistoryLimit").must_not_be_negative(faults);
    let deadline = spec.field("progressDeadlineSeconds");
    deadline.must_not_be_negative(faults);
    if deadline.is_set() && deadline.number() <= ready_after.number() {
        faults.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

fn check_strategy(strategy: &Place<'_, '_>, faults: &mut Faults) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" if rolling.is_set() => {
            faults.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"))
        }
        "Recreate" => {}
        "RollingUpdate" => check_rolling_update(&rolling, faults),
        _ => faults.push(unknown_type(
            strategy,
            FieldErrorKind::NotSupported,
            r#"supported values: "Recreate", "RollingUpdate""#,
        )),
    }
}

fn check_rolling_update(rolling: &Place<'_, '_>, faults: &mut Faults) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    check_amount(&unavailable, faults);
    check_amount(&surge, faults);
    if size(unavailable.value()) == 0 && size(surge.value()) == 0 {
        faults.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    check_at_most_all(&unavailable, faults);
}
