//! Decides about a job: its state, and the pods to create and delete.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::indexes::Indexes;
use super::status::verdict_so_far;
use super::tally::{Tally, index_of};
use crate::item::Item;
use crate::pods::{has_ended, is_active};
use crate::time;

/// The delay before a failed pod is replaced, as in Kubernetes; it doubles each time.
const BACKOFF_SECONDS: i64 = 10;
/// The longest delay, as in Kubernetes.
const MAX_BACKOFF_SECONDS: i64 = 600;

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Running,
    Suspended,
    Ended(End),
}

/// The end of a job, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) well: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Verdict {
    fn failed(reason: &str, message: &str) -> Self {
        Self::Ended(End {
            well: false,
            reason: reason.to_owned(),
            message: message.to_owned(),
        })
    }

    fn succeeded(reason: &str, message: &str) -> Self {
        Self::Ended(End {
            well: true,
            reason: reason.to_owned(),
            message: message.to_owned(),
        })
    }
}

/// The plan of a job.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) verdict: Verdict,
    /// Pods to be deleted.
    pub(super) surplus: Vec<&'a Item>,
    /// Pods to create, with their index for an indexed job.
    pub(super) missing: Vec<Option<u64>>,
    /// The time to the next check.
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
        let leaving = leaving(job, pods);
        let backoff = backoff(pods, tally.failed());
        let missing = match backoff {
            Some(_) => Vec::new(),
            None => missing(job, tally, &kept, &leaving, wanted),
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
    let is_late =
        job.at("/spec/activeDeadlineSeconds").is_i64() && has_started(job) && deadline(job).is_none();
    let is_suspended = job["spec"]["suspend"] == true;
    if let Some(words) = &tally.unforgiven {
        Verdict::failed("PodFailurePolicy", words)
    } else if tally.failed() > limit || restarted_too_often {
        let words = "Job has reached the specified backoff limit";
        Verdict::failed("BackoffLimitExceeded", words)
    } else if is_late && !is_suspended {
        let words = "Job was active longer than specified deadline";
        Verdict::failed("DeadlineExceeded", words)
    } else if let Some(verdict) = verdict_by_index(job, tally) {
        verdict
    } else if is_complete(job, active, tally) {
        let words = "Reached expected number of succeeded pods";
        Verdict::succeeded("CompletionsReached", words)
    } else if is_suspended {
        Verdict::Suspended
    } else {
        Verdict::Running
    }
}

fn is_complete(job: &Item, active: &[&Item], tally: &Tally) -> bool {
    match job.at("/spec/completions").as_i64() {
        Some(completions) => tally.succeeded() >= completions,
        None => tally.succeeded() > 0 && active.is_empty(),
    }
}

/// The verdict on an indexed job: too many indexes have failed, or the success criteria are met.
fn verdict_by_index(job: &Item, tally: &Tally) -> Option<Verdict> {
    let done = tally.indexes.as_ref()?;
    if let Some(failed) = &tally.failed_indexes {
        let most = job.at("/spec/maxFailedIndexes").as_u64();
        if most.is_some_and(|most| failed.len() > most) {
            let words = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Verdict::failed("MaxFailedIndexesExceeded", words));
        }
        let all = job.at("/spec/completions").as_u64().unwrap_or_default();
        if !failed.is_empty() && failed.len() + done.len() >= all {
            return Some(Verdict::failed("FailedIndexes", "Job has failed indexes"));
        }
    }
    let rules = job.list("/spec/successPolicy/rules").iter();
    let mut met = rules
        .enumerate()
        .filter(|(_, rule)| is_success(rule, done, all(job)));
    let (index, _) = met.next()?;
    let words = format!("Matched rules at index {index}");
    Some(Verdict::succeeded("SuccessPolicy", &words))
}

fn all(job: &Item) -> u64 {
    u64::try_from(job.number("/spec/completions")).unwrap_or_default()
}

/// True if the completed indexes meet a success rule.
fn is_success(rule: &Value, done: &Indexes, all: u64) -> bool {
    let count = rule["succeededCount"].as_u64();
    match rule["succeededIndexes"].as_str() {
        None => count.is_some_and(|count| done.len() >= count),
        Some(text) => {
            let wanted = Indexes::parse(text, all);
            let met = wanted.iter().filter(|index| done.contains(*index)).count() as u64;
            met >= count.unwrap_or(wanted.len())
        }
    }
}

fn has_started(job: &Item) -> bool {
    !job.text("/status/startTime").is_empty()
}

/// The remaining time of a job.
fn deadline(job: &Item) -> Option<Duration> {
    let seconds = job.at("/spec/activeDeadlineSeconds").as_i64()?;
    let start = time::read(job.at("/status/startTime")).unwrap_or_else(time::now);
    time::left(start, seconds)
}

