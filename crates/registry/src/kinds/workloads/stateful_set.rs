//! Stateful sets: pods with names and disks of their own.

use serde_json::{Value, json};
use watchkeeper_meta::{FieldError, FieldErrorKind, FieldPath};

use super::super::defaulting::{fill, items_mut, object_mut};
use super::super::place::{Faults, Place};
use super::super::{Hooks, PLAIN};
use super::rollout_rules::{check_amount, unknown_type};
use super::status_rules::Counts;
use super::template_rules::{check_runs_on, check_selected, check_selector, check_template, is_valid};
use super::{KEPT_REVISIONS, default_template, faults_of_spec};
use crate::update::Part;

/// What can be changed; the rest is in the names and disks of the pods that are there.
const CHANGEABLE: &[&str] = &[
    "minReadySeconds",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "replicas",
    "revisionHistoryLimit",
    "template",
    "updateStrategy",
];
const RETENTION: &[&str] = &["Retain", "Delete"];

const COUNTS: Counts = Counts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    of_replicas: &[
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ],
};

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            default(spec);
        }
    },
    faults: |set| faults_of_spec(set, check),
    update_faults: |part, set, live| match part {
        Part::Status => COUNTS.faults(set),
        _ => check_change(&set["spec"], &live["spec"]),
    },
    warn: super::warn,
    ..PLAIN
};

fn default(spec: &mut Value) {
    fill(spec, "podManagementPolicy", "OrderedReady");
    default_strategy(spec);
    fill(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", KEPT_REVISIONS);
    items_mut(spec, "volumeClaimTemplates").for_each(default_claim);
    default_template(spec);
}

fn default_strategy(spec: &mut Value) {
    fill(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    if strategy["type"].is_null() {
        fill(strategy, "type", "RollingUpdate");
        fill(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = object_mut(strategy, "rollingUpdate")
    {
        fill(rolling, "partition", 0);
        fill(rolling, "maxUnavailable", 1);
    }
}

/// A claim within a set is an object that needs no kind; what is stored has no place for one.
fn default_claim(claim: &mut Value) {
    if let Some(fields) = claim.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(spec) = object_mut(claim, "spec") {
        fill(spec, "volumeMode", "Filesystem");
    }
    fill(claim, "status", json!({}));
    fill(&mut claim["status"], "phase", "Pending");
}

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    let policy = spec.field("podManagementPolicy");
    match policy.text() {
        "OrderedReady" | "Parallel" => {}
        "" => faults.push(policy.required("")),
        _ => faults.push(policy.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
    check_strategy(&spec.field("updateStrategy"), faults);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for when in ["whenDeleted", "whenScaled"] {
        let kept = retention.field(when);
        if kept.is_set() && !RETENTION.contains(&kept.text()) {
            faults.push(kept.unsupported(RETENTION));
        }
    }
    spec.field("replicas").must_not_be_negative(faults);
    spec.field("minReadySeconds").must_not_be_negative(faults);
    spec.field("ordinals").field("start").must_not_be_negative(faults);
    let selector = spec.field("selector");
    check_selector(&selector, "statefulset", faults);
    check_selected(spec, faults);
    if is_valid(&selector) {
        let template = spec.field("template");
        check_template(&template, faults);
        check_runs_on(&template, "StatefulSet", faults);
    }
}

fn check_strategy(strategy: &Place<'_, '_>, faults: &mut Faults) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" if rolling.is_set() => {
            faults.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_set() => {
            rolling.field("partition").must_not_be_negative(faults);
            check_amount(&rolling.field("maxUnavailable"), faults);
        }
        "RollingUpdate" => {}
        _ => faults.push(unknown_type(
            strategy,
            FieldErrorKind::Invalid,
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
}

fn check_change(spec: &Value, live: &Value) -> Vec<FieldError> {
    let fixed = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| !CHANGEABLE.contains(&name.as_str()));
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    if fixed(spec) == fixed(live) {
        return Vec::new();
    }
    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
               'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
               'minReadySeconds' are forbidden";
    vec![FieldError::forbidden(&FieldPath::new("spec"), why)]
}
