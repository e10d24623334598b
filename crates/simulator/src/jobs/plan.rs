//! What a job needs next: how it stands, which pods are missing and which are too many.

use std::collections::BTreeSet;
use std::time::Duration;

use super::status::verdict_so_far;
use super::tally::{Tally, index_of};
use crate::item::Item;
use crate::pods::is_active;
use crate::time;

/// 10 s, as Kubernetes: how long a pod that has failed is not replaced; twice as long each time.
const BACKOFF_SECONDS: i64 = 10;
/// 10 min, as Kubernetes: and no longer than this.
const MAX_BACKOFF_SECONDS: i64 = 600;

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Running,
    Suspended,
    Complete,
    BackoffLimitExceeded,
    DeadlineExceeded,
}

/// What to do.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) verdict: Verdict,
    /// Pods to be deleted.
    pub(super) surplus: Vec<&'a Item>,
    /// Pods to be created, with their index if the job counts by index.
    pub(super) missing: Vec<Option<u64>>,
    /// When to look again.
    pub(super) again: Option<Duration>,
}

impl<'a> Plan<'a> {
    pub(super) fn of(job: &Item, pods: &'a [Item], tally: &Tally) -> Self {
        let mut active: Vec<&Item> = pods.iter().filter(|pod| is_active(pod)).collect();
        active.sort_by_key(|pod| (pod.creation_timestamp(), pod.name().to_owned()));
        let verdict = verdict(job, &active, tally);
        if verdict != Verdict::Running {
            return Self {
                verdict,
                surplus: active,
                missing: Vec::new(),
                again: None,
            };
        }
        let wanted = wanted_active(job, tally, active.len());
        let (kept, surplus) = keep(job, tally, active, wanted);
        let backoff = backoff(pods, tally.failed());
        let missing = match backoff {
            Some(_) => Vec::new(),
            None => missing(job, tally, &kept, wanted),
        };
        let again = [backoff, deadline(job)].into_iter().flatten().min();
        Self {
            verdict,
            surplus,
            missing,
            again,
        }
    }
}

fn verdict(job: &Item, active: &[&Item], tally: &Tally) -> Verdict {
    if let Some(verdict) = verdict_so_far(job) {
        return verdict;
    }
    let limit = job.at("/spec/backoffLimit").as_i64().unwrap_or(6);
    let restarts: i64 = active
        .iter()
        .map(|pod| pod.number("/status/containerStatuses/0/restartCount"))
        .sum();
    let restarted_too_often = restarts > 0 && restarts >= limit;
    let is_complete = match job.at("/spec/completions").as_i64() {
        Some(completions) => tally.succeeded() >= completions,
        None => tally.succeeded() > 0 && active.is_empty(),
    };
    if tally.failed() > limit || restarted_too_often {
        Verdict::BackoffLimitExceeded
    } else if is_complete {
        Verdict::Complete
    } else if job["spec"]["suspend"] == true {
        Verdict::Suspended
    } else if job.at("/spec/activeDeadlineSeconds").is_i64() && has_started(job) && deadline(job).is_none() {
        Verdict::DeadlineExceeded
    } else {
        Verdict::Running
    }
}

fn has_started(job: &Item) -> bool {
    !job.text("/status/startTime").is_empty()
}

/// How long a job may still run.
fn deadline(job: &Item) -> Option<Duration> {
    let seconds = job.at("/spec/activeDeadlineSeconds").as_i64()?;
    let start = time::read(job.at("/status/startTime")).unwrap_or_else(time::now);
    time::left(start, seconds)
}

/// How many pods should run now.
fn wanted_active(job: &Item, tally: &Tally, active: usize) -> usize {
    let parallelism = job.at("/spec/parallelism").as_i64().unwrap_or(1);
    let wanted = match job.at("/spec/completions").as_i64() {
        Some(completions) => parallelism.min(completions - tally.succeeded()),
        // Once one pod has found the end of the work, no others begin.
        None if tally.succeeded() > 0 => return active,
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or_default()
}

/// The pods that go on, oldest first, and those that are too many: beyond the number, or for an index that is done,
/// asked for no longer or another pod's.
fn keep<'a>(
    job: &Item,
    tally: &Tally,
    active: Vec<&'a Item>,
    wanted: usize,
) -> (Vec<&'a Item>, Vec<&'a Item>) {
    let end = u64::try_from(job.number("/spec/completions")).unwrap_or_default();
    let mut taken = BTreeSet::new();
    let mut kept = 0;
    active.into_iter().partition(|pod| {
        let has_work = match &tally.indexes {
            None => true,
            Some(done) => {
                index_of(pod).is_some_and(|index| index < end && !done.contains(index) && taken.insert(index))
            }
        };
        let goes_on = has_work && kept < wanted;
        kept += usize::from(goes_on);
        goes_on
    })
}

