//! Job: runs pods to completion.

mod policies;

use serde_json::{Value, json};
use watchkeeper_meta::{Time, human_duration};

use self::policies::{check_failure_policy, check_success_policy};
use crate::builtin::pod;
use crate::builtin::replication_controller::fill_labels;
use crate::fields::Selectable;
use crate::kind::{Change, Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, fill_empty, items_mut, object_mut};
use crate::rules::formats::check_domain_prefixed_path;
use crate::rules::go_structs::LABEL_SELECTOR;
use crate::rules::place::{Errors, Place};
use crate::rules::workloads::default_template;
use crate::rules::workloads::template_rules::{check_ends, check_selected, check_template};
use crate::table::Column;
use crate::table::cells::condition;
use crate::{Part, Warnings, metadata};

/// The label with the job's uid, on its pods and in its selector.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// The largest `parallelism` and `maxFailedIndexes` of an indexed job.
const MAX_INDEXES: i64 = 100_000;
/// The same limits if there are more completions than that and each index has its own backoff limit.
const MAX_INDEXES_WITH_RETRIES: i64 = 10_000;
/// Beyond both of these, failed indexes of an indexed job may not fit its status.
const MANY_COMPLETIONS: i64 = 100_000;
const MANY_AT_ONCE: i64 = 10_000;
const MAX_MANAGER: usize = 63;

/// The kind served as `jobs`.
pub static KIND: Kind = Kind {
    group: "batch",
    name: "Job",
    plural: "jobs",
    generation: Generation::Spec,
    orphans_by_default: true,
    orphan_warning: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
         them or set propagationPolicy=Orphan to suppress this warning",
    ),
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    unselectable: Some(|field| format!("field label {field:?} not supported for Job")),
    pod_spec: Some("/spec/template/spec"),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", |row| json!(job_status(row.object))),
    Column::text("Completions", |row| json!(job_completions(row.object))),
    Column::text("Duration", |row| json!(job_duration(row.object, row.now))),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

const SELECTABLE: &[Selectable] = &[Selectable::number("status.successful", &["/status/succeeded"])];

const HOOKS: Hooks = Hooks {
    default: |job| {
        if let Some(spec) = object_mut(job, "spec") {
            default(spec);
        }
        label_as_its_pods(job);
    },
    prepare_for_create: |job, _| {
        if job["spec"]["manualSelector"] != true {
            select_own_pods(job);
        }
        // Kubernetes applies defaults again when it reads a stored object.
        label_as_its_pods(job);
    },
    check: |job, errors| check(&job.field("spec"), errors),
    check_new: |job, errors| {
        check_own_selector(job, errors);
        check_host_name(job, errors);
    },
    check_change: |change, errors| match change.part {
        Part::Status => check_status(change, errors),
        _ => check_change(change, errors),
    },
    warn: |job, live, warnings| {
        if live.is_none() {
            pod::warn_name(job, "Pod names and hostnames", warnings);
        }
        if live.is_none_or(|live| live["spec"] != job["spec"]) {
            warn_of_spec(&Place::object(job).field("spec"), warnings);
        }
    },
    ..PLAIN
};

/// Warns about the spec of a job, or of a cron job's template.
pub(crate) fn warn_of_spec(spec: &Place<'_, '_>, warnings: &Warnings) {
    let is_indexed = spec.field("completionMode").text() == "Indexed";
    let is_large = spec.field("completions").number() > MANY_COMPLETIONS
        && spec.field("parallelism").number() > MANY_AT_ONCE;
    if is_indexed && is_large {
        warnings.add(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            spec.path()
        ));
    }
    pod::warn_template(&spec.field("template"), warnings);
}

/// Copies the template's labels to a job without labels.
fn label_as_its_pods(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        metadata::of(job);
        fill_labels(&mut job["metadata"], "labels", &labels);
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
        fill_empty(pattern, "status", "True");
    }
}

/// Labels the job's pods with its name and uid, each under the old and the new key, and selects them by uid.
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

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    check_job_spec(spec, errors);
    let selector = spec.field("selector");
    if !selector.is_set() {
        errors.push(selector.required(""));
    }
    selector.must_select(errors);
    check_selected(spec, None, errors);
}