/// The number of pods that should be active.
fn wanted_active(job: &Item, tally: &Tally, active: usize) -> usize {
    let parallelism = job.at("/spec/parallelism").as_i64().unwrap_or(1);
    let wanted = match job.at("/spec/completions").as_i64() {
        Some(completions) => parallelism.min(completions - tally.succeeded()),
        // Once one pod has succeeded, no others are started.
        None if tally.succeeded() > 0 => return active,
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or_default()
}

/// The pods to keep, oldest first, and the surplus: beyond the number, or for an index that is completed, out of
/// range or already taken.
fn keep<'a>(
    job: &Item,
    tally: &Tally,
    active: Vec<&'a Item>,
    wanted: usize,
) -> (Vec<&'a Item>, Vec<&'a Item>) {
    let end = all(job);
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

/// The pods being deleted that are not replaced before they have ended.
fn leaving<'a>(job: &Item, pods: &'a [Item]) -> Vec<&'a Item> {
    let waits = job.text("/spec/podReplacementPolicy") == "Failed";
    let leaving = pods
        .iter()
        .filter(|pod| waits && pod.is_deleting() && !has_ended(pod));
    leaving.collect()
}

fn missing(job: &Item, tally: &Tally, kept: &[&Item], leaving: &[&Item], wanted: usize) -> Vec<Option<u64>> {
    let count = wanted.saturating_sub(kept.len() + leaving.len());
    let Some(done) = &tally.indexes else {
        return vec![None; count];
    };
    let taken = kept.iter().chain(leaving).filter_map(|pod| index_of(pod));
    let taken: BTreeSet<u64> = taken.collect();
    let has_failed = |index: u64| {
        let failed = tally.failed_indexes.as_ref();
        failed.is_some_and(|failed| failed.contains(index))
    };
    let open =
        (0..all(job)).filter(|index| !done.contains(*index) && !taken.contains(index) && !has_failed(*index));
    open.take(count).map(Some).collect()
}

/// The time without new pods after the last failure.
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

    /// A job's spec and pods as `name:phase` or, by index, `index-name:phase`; its state, and the missing and surplus
    /// pods.
    #[track_caller]
    fn check(spec: Value, pods: &str, wanted: &str) {
        let job = item(&json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": spec,
            "status": {"startTime": "2008-01-01T01:01:01Z"},
        }));
        let pods: Vec<Item> = pods.split_whitespace().map(pod).collect();
        let (tally, _) = Tally::take(&job, &pods);
        let plan = Plan::of(&job, &pods, &tally);
        let mut told = match &plan.verdict {
            Verdict::Ended(end) => end.reason.clone(),
            verdict => format!("{verdict:?}"),
        };
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
        check(
            spec,
            "a:Succeeded b:Succeeded c:Succeeded d",
            "CompletionsReached -d",
        );
        check(json!({"parallelism": 2}), "a:Succeeded b", "Running");
        check(
            json!({"parallelism": 2}),
            "a:Succeeded b:Succeeded",
            "CompletionsReached",
        );
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
            "CompletionsReached",
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_index_fails_by_itself() {
        let mut spec = json!({
            "completions": 3, "parallelism": 3, "completionMode": "Indexed",
            "backoffLimit": 99, "backoffLimitPerIndex": 1,
        });
        check(spec.clone(), "0-a:Failed 1-a 2-a", "Running +0");
        check(spec.clone(), "0-a:Failed 0-b:Failed 1-a 2-a", "Running");
        let all = "0-a:Failed 0-b:Failed 1-a:Succeeded 2-a:Succeeded";
        check(spec.clone(), all, "FailedIndexes");
        spec["maxFailedIndexes"] = json!(0);
        check(
            spec,
            "0-a:Failed 0-b:Failed 1-a 2-a",
            "MaxFailedIndexesExceeded -1-a -2-a",
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_succeeds_when_a_rule_says_so() {
        let spec = |rule: Value| {
            json!({
                "completions": 4, "parallelism": 4, "completionMode": "Indexed", "successPolicy": {"rules": [rule]},
            })
        };
        let pods = "0-a 1-a:Succeeded 2-a:Succeeded 3-a";
        check(
            spec(json!({"succeededIndexes": "1-2"})),
            pods,
            "SuccessPolicy -0-a -3-a",
        );
        check(spec(json!({"succeededIndexes": "0-2"})), pods, "Running");
        check(
            spec(json!({"succeededIndexes": "0-2", "succeededCount": 2})),
            pods,
            "SuccessPolicy -0-a -3-a",
        );
        check(spec(json!({"succeededCount": 3})), pods, "Running");
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
