//! Cron jobs: a job whenever the schedule says.
//!
//! A job is named after its time, in minutes, so the same time never has two. If several times were missed, only the
//! last of them is made up for.

mod schedule;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::Time;
use watchkeeper_runtime::controller::{Action, Request};

use self::schedule::due;
use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::{cron_jobs, jobs};
use crate::time;

/// The time a job was meant for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Starts jobs by the clock.
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
    trim(&cluster, &cron_job).await?;
    let due = match due(&cron_job, time::now()) {
        Ok(due) => due,
        Err(error) => {
            // It has been validated: only somebody else's server lets this in.
            tracing::warn!(cron_job = %cron_job.key(), error, "schedule cannot be read");
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

fn is_finished(job: &Item) -> bool {
    job.holds("Complete") || job.holds("Failed")
}

/// Starts the job of a time, if what runs lets it. True if there is one now.
async fn start(cluster: &Cluster, cron_job: &Item, time: Timestamp) -> Result<bool, Error> {
    let name = format!("{}-{}", cron_job.name(), time.as_second() / 60);
    let known = cluster.controlled_by(cron_job, &jobs());
    if known.iter().any(|job| job.name() == name) {
        return Ok(true);
    }
    let running = known.iter().filter(|job| !is_finished(job) && !job.is_deleting());
    match cron_job.text("/spec/concurrencyPolicy") {
        "Forbid" if running.clone().next().is_some() => return Ok(false),
        "Replace" => {
            for job in running {
                cluster.delete(&jobs(), job, None).await?;
            }
        }
        _ => {}
    }
    let template = &cron_job["spec"]["jobTemplate"];
    let mut annotations = template["metadata"]["annotations"].clone();
    annotations[SCHEDULED] = json!(Time::from(time).to_rfc3339());
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
        // Its job has been deleted by hand, or it is somebody else's; either way its time has come and gone.
        Err(error) if error.is_already_exists() => Ok(true),
        created => created.map(|_| true),
    }
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
    // A job that is known stays as it was first seen, or its every change would be one of the cron job.
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

/// Deletes the oldest of the jobs that have ended well, and of those that have not, beyond what is kept.
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
            cluster.delete(&jobs(), job, None).await?;
        }
    }
    Ok(())
}