/// Checks the spec of a job, or of a template for jobs.
pub(crate) fn check_job_spec(spec: &Place<'_, '_>, errors: &mut Errors) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.field(name).must_not_be_negative(errors);
    }
    let retries = spec.field("backoffLimitPerIndex");
    if spec.field("maxFailedIndexes").is_set() && !retries.is_set() {
        errors.push(retries.required("when maxFailedIndexes is specified"));
    }
    let manager = spec.field("managedBy");
    if manager.is_set() {
        check_domain_prefixed_path(&manager, errors);
        if manager.text().len() > MAX_MANAGER {
            errors.push(manager.too_long(MAX_MANAGER));
        }
    }
    check_completion(spec, errors);
    check_failure_policy(spec, errors);
    check_success_policy(spec, errors);
    check_replacement(spec, errors);
    let template = spec.field("template");
    check_template(&template, errors);
    check_ends(&template, spec.field("podFailurePolicy").is_set(), errors);
}

fn check_completion(spec: &Place<'_, '_>, errors: &mut Errors) {
    let mode = spec.field("completionMode");
    match mode.text() {
        "Indexed" => check_indexes(spec, errors),
        _ if !mode.is_set() || mode.text() == "NonIndexed" => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                let limit = spec.field(name);
                if limit.is_set() {
                    errors.push(limit.invalid("requires indexed completion mode"));
                }
            }
        }
        _ => errors.push(mode.unsupported(&["NonIndexed", "Indexed"])),
    }
}

/// Checks the counts of an indexed job.
fn check_indexes(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (parallelism, completions) = (spec.field("parallelism"), spec.field("completions"));
    let failures = spec.field("maxFailedIndexes");
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    let most = "must be less than or equal to";
    if parallelism.number() > MAX_INDEXES {
        let why = format!("{most} {MAX_INDEXES} when completion mode is Indexed");
        errors.push(parallelism.invalid(why));
    }
    if completions.is_set() && failures.number() > completions.number() {
        errors.push(failures.invalid(format!("{most} completions")));
    }
    if failures.number() > MAX_INDEXES {
        errors.push(failures.invalid(format!("{most} {MAX_INDEXES}")));
    }
    if completions.number() <= MAX_INDEXES || !spec.field("backoffLimitPerIndex").is_set() {
        return;
    }
    if !failures.is_set() {
        let why = format!("must be specified when completions is above {MAX_INDEXES}");
        errors.push(failures.required(&why));
    }
    for limited in [parallelism, failures] {
        if limited.number() > MAX_INDEXES_WITH_RETRIES {
            errors.push(limited.invalid(format!(
                "{most} {MAX_INDEXES_WITH_RETRIES} when completions are above {MAX_INDEXES} and used with backoff \
                 limit per index"
            )));
        }
    }
}

/// Checks `podReplacementPolicy`.
fn check_replacement(spec: &Place<'_, '_>, errors: &mut Errors) {
    let allowed: &[&str] = match spec.field("podFailurePolicy").is_set() {
        true => &["Failed"],
        false => &["Failed", "TerminatingOrFailed"],
    };
    spec.field("podReplacementPolicy").may_be_one_of(allowed, errors);
}

/// Checks that the selector is the generated one, unless `manualSelector` is set.
fn check_own_selector(job: &Place<'_, '_>, errors: &mut Errors) {
    let spec = job.field("spec");
    let selector = spec.field("selector");
    if !selector.is_set() || spec.field("manualSelector").is_true() {
        return;
    }
    let uid = &job.value()["metadata"]["uid"];
    let own = json!({"matchLabels": {CONTROLLER_UID: uid}});
    let old = json!({"matchLabels": {"controller-uid": uid}});
    if *selector.value() != own && *selector.value() != old {
        // Kubernetes reports this error before all others.
        errors.push_first(selector.invalid("`selector` not auto-generated"));
    }
}

/// Checks that the host name of the pod with the highest index is a valid DNS label.
fn check_host_name(job: &Place<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (job.field("metadata"), job.field("spec"));
    let (name, completions) = (metadata.field("name"), spec.field("completions").number());
    if spec.field("completionMode").text() != "Indexed" || completions < 1 {
        return;
    }
    let longest = format!("{}-{}", name.text(), completions - 1);
    if !watchkeeper_meta::validation::dns1123_label(&longest).is_empty() {
        let why = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.push(name.invalid_for(name.text(), why));
    }
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (new, live) = (change.new.field("spec"), change.live.field("spec"));
    check_completions(&new, &live, errors);
    new.field("selector")
        .must_stay_as(LABEL_SELECTOR, &live.field("selector"), errors);
    check_same_template(change, errors);
    for (name, go_type) in [
        ("completionMode", None),
        ("podFailurePolicy", Some("PodFailurePolicy")),
        ("backoffLimitPerIndex", None),
        ("managedBy", None),
        ("successPolicy", Some("SuccessPolicy")),
    ] {
        match go_type {
            Some(go_type) => new.field(name).must_stay_as(go_type, &live.field(name), errors),
            None => new.field(name).must_stay(&live.field(name), errors),
        }
    }
}

