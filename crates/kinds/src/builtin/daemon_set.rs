//! DaemonSet: runs a pod on every node.

use serde_json::{Value, json};
use watchkeeper_meta::FieldErrorKind;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, object_mut};
use crate::rules::formats::number_or_percent;
use crate::rules::place::{Errors, Place};
use crate::rules::workloads::rollout_rules::unknown_type;
use crate::rules::workloads::status_rules::Counts;
use crate::rules::workloads::template_rules::{
    check_runs_on, check_selected, check_template, selects_everything,
};
use crate::rules::workloads::{KEPT_REVISIONS, check_same_selector, default_template, warn_template};
use crate::table::Column;
use crate::table::cells::label_pairs;
use crate::{Part, metadata};

/// Counts the changes of the template. v1 has no field for it, only this annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const COUNTS: Counts = Counts {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    of_replicas: &[],
    ready: "",
};

/// The kind served as `daemonsets`.
pub static KIND: Kind = Kind {
    group: "apps",
    name: "DaemonSet",
    plural: "daemonsets",
    generation: Generation::Spec,
    columns: COLUMNS,
    drop_alien_metadata: Some(drop_annotation),
    pod_spec: Some("/spec/template/spec"),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", |row| row.count("/status/desiredNumberScheduled")),
    Column::integer("Current", |row| row.count("/status/currentNumberScheduled")),
    Column::integer("Ready", |row| row.count("/status/numberReady")),
    Column::integer("Up-to-date", |row| row.count("/status/updatedNumberScheduled")),
    Column::integer("Available", |row| row.count("/status/numberAvailable")),
    Column::text("Node Selector", |row| {
        json!(label_pairs(row.at("/spec/template/spec/nodeSelector")))
    }),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            default(spec);
        }
        annotate(set, template_generation(set));
    },
    prepare_for_create: |set, _| annotate(set, 1),
    prepare_for_update: |part, set, live, _| {
        let changed = part != Part::Status && set["spec"]["template"] != live["spec"]["template"];
        annotate(set, template_generation(live) + i64::from(changed));
    },
    check: |set, errors| check(&set.field("spec"), errors),
    check_change: |change, errors| match change.part {
        Part::Status => COUNTS.check_change(change, errors),
        _ => check_same_selector(change, errors),
    },
    warn: |set, live, warnings| {
        if live.is_none_or(|live| live["spec"]["template"] != set["spec"]["template"]) {
            warn_template(set, live, warnings);
        }
    },
    ..PLAIN
};

/// Removes the template generation annotation from metadata-only answers.
fn drop_annotation(metadata: &mut Value) {
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove(TEMPLATE_GENERATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

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

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    selector.must_select(errors);
    check_selected(spec, None, errors);
    if selector.is_set() && selects_everything(selector.value()) {
        errors.push(selector.invalid("empty selector is invalid for daemonset"));
    }
    check_template(&template, errors);
    check_runs_on(&template, "DaemonSet", errors);
    spec.field("minReadySeconds").must_not_be_negative(errors);
    check_strategy(&spec.field("updateStrategy"), errors);
    spec.field("revisionHistoryLimit").must_not_be_negative(errors);
}

fn check_strategy(strategy: &Place<'_, '_>, errors: &mut Errors) {
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => check_rolling_update(&strategy.field("rollingUpdate"), errors),
        _ => errors.push(unknown_type(
            strategy,
            "DaemonSetUpdateStrategy",
            FieldErrorKind::NotSupported,
            r#"supported values: "RollingUpdate", "OnDelete""#,
        )),
    }
}

fn check_rolling_update(rolling: &Place<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    for amount in [unavailable, surge] {
        amount.must_be_number_or_percent(errors);
    }
    for amount in [unavailable, surge] {
        amount.must_be_at_most_all(errors);
    }
    let is_some = |amount: &Place<'_, '_>| number_or_percent(amount.value()) != 0;
    match (is_some(&unavailable), is_some(&surge)) {
        (true, true) => errors.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
        (false, false) => errors.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}
