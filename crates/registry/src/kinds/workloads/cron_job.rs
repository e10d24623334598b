//! Cron jobs: jobs by the clock.

use watchkeeper_wire::values::CronSchedule;

use super::super::defaulting::{fill, object_mut};
use super::super::place::{Faults, Place};
use super::super::{Hooks, PLAIN, pod};
use super::job::check_job_spec;
use super::{default_template, faults_of_spec};

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
    faults: |cron_job| {
        let mut faults = faults_of_spec(cron_job, check);
        let cron_job = Place::object(cron_job);
        let metadata = cron_job.field("metadata");
        let name = metadata.field("name");
        if name.text().len() > MAX_NAME {
            faults.push(name.invalid(format!("must be no more than {MAX_NAME} characters")));
        }
        faults
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

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    check_schedule(&spec.field("schedule"), faults);
    spec.field("startingDeadlineSeconds").must_not_be_negative(faults);
    check_time_zone(&spec.field("timeZone"), faults);
    spec.field("concurrencyPolicy")
        .must_be_one_of(CONCURRENCY, faults);
    check_job_spec(&spec.field("jobTemplate").field("spec"), faults);
    spec.field("successfulJobsHistoryLimit")
        .must_not_be_negative(faults);
    spec.field("failedJobsHistoryLimit").must_not_be_negative(faults);
}

fn check_schedule(schedule: &Place<'_, '_>, faults: &mut Faults) {
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
    if text.contains("TZ") {
        faults.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
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
