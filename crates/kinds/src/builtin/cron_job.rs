//! CronJob: creates jobs on a schedule.

use serde_json::{Value, json};
use watchkeeper_meta::FieldError;
use watchkeeper_wire::values::CronSchedule;

use crate::Part;
use crate::builtin::job::{self, check_job_spec};
use crate::builtin::pod;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, object_mut};
use crate::rules::place::{Errors, Place};
use crate::rules::workloads::default_template;
use crate::table::cells::{NONE, containers, selector};
use crate::table::{Column, Row};

/// The controller appends eleven characters for each job, and job names become label values of at most 63.
const MAX_NAME: usize = 52;

const CONCURRENCY: &[&str] = &["Allow", "Forbid", "Replace"];

/// The kind served as `cronjobs`.
pub static KIND: Kind = Kind {
    group: "batch",
    name: "CronJob",
    plural: "cronjobs",
    generation: Generation::Spec,
    columns: COLUMNS,
    pod_spec: Some("/spec/jobTemplate/spec/template/spec"),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Schedule", |row| json!(row.text("/spec/schedule"))),
    Column::text("Timezone", |row| row.text_or_none("/spec/timeZone")),
    Column::boolean("Suspend", |row| json!(suspended(row.at("/spec/suspend")))),
    Column::integer("Active", |row| row.len("/status/active")),
    Column::text("Last Schedule", last_schedule),
    Column::AGE,
    Column::text("Containers", |row| {
        json!(containers(
            row.object,
            "/spec/jobTemplate/spec/template/spec",
            "name"
        ))
    })
    .wide(),
    Column::text("Images", |row| {
        json!(containers(
            row.object,
            "/spec/jobTemplate/spec/template/spec",
            "image"
        ))
    })
    .wide(),
    Column::text("Selector", |row| {
        json!(selector(row.at("/spec/jobTemplate/spec/selector")))
    })
    .wide(),
];

const HOOKS: Hooks = Hooks {
    default: |cron_job| {
        let Some(spec) = object_mut(cron_job, "spec") else {
            return;
        };
        fill(spec, "concurrencyPolicy", "Allow");
        fill(spec, "suspend", false);
        fill(spec, "successfulJobsHistoryLimit", 3);
        fill(spec, "failedJobsHistoryLimit", 1);
        if let Some(template) = object_mut(spec, "jobTemplate")
            && let Some(job) = object_mut(template, "spec")
        {
            default_template(job);
        }
    },
    check_new: |cron_job, errors| {
        check(&cron_job.field("spec"), None, errors);
        let metadata = cron_job.field("metadata");
        let name = metadata.field("name");
        if name.text().len() > MAX_NAME {
            errors.push(name.invalid(format!("must be no more than {MAX_NAME} characters")));
        }
    },
    check_change: |change, errors| {
        if change.part != Part::Status {
            let (new, live) = (change.new.field("spec"), change.live.field("spec"));
            check(&new, Some(&live), errors);
        }
    },
    warn: |cron_job, live, warnings| {
        if live.is_none() {
            pod::warn_name(cron_job, "Pod names and hostnames", warnings);
        }
        if live.is_none_or(|live| live["spec"] != cron_job["spec"]) {
            let cron_job = Place::object(cron_job);
            let spec = cron_job.field("spec");
            let template = spec.field("jobTemplate");
            job::warn_of_spec(&template.field("spec"), warnings);
        }
    },
    ..PLAIN
};

/// Checks a spec. Values that are invalid today but unchanged from `live` stay allowed.
fn check(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, errors: &mut Errors) {
    check_schedule(spec, live, errors);
    spec.field("startingDeadlineSeconds").must_not_be_negative(errors);
    let zone = spec.field("timeZone");
    if live.is_none_or(|live| live.field("timeZone").value() != zone.value()) {
        check_time_zone(&zone, errors);
    }
    spec.field("concurrencyPolicy")
        .must_be_one_of(CONCURRENCY, errors);
    check_template(&spec.field("jobTemplate").field("spec"), errors);
    spec.field("successfulJobsHistoryLimit")
        .must_not_be_negative(errors);
    spec.field("failedJobsHistoryLimit").must_not_be_negative(errors);
    // Kubernetes checks this one by schema, so its error comes last.
    spec.field("schedule").must_be_set(errors);
}

fn check_schedule(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, errors: &mut Errors) {
    let schedule = spec.field("schedule");
    let text = schedule.text();
    if text.is_empty() {
        return;
    }
    let without_zone = match text.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => text,
    };
    if let Err(why) = without_zone.parse::<CronSchedule>() {
        errors.push(schedule.invalid(why.to_string()));
    }
    let was_zoned = live.is_some_and(|live| live.field("schedule").text().contains("TZ"));
    if !text.contains("TZ") {
        return;
    }
    if !was_zoned {
        errors.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    } else if spec.field("timeZone").is_set() {
        errors.push(schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
}

/// Checks the job template. Its selector is always generated.
fn check_template(spec: &Place<'_, '_>, errors: &mut Errors) {
    check_job_spec(spec, errors);
    let (selector, manual) = (spec.field("selector"), spec.field("manualSelector"));
    if selector.is_set() {
        errors.push(selector.invalid("`selector` will be auto-generated"));
    }
    if manual.is_true() {
        let supported = &["nil", "false"];
        errors.push(FieldError::not_supported(&manual.path(), true, supported));
    }
}

fn check_time_zone(zone: &Place<'_, '_>, errors: &mut Errors) {
    if !zone.is_set() {
        return;
    }
    match zone.text() {
        "" => errors.push(zone.invalid("timeZone must be nil or non-empty string")),
        name if name.eq_ignore_ascii_case("local") => {
            let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
            errors.push(zone.invalid(why));
        }
        name if !is_known_zone(name) => errors.push(zone.invalid(format!("unknown time zone {name}"))),
        _ => {}
    }
}

/// True if the time zone database compiled into the program has the zone, so the answer is the same on every host.
fn is_known_zone(name: &str) -> bool {
    let found = jiff::tz::TimeZone::get(name);
    found.is_ok_and(|zone| zone.iana_name() == Some(name))
}

fn last_schedule(row: &Row<'_>) -> Value {
    match row.text("/status/lastScheduleTime").is_empty() {
        true => json!(NONE),
        false => row.age("/status/lastScheduleTime"),
    }
}

fn suspended(suspend: &Value) -> &'static str {
    match suspend.as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
}