fn missing(job: &Item, tally: &Tally, kept: &[&Item], wanted: usize) -> Vec<Option<u64>> {
    let count = wanted.saturating_sub(kept.len());
    let Some(done) = &tally.indexes else {
        return vec![None; count];
    };
    let end = u64::try_from(job.number("/spec/completions")).unwrap_or_default();
    let taken: BTreeSet<u64> = kept.iter().filter_map(|pod| index_of(pod)).collect();
    let open = (0..end).filter(|index| !done.contains(*index) && !taken.contains(index));
    open.take(count).map(Some).collect()
}

/// How long nothing is created after the last failure.
fn backoff(pods: &[Item], failures: i64) -> Option<Duration> {
    let failed = pods.iter().filter(|pod| pod.text("/status/phase") == "Failed");
    let last = failed
        .filter_map(|pod| time::read(pod.at("/status/containerStatuses/0/state/terminated/finishedAt")))
        .max()?;
    let doublings = u32::try_from(failures - 1).unwrap_or_default();
    let seconds = BACKOFF_SECONDS.saturating_mul(2_i64.saturating_pow(doublings));
    time::left(last, seconds.min(MAX_BACKOFF_SECONDS))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::item::tests::item;

    fn pod(text: &str) -> Item {
        let (name, phase) = text.split_once(':').unwrap_or((text, "Running"));
        let index = name.split_once('-').map(|(index, _)| index);
        item(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "uid": name,
                "finalizers": [super::super::TRACKING],
                "annotations": {super::super::INDEX: index},
            },
            "status": {"phase": phase},
        }))
    }

    /// A job's spec and pods as `name:phase` or, by index, `index-name:phase`; how it stands, and what is missing and
    /// too many.
    #[track_caller]
    fn check(spec: Value, pods: &str, wanted: &str) {
        let job = item(&json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": spec,
            "status": {"startTime": "2008-01-01T01:01:01Z"},
        }));
        let pods: Vec<Item> = pods.split_whitespace().map(pod).collect();
        let (tally, _) = Tally::take(&job, &pods);
        let plan = Plan::of(&job, &pods, &tally);
        let mut told = format!("{:?}", plan.verdict);
        for index in &plan.missing {
            told += &index.map_or(" +".to_owned(), |index| format!(" +{index}"));
        }
        for pod in &plan.surplus {
            told += &format!(" -{}", pod.name());
        }
        assert_eq!(told, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_run_as_may_and_must() {
        let spec = json!({"completions": 3, "parallelism": 2});
        check(spec.clone(), "", "Running + +");
        check(spec.clone(), "a", "Running +");
        check(spec.clone(), "a b c", "Running -c");
        check(spec.clone(), "a:Succeeded b:Succeeded c", "Running");
        check(spec, "a:Succeeded b:Succeeded c:Succeeded d", "Complete -d");
        check(json!({"parallelism": 2}), "a:Succeeded b", "Running");
        check(json!({"parallelism": 2}), "a:Succeeded b:Succeeded", "Complete");
    }

    #[tokio::test(start_paused = true)]
    async fn every_index_is_done_once() {
        let spec = json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"});
        check(spec.clone(), "", "Running +0 +1 +2");
        check(spec.clone(), "1-a:Succeeded 2-b", "Running +0 +3");
        check(spec.clone(), "0-a 0-b 9-c", "Running +1 +2 -0-b -9-c");
        check(
            spec,
            "0-a:Succeeded 1-a:Succeeded 2-a:Succeeded 3-a:Succeeded",
            "Complete",
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_fails_after_too_many_failures_or_too_long() {
        check(
            json!({"completions": 1, "backoffLimit": 1}),
            "a:Failed",
            "Running +",
        );
        check(
            json!({"completions": 1, "backoffLimit": 1}),
            "a:Failed b:Failed c",
            "BackoffLimitExceeded -c",
        );
        check(
            json!({"completions": 1, "activeDeadlineSeconds": 5}),
            "a",
            "DeadlineExceeded -a",
        );
        check(json!({"completions": 1, "suspend": true}), "a", "Suspended -a");
    }
}