/// Checks a change of `completions`: only indexed jobs allow it, and `parallelism` must change to the same value.
fn check_completions(new: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let (completions, before) = (new.field("completions"), live.field("completions"));
    if new.field("completionMode").text() != "Indexed" {
        completions.must_stay(&before, errors);
    } else if completions.value() != before.value()
        && completions.is_set()
        && completions.number() != new.field("parallelism").number()
    {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
}

/// Checks that the template is unchanged. A suspended job that never started may change its scheduling directives.
fn check_same_template(change: &Change<'_>, errors: &mut Errors) {
    let live = change.live.value();
    let is_waiting = live["spec"]["suspend"] == true && live["status"].get("startTime").is_none();
    let fixed = |object: &Value| {
        let mut template = object["spec"]["template"].clone();
        if is_waiting {
            drop_scheduling(&mut template);
        }
        template
    };
    if fixed(change.new.value()) != fixed(live) {
        let spec = change.new.field("spec");
        let template = spec.field("template");
        errors.push(template.field("spec").invalid_as("PodSpec", "field is immutable"));
    }
}

/// Removes the scheduling directives.
fn drop_scheduling(template: &mut Value) {
    let drop = |object: Option<&mut Value>, names: &[&str]| {
        if let Some(fields) = object.and_then(Value::as_object_mut) {
            names.iter().for_each(|name| drop(fields.remove(*name)));
        }
    };
    drop(template.pointer_mut("/spec/affinity"), &["nodeAffinity"]);
    if template.pointer("/spec/affinity") == Some(&json!({})) {
        drop(template.get_mut("spec"), &["affinity"]);
    }
    drop(
        template.get_mut("spec"),
        &["nodeSelector", "tolerations", "schedulingGates"],
    );
    drop(template.get_mut("metadata"), &["annotations", "labels"]);
}

/// Checks a status: terminal conditions exclude each other, and counters do not decrease.
fn check_status(change: &Change<'_>, errors: &mut Errors) {
    let (status, live) = (change.new.field("status"), change.live.field("status"));
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.field(name).must_not_be_negative(errors);
    }
    let conditions = status.field("conditions");
    let is_true = |kind: &str| {
        let mut all = conditions.items();
        all.any(|condition| {
            condition.field("type").text() == kind && condition.field("status").text() == "True"
        })
    };
    if is_true("Complete") && is_true("Failed") {
        errors.push(conditions.invalid_unshown("cannot set Complete=True and Failed=true conditions"));
    }
    for name in ["failed", "succeeded"] {
        let count = status.field(name);
        if count.number() < live.field(name).number() {
            let why = format!("cannot decrease the {name} counter");
            errors.push(count.invalid_for(count.number(), why));
        }
    }
    check_terminal_conditions(&conditions, &live.field("conditions"), errors);
    let (end, old_end) = (status.field("completionTime"), live.field("completionTime"));
    if old_end.is_set() {
        end.must_stay(&old_end, errors);
    }
    let (start, old_start) = (status.field("startTime"), live.field("startTime"));
    let was_suspended = change.live.value()["spec"]["suspend"] == true;
    if old_start.is_set() && !was_suspended && start.value() != old_start.value() {
        errors.push(start.invalid("field is immutable for unsuspended job once set"));
    }
}

/// Checks that terminal conditions are not revoked.
fn check_terminal_conditions(new: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let is_true = |conditions: &Place<'_, '_>, kind: &str| {
        let is = |condition: Place<'_, '_>| {
            condition.field("type").text() == kind && condition.field("status").text() == "True"
        };
        conditions.items().any(is)
    };
    for kind in ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"] {
        if is_true(live, kind) && !is_true(new, kind) {
            let why = format!("cannot disable the terminal {kind}=True condition");
            errors.push(new.invalid_unshown(why));
        }
    }
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind: &str| condition(job, kind) == "True";
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if !job["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn job_completions(job: &Value) -> String {
    let succeeded = job["status"]["succeeded"].as_i64().unwrap_or_default();
    match (
        job["spec"]["completions"].as_i64(),
        job["spec"]["parallelism"].as_i64().unwrap_or_default(),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Time) -> String {
    let time = |name: &str| {
        job["status"][name]
            .as_str()
            .and_then(|text| text.parse::<Time>().ok())
    };
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), Some(end)) => human_duration(end.seconds - start.seconds),
        (Some(start), None) => human_duration(now.seconds - start.seconds),
    }
}
