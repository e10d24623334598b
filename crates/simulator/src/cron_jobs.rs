//! Cron jobs: create jobs on a schedule.
//!
//! A job is named after its scheduled time, in minutes, so that there is only one per time. If several times were
//! missed, only the last one is started.

mod schedule;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::Time;
use watchkeeper_runtime::controller::{Action, Request};

use self::schedule::due;
use crate::cluster::{Cluster, Task};
use crate::events;
use crate::item::Item;
use crate::kinds::{cron_jobs, jobs};
use crate::pod_control::{is_namespace_terminating, message};
use crate::time;

/// The scheduled time of a job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("cron-jobs", &cron_jobs())
        .owns(cluster.informer(&jobs()), &cron_jobs());
    cluster.run(controller, reconcile)
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(cron_job) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    tell_completed(&cluster, &cron_job);
    trim(&cluster, &cron_job).await?;
    let due = match due(&cron_job, time::now()) {
        Ok(due) => due,
        Err(error) => {
            // Validation refuses this; only another server could store it.
            let words = format!("unparseable schedule: {error}");
            cluster
                .events
                .warning(events::CRON_JOBS, &cron_job, "UnparseableSchedule", words);
            return Ok(Action::Done);
        }
    };
    let last = match due.now {
        Some(time) if start(&cluster, &cron_job, time).await? => json!(Time::from(time).to_rfc3339()),
        _ => cron_job["status"]["lastScheduleTime"].clone(),
    };
    let status = status(&cron_job, &cluster.controlled_by(&cron_job, &jobs()), last);
    cluster.report(&cron_jobs(), &cron_job, status).await?;
    Ok(due.next.map_or(Action::Done, Action::After))
}

/// Records Events for jobs that were active in the last status and have ended.
fn tell_completed(cluster: &Cluster, cron_job: &Item) {
    let jobs = cluster.controlled_by(cron_job, &jobs());
    for active in cron_job.list("/status/active") {
        let job = jobs.iter().find(|job| active["uid"] == job.uid());
        let words = match job {
            None => {
                let name = active["name"].as_str().unwrap_or_default();
                let words = format!("Active job went missing: {name}");
                cluster
                    .events
                    .normal(events::CRON_JOBS, cron_job, "MissingJob", words);
                continue;
            }
            Some(job) if job.holds("Complete") => {
                format!("Saw completed job: {}, condition: Complete", job.name())
            }
            Some(job) if job.holds("Failed") => {
                format!("Saw completed job: {}, condition: Failed", job.name())
            }
            Some(_) => continue,
        };
        cluster
            .events
            .normal(events::CRON_JOBS, cron_job, "SawCompletedJob", words);
    }
}

fn is_finished(job: &Item) -> bool {
    job.holds("Complete") || job.holds("Failed")
}

/// Starts the job of a time, if the concurrency policy allows it. Returns true if the job exists now.
async fn start(cluster: &Cluster, cron_job: &Item, time: Timestamp) -> Result<bool, Error> {
    let name = format!("{}-{}", cron_job.name(), time.as_second() / 60);
    let known = cluster.controlled_by(cron_job, &jobs());
    if known.iter().any(|job| job.name() == name) {
        return Ok(true);
    }
    let running = known.iter().filter(|job| !is_finished(job) && !job.is_deleting());
    match cron_job.text("/spec/concurrencyPolicy") {
        "Forbid" if running.clone().next().is_some() => {
            let words =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            cluster
                .events
                .normal(events::CRON_JOBS, cron_job, "JobAlreadyActive", words);
            return Ok(false);
        }
        "Replace" => {
            for job in running {
                delete(cluster, cron_job, job).await?;
            }
        }
        _ => {}
    }
    let template = &cron_job["spec"]["jobTemplate"];
    let mut annotations = template["metadata"]["annotations"].clone();
    annotations[SCHEDULED] = json!(schedule::in_zone(cron_job, time));
    let job = json!({
        "metadata": {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [cron_job.as_controller()],
        },
        "spec": template["spec"],
    });
    match cluster.create(&jobs(), cron_job.namespace(), job).await {
        // Another job of that name, or one not in the store yet; either way this time is done.
        Err(error) if error.is_already_exists() => Ok(true),
        Err(error) if is_namespace_terminating(&error) => Ok(false),
        Err(error) => {
            let words = format!("Error creating job: {}", message(&error));
            cluster
                .events
                .warning(events::CRON_JOBS, cron_job, "FailedCreate", words);
            Err(error)
        }
        Ok(job) => {
            let words = format!("Created job {}", job.name());
            cluster
                .events
                .normal(events::CRON_JOBS, cron_job, "SuccessfulCreate", words);
            Ok(true)
        }
    }
}

async fn delete(cluster: &Cluster, cron_job: &Item, job: &Item) -> Result<(), Error> {
    cluster.delete(&jobs(), job, None).await?;
    let words = format!("Deleted job {}", job.name());
    cluster
        .events
        .normal(events::CRON_JOBS, cron_job, "SuccessfulDelete", words);
    Ok(())
}

fn status(cron_job: &Item, jobs: &[Item], last: Value) -> Value {
    let running = jobs.iter().filter(|job| !is_finished(job) && !job.is_deleting());
    let reference = |job: &Item| {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": job.namespace(),
            "name": job.name(),
            "uid": job.uid(),
            "resourceVersion": job.resource_version(),
        })
    };
    let known = cron_job.list("/status/active");
    // A known job keeps its entry: otherwise each change of the job would change the status.
    let active = running.map(|job| match known.iter().find(|known| known["uid"] == job.uid()) {
        Some(known) => known.clone(),
        None => reference(job),
    });
    let successes = jobs.iter().filter(|job| job.holds("Complete"));
    let successes: BTreeSet<&str> = successes.map(|job| job.text("/status/completionTime")).collect();
    let known = cron_job.text("/status/lastSuccessfulTime");
    let success = successes
        .into_iter()
        .chain([known])
        .max()
        .filter(|time| !time.is_empty());
    json!({
        "active": active.collect::<Vec<_>>(),
        "lastScheduleTime": last,
        "lastSuccessfulTime": success,
    })
}

/// Deletes the oldest finished jobs beyond the history limits, successful and failed ones separately.
async fn trim(cluster: &Cluster, cron_job: &Item) -> Result<(), Error> {
    let mut ended = cluster.controlled_by(cron_job, &jobs());
    ended.retain(|job| is_finished(job) && !job.is_deleting());
    ended.sort_by_key(|job| (job.text("/status/startTime").to_owned(), job.name().to_owned()));
    let (well, badly): (Vec<Item>, Vec<Item>) = ended.into_iter().partition(|job| job.holds("Complete"));
    for (jobs_of, limit, usual) in [
        (well, "/spec/successfulJobsHistoryLimit", 3),
        (badly, "/spec/failedJobsHistoryLimit", 1),
    ] {
        let kept = cron_job.at(limit).as_u64().unwrap_or(usual);
        let surplus = jobs_of
            .len()
            .saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX));
        for job in &jobs_of[..surplus] {
            delete(cluster, cron_job, job).await?;
        }
    }
    Ok(())
}
