//! StatefulSet: pods with stable names and storage.

mod claim_templates;

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{NameRule, dns1123_label};
use watchkeeper_meta::{FieldErrorKind, LabelSelector};

use crate::Part;
use crate::builtin::persistent_volume_claim::{check_claim_spec, default_claim};
use crate::builtin::pod::warn_of_fractions;
use crate::kind::{Completion, Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, items_mut, object_mut};
use crate::rules::formats::number_or_percent;
use crate::rules::go_structs::{self, LABEL_SELECTOR};
use crate::rules::place::{Errors, Place};
use crate::rules::workloads::rollout_rules::unknown_type;
use crate::rules::workloads::status_rules::Counts;
use crate::rules::workloads::template_rules::{
    check_runs_on, check_selected, check_selector, check_template,
};
use crate::rules::workloads::{KEPT_REVISIONS, default_template, warn_of_workload};
use crate::table::Column;
use crate::table::cells::ready_of_replicas;

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

/// The kind served as `statefulsets`.
pub static KIND: Kind = Kind {
    group: "apps",
    name: "StatefulSet",
    plural: "statefulsets",
    names: NameRule::Dns1123Label,
    generation: Generation::Spec,
    columns: COLUMNS,
    pod_spec: Some("/spec/template/spec"),
    states_replicas: true,
    completion: Some(Completion {
        value: claim_templates::name_in_value,
        json: claim_templates::name_in_json,
    }),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", |row| json!(ready_of_replicas(row))),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
];

const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            default(spec);
        }
    },
    check: |set, errors| check(&set.field("spec"), errors),
    check_new: |set, errors| check_claims(&set.field("spec"), errors),
    check_change: |change, errors| match change.part {
        Part::Status => COUNTS.check_change(change, errors),
        _ => {
            let (new, live) = (change.new.field("spec"), change.live.field("spec"));
            check_change(&new, &live, errors);
        }
    },
    warn: |set, live, warnings| {
        warn_of_workload(set, live, warnings);
        let set = Place::object(set);
        let spec = set.field("spec");
        for claim in spec.field("volumeClaimTemplates").items() {
            // The path has a capital letter in Kubernetes too.
            let spec = claim.field("spec").known_as("Spec");
            warn_of_fractions(&spec.field("resources").field("requests"), warnings);
        }
        if spec.field("revisionHistoryLimit").number() < 0 {
            warnings.add(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                 recommended",
            );
        }
    },
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

/// Fills in the kind and defaults of a claim template.
fn default_claim_template(claim: &mut Value) {
    claim_templates::name(claim);
    default_claim(claim);
    fill(claim, "status", json!({}));
    fill(&mut claim["status"], "phase", "Pending");
}

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    let policy = spec.field("podManagementPolicy");
    match policy.text() {
        "OrderedReady" | "Parallel" => {}
        "" => errors.push(policy.required("")),
        _ => errors.push(policy.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
    check_strategy(&spec.field("updateStrategy"), errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for when in ["whenDeleted", "whenScaled"] {
        retention.field(when).may_be_one_of(RETENTION, errors);
    }
    spec.field("replicas").must_not_be_negative(errors);
    spec.field("minReadySeconds").must_not_be_negative(errors);
    spec.field("ordinals").field("start").must_not_be_negative(errors);
    spec.field("serviceName").may_keep(dns1123_label, errors);
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    check_selector(&selector, "statefulset", errors);
    check_selected(spec, Some(""), errors);
    if !selector.is_set() || LabelSelector::from_json(selector.value()).is_ok() {
        let template_of_pods = with_claims(spec.value());
        check_template(&template.with_value(&template_of_pods), errors);
    }
    check_runs_on(&template, "StatefulSet", errors);
}

/// Checks the claim templates of a new set. They are immutable afterwards.
fn check_claims(spec: &Place<'_, '_>, errors: &mut Errors) {
    for claim in spec.field("volumeClaimTemplates").items() {
        check_claim_spec(&claim.field("spec"), errors);
    }
}

/// The template as pods will have it: with a volume for each claim template, replacing one of the same name.
fn with_claims(spec: &Value) -> Value {
    let claims = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
    let names: Vec<&str> = claims
        .map(|claim| claim["metadata"]["name"].as_str().unwrap_or_default())
        .collect();
    let mut template = spec["template"].clone();
    if names.is_empty() {
        return template;
    }
    let replaced: HashSet<&str> = names.iter().copied().collect();
    let volumes = template["spec"]["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let others = volumes.into_iter().filter(|volume| {
        let name = volume["name"].as_str();
        name.is_none_or(|name| !replaced.contains(name))
    });
    let of_claims = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    template["spec"]["volumes"] = of_claims.chain(others).collect();
    template
}

fn check_strategy(strategy: &Place<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" if rolling.is_set() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(rolling.invalid_as("RollingUpdateStatefulSetStrategy", why));
        }
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_set() => {
            rolling.field("partition").must_not_be_negative(errors);
            check_unavailable(&rolling.field("maxUnavailable"), errors);
        }
        "RollingUpdate" => {}
        _ => errors.push(unknown_type(
            strategy,
            "StatefulSetUpdateStrategy",
            FieldErrorKind::Invalid,
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
}

fn check_unavailable(amount: &Place<'_, '_>, errors: &mut Errors) {
    if !amount.is_set() {
        return;
    }
    amount.must_be_number_or_percent(errors);
    if number_or_percent(amount.value()) == 0 {
        errors.push(amount.invalid("cannot be 0"));
    }
    amount.must_be_at_most_all(errors);
}

/// Checks an update: pod names and storage are immutable.
fn check_change(spec: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("selector")
        .must_stay_as(LABEL_SELECTOR, &live.field("selector"), errors);
    let claims = spec.field("volumeClaimTemplates");
    if claims.value() != live.field("volumeClaimTemplates").value() {
        let shown = match claims.len() {
            0 => "null".to_owned(),
            _ => go_structs::list("PersistentVolumeClaim", claims.value()),
        };
        errors.push(claims.invalid_in_go(shown, "field is immutable"));
    }
    for name in ["serviceName", "podManagementPolicy"] {
        spec.field(name).text_must_stay(&live.field(name), errors);
    }
}
