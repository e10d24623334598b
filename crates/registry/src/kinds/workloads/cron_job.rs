//! Cron jobs: jobs by the clock.

use watchkeeper_meta::FieldError;
use watchkeeper_wire::values::CronSchedule;

use super::super::defaulting::{fill, object_mut};
use super::super::place::{Faults, Place};
use super::super::{Hooks, PLAIN, pod};
use super::default_template;
use super::job::check_job_spec;
use crate::update::Part;

/// Jobs add eleven characters to it, and their names become labels.
const MAX_NAME: usize = 52;

const CONCURRENCY: &[&str] = &["Allow", "Forbid", "Replace"];

pub(in super::super) const HOOKS: Hooks = Hooks {
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
    check_new: |cron_job, faults| {
        check(&cron_job.field("spec"), None, faults);
        let metadata = cron_job.field("metadata");
        let name = metadata.field("name");
        if name.text().len() > MAX_NAME {
            faults.push(name.invalid(format!("must be no more than {MAX_NAME} characters")));
        }
    },
    check_change: |change, faults| {
        if change.part != Part::Status {
            let (new, live) = (change.new.field("spec"), change.live.field("spec"));
            check(&new, Some(&live), faults);
        }
    },
    warn: |cron_job, live, warnings| {
        if live.is_none_or(|live| live["spec"] != cron_job["spec"]) {
            let cron_job = Place::object(cron_job);
            let spec = cron_job.field("spec");
            let template = spec.field("jobTemplate");
            pod::warn_template(&template.field("spec").field("template"), warnings);
        }
    },
    ..PLAIN
};

/// Checks a spec. What was allowed once stays allowed where it is: `live` is the spec as it is.
fn check(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, faults: &mut Faults) {
    check_schedule(spec, live, faults);
    spec.field("startingDeadlineSeconds").must_not_be_negative(faults);
    let zone = spec.field("timeZone");
    if live.is_none_or(|live| live.field("timeZone").value() != zone.value()) {
        check_time_zone(&zone, faults);
    }
    spec.field("concurrencyPolicy")
        .must_be_one_of(CONCURRENCY, faults);
    check_template(&spec.field("jobTemplate").field("spec"), faults);
    spec.field("successfulJobsHistoryLimit")
        .must_not_be_negative(faults);
    spec.field("failedJobsHistoryLimit").must_not_be_negative(faults);
}

fn check_schedule(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, faults: &mut Faults) {
    let schedule = spec.field("schedule");
    let text = schedule.text();
    if text.is_empty() {
        faults.push(schedule.required(""));
        return;
    }
    let without_zone = match text.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => text,
    };
    if let Err(why) = without_zone.parse::<CronSchedule>() {
        faults.push(schedule.invalid(why.to_string()));
    }
    let was_zoned = live.is_some_and(|live| live.field("schedule").text().contains("TZ"));
    if !text.contains("TZ") {
        return;
    }
    if !was_zoned {
        faults.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    } else if spec.field("timeZone").is_set() {
        faults.push(schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
}

/// Jobs that are made by the clock select their own pods.
fn check_template(spec: &Place<'_, '_>, faults: &mut Faults) {
    check_job_spec(spec, faults);
    let (selector, manual) = (spec.field("selector"), spec.field("manualSelector"));
    if selector.is_set() {
        faults.push(selector.invalid("`selector` will be auto-generated"));
    }
    if manual.is_true() {
        let supported = &["nil", "false"];
        faults.push(FieldError::not_supported(&manual.path(), true, supported));
    }
}

fn check_time_zone(zone: &Place<'_, '_>, faults: &mut Faults) {
    if !zone.is_set() {
        return;
    }
    match zone.text() {
        "" => faults.push(zone.invalid("timeZone must be nil or non-empty string")),
        name if name.eq_ignore_ascii_case("local") => {
            let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
            faults.push(zone.invalid(why));
        }
        name if !is_known_zone(name) => faults.push(zone.invalid(format!("unknown time zone {name}"))),
        _ => {}
    }
}

/// Zones come with the program: whether a name is known does not depend on the machine.
fn is_known_zone(name: &str) -> bool {
    let found = jiff::tz::TimeZone::get(name);
    found.is_ok_and(|zone| zone.iana_name() == Some(name))
}
