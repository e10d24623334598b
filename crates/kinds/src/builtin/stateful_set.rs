//! Stateful sets: pods with names and disks of their own.

pub mod claim_templates;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{NameRule, dns1123_label};
use watchkeeper_meta::{FieldErrorKind, LabelSelector};

use crate::Part;
use crate::builtin::persistent_volume_claim::default_claim;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, items_mut, object_mut};
use crate::rules::formats::number_or_percent;
use crate::rules::place::{Faults, Place};
use crate::rules::workloads::rollout_rules::unknown_type;
use crate::rules::workloads::status_rules::Counts;
use crate::rules::workloads::template_rules::{check_runs_on, check_selected, check_selector, check_template};
use crate::rules::workloads::{KEPT_REVISIONS, default_template, warn_of_workload};
use crate::table::Column;
use crate::table::cells::{containers, ready_of_replicas};

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
    ready: "status.readyReplicas",
};

/// What is particular to `statefulsets`.
pub static KIND: Kind = Kind {
    group: "apps",
    name: "StatefulSet",
    plural: "statefulsets",
    names: NameRule::Dns1123Label,
    generation: Generation::Spec,
    columns: COLUMNS,
    pod_spec: Some("/spec/template/spec"),
    states_replicas: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", |row| json!(ready_of_replicas(row))),
    Column::AGE,
    Column::text("Containers", |row| json!(containers(row.object, "/spec/template/spec", "name"))).wide(),
    Column::text("Images", |row| json!(containers(row.object, "/spec/template/spec", "image"))).wide(),
];

const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            default(spec);
        }
    },
    check: |set, faults| check(&set.field("spec"), faults),
    check_change: |change, faults| match change.part {
        Part::Status => COUNTS.check_change(change, faults),
        _ => {
            let (new, live) = (change.new.field("spec"), change.live.field("spec"));
            check_change(&new, &live, faults);
        }
    },
    warn: warn_of_workload,
    heeds: Some(|_| false),
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
    items_mut(spec, "volumeClaimTemplates").for_each(default_claim_template);
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

/// A claim within a set is a whole object, whoever leaves out what it is.
fn default_claim_template(claim: &mut Value) {
    claim_templates::name(claim);
    default_claim(claim);
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
        retention.field(when).may_be_one_of(RETENTION, faults);
    }
    spec.field("replicas").must_not_be_negative(faults);
    spec.field("minReadySeconds").must_not_be_negative(faults);
    spec.field("ordinals").field("start").must_not_be_negative(faults);
    spec.field("serviceName").may_keep(dns1123_label, faults);
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    check_selector(&selector, "statefulset", faults);
    check_selected(spec, Some(""), faults);
    if !selector.is_set() || LabelSelector::from_json(selector.value()).is_ok() {
        check_template(&template, claim_names(spec), faults);
    }
    check_runs_on(&template, "StatefulSet", faults);
}

/// What each pod gets a claim for, and mounts under the same name.
fn claim_names<'v>(spec: &Place<'v, '_>) -> Vec<&'v str> {
    let claims = spec.value()["volumeClaimTemplates"].as_array();
    let claims = claims.into_iter().flatten();
    claims
        .filter_map(|claim| claim["metadata"]["name"].as_str())
        .collect()
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
            check_unavailable(&rolling.field("maxUnavailable"), faults);
        }
        "RollingUpdate" => {}
        _ => faults.push(unknown_type(
            strategy,
            "StatefulSetUpdateStrategy",
            FieldErrorKind::Invalid,
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
}

fn check_unavailable(amount: &Place<'_, '_>, faults: &mut Faults) {
    if !amount.is_set() {
        return;
    }
    amount.must_be_number_or_percent(faults);
    if number_or_percent(amount.value()) == 0 {
        faults.push(amount.invalid("cannot be 0"));
    }
    amount.must_be_at_most_all(faults);
}

fn check_change(spec: &Place<'_, '_>, live: &Place<'_, '_>, faults: &mut Faults) {
    let fixed = |spec: &Place<'_, '_>| -> Vec<(String, Value)> {
        let fields = spec.value().as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| !CHANGEABLE.contains(&name.as_str()));
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    if fixed(spec) != fixed(live) {
        faults.push(spec.forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}
