//! Deployment: rolls out replica sets.

use serde_json::{Value, json};
use watchkeeper_meta::FieldErrorKind;

use crate::Part;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, object_mut};
use crate::rules::formats::number_or_percent;
use crate::rules::place::{Errors, Place};
use crate::rules::workloads::rollout_rules::unknown_type;
use crate::rules::workloads::status_rules::Counts;
use crate::rules::workloads::template_rules::check_selected_template;
use crate::rules::workloads::{
    KEPT_REVISIONS, check_same_selector, default_template, keep_labels, warn_of_workload,
};
use crate::table::Column;
use crate::table::cells::ready_of_replicas;

/// The default of `maxSurge` and `maxUnavailable`.
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
    ready: "readyReplicas",
};

/// The kind served as `deployments`.
pub static KIND: Kind = Kind {
    group: "apps",
    name: "Deployment",
    plural: "deployments",
    generation: Generation::Spec,
    not_of_status: &[&["metadata", "labels"]],
    columns: COLUMNS,
    pod_spec: Some("/spec/template/spec"),
    states_replicas: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", |row| json!(ready_of_replicas(row))),
    Column::text("Up-to-date", |row| row.count("/status/updatedReplicas")),
    Column::text("Available", |row| row.count("/status/availableReplicas")),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

const HOOKS: Hooks = Hooks {
    default: |deployment| {
        if let Some(spec) = object_mut(deployment, "spec") {
            default(spec);
        }
    },
    prepare_for_update: |part, deployment, live, _| match part {
        Part::Status => keep_labels(deployment, live),
        Part::Object => count_annotations(deployment, live),
        _ => {}
    },
    check: |deployment, errors| check(&deployment.field("spec"), errors),
    check_change: |change, errors| match change.part {
        Part::Status => COUNTS.check_change(change, errors),
        _ => check_same_selector(change, errors),
    },
    warn: warn_of_workload,
    ..PLAIN
};

/// Increments the generation when annotations change, because they are copied to replica sets.
fn count_annotations(deployment: &mut Value, live: &Value) {
    if deployment["metadata"].get("annotations") != live["metadata"].get("annotations") {
        let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
        deployment["metadata"]["generation"] = json!(generation + 1);
    }
}

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

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("replicas").must_not_be_negative(errors);
    check_selected_template(spec, errors);
    check_strategy(&spec.field("strategy"), errors);
    let ready_after = spec.field("minReadySeconds");
    ready_after.must_not_be_negative(errors);
    spec.field("revisionHistoryLimit").must_not_be_negative(errors);
    let deadline = spec.field("progressDeadlineSeconds");
    deadline.must_not_be_negative(errors);
    if deadline.is_set() && deadline.number() <= ready_after.number() {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

fn check_strategy(strategy: &Place<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" if rolling.is_set() => {
            errors.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"))
        }
        "Recreate" => {}
        "RollingUpdate" => check_rolling_update(&rolling, errors),
        _ => errors.push(unknown_type(
            strategy,
            "DeploymentStrategy",
            FieldErrorKind::NotSupported,
            r#"supported values: "Recreate", "RollingUpdate""#,
        )),
    }
}

fn check_rolling_update(rolling: &Place<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    unavailable.must_be_number_or_percent(errors);
    surge.must_be_number_or_percent(errors);
    let is_none = |amount: &Place<'_, '_>| number_or_percent(amount.value()) == 0;
    if is_none(&unavailable) && is_none(&surge) {
        errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    unavailable.must_be_at_most_all(errors);
}
