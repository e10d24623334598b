//! Jobs: pods that end.

use serde_json::{Value, json};
use watchkeeper_meta::validation::label_selector;
use watchkeeper_meta::{BadValue, FieldError};

use super::super::defaulting::{fill, items_mut, object_mut};
use super::super::place::{Faults, Place};
use super::super::pod::template_in_go;
use super::super::{Hooks, PLAIN};
use super::replication_controller::fill_empty;
use super::template_rules::{check_ends, check_selected, check_template};
use super::{default_template, immutable};
use crate::metadata;
use crate::update::Part;

/// The job's own uid, on its pods and in its selector.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |job| {
        if let Some(spec) = object_mut(job, "spec") {
            default(spec);
        }
        label_as_its_pods(job);
    },
    prepare_for_create: |job| {
        if job["spec"]["manualSelector"] != true {
            select_own_pods(job);
        }
        // Kubernetes defaults once more when it reads what it has stored.
        label_as_its_pods(job);
    },
    faults: |job| {
        let mut faults = Vec::new();
        check(&Place::object(job), &mut faults);
        faults
    },
    update_faults: |part, job, live| match part {
        Part::Status => Vec::new(),
        _ => check_change(job, live),
    },
    warn: super::warn,
    ..PLAIN
};

/// A job without labels has those of its pods.
fn label_as_its_pods(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        metadata::of(job);
        fill_empty(&mut job["metadata"], "labels", &labels);
    }
}

fn default(spec: &mut Value) {
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let retries = match spec.get("backoffLimitPerIndex") {
        Some(_) => i32::MAX,
        None => 6,
    };
    fill(spec, "backoffLimit", retries);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replaced_when = match object_mut(spec, "podFailurePolicy") {
        Some(policy) => {
            items_mut(policy, "rules").for_each(default_failure_rule);
            "Failed"
        }
        None => "TerminatingOrFailed",
    };
    fill(spec, "podReplacementPolicy", replaced_when);
    fill(spec, "manualSelector", false);
    default_template(spec);
}

fn default_failure_rule(rule: &mut Value) {
    for pattern in items_mut(rule, "onPodConditions") {
        fill(pattern, "status", "True");
    }
}

/// Marks the job's pods with its name and uid, each under its old and its new label, and selects them by uid.
fn select_own_pods(job: &mut Value) {
    let uid = metadata::text(job, "uid").to_owned();
    let name = metadata::text(job, "name").to_owned();
    let spec = &mut job["spec"];
    let labels = &mut spec["template"]["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    for (label, value) in [
        ("controller-uid", &uid),
        (CONTROLLER_UID, &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        labels[label] = json!(value);
    }
    fill(spec, "selector", json!({}));
    fill(&mut spec["selector"], "matchLabels", json!({}));
    fill(&mut spec["selector"]["matchLabels"], CONTROLLER_UID, uid);
}

fn check(job: &Place<'_, '_>, faults: &mut Faults) {
    let spec = job.field("spec");
    check_own_selector(job, faults);
    check_job_spec(&spec, faults);
    let selector = spec.field("selector");
    if !selector.is_set() {
        faults.push(selector.required(""));
    }
    faults.extend(label_selector(selector.value(), &selector.path()));
    check_selected(&spec, faults);
}

/// Checks the spec of a job, or of a template for jobs.
pub(super) fn check_job_spec(spec: &Place<'_, '_>, faults: &mut Faults) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.field(name).must_not_be_negative(faults);
    }
    let (mode, completions) = (spec.field("completionMode"), spec.field("completions"));
    match mode.text() {
        "" | "NonIndexed" => {}
        "Indexed" if completions.is_set() => {}
        "Indexed" => faults.push(completions.required("when completion mode is Indexed")),
        _ => faults.push(mode.unsupported(&["Indexed", "NonIndexed"])),
    }
    let template = spec.field("template");
    check_template(&template, faults);
    check_ends(&template, faults);
}

/// A job that leaves its selector to the server has exactly the server's.
fn check_own_selector(job: &Place<'_, '_>, faults: &mut Faults) {
    let spec = job.field("spec");
    let selector = spec.field("selector");
    if !selector.is_set() || *spec.field("manualSelector").value() == json!(true) {
        return;
    }
    let uid = &job.value()["metadata"]["uid"];
    let own = json!({"matchLabels": {CONTROLLER_UID: uid}});
    let old = json!({"matchLabels": {"controller-uid": uid}});
    if *selector.value() != own && *selector.value() != old {
        faults.push(selector.invalid("`selector` not auto-generated"));
    }
}

fn check_change(job: &Value, live: &Value) -> Vec<FieldError> {
    // Only a job that counts by index can be asked for another number of completions.
    let counts_by_index = job["spec"]["completionMode"] == "Indexed";
    let fields = [
        "completions",
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
    ];
    let fields = fields
        .into_iter()
        .filter(|name| *name != "completions" || !counts_by_index);
    fields
        // A suspended job that never ran may still be told where to run.
        .filter(|name| *name != "template" || live["spec"]["suspend"] != true)
        .flat_map(|name| immutable(job, live, &["spec", name]))
        .map(|fault| match fault.field.to_string().as_str() {
            "spec.template" => FieldError {
                value: BadValue::Printed(template_in_go(&job["spec"]["template"])),
                ..fault
            },
            _ => fault,
        })
        .collect()
}
