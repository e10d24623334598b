//! Counts the finished pods of a job.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::failure_policy::{Consequence, consequence};
use super::indexes::Indexes;
use super::{INDEX, INDEX_FAILURES, TRACKING};
use crate::item::Item;
use crate::pods::has_ended;

/// The counts of a job. Recorded pods are included; their uids mean that the count is not yet written.
#[derive(Debug)]
pub(super) struct Tally {
    succeeded: i64,
    failed: i64,
    noted: Notes,
    /// The completed indexes of an indexed job.
    pub(super) indexes: Option<Indexes>,
    /// The failed indexes of a job with a backoff limit per index.
    pub(super) failed_indexes: Option<Indexes>,
    /// The message of a failed job whose failure policy has matched.
    pub(super) unforgiven: Option<String>,
}

/// The uids of finished pods that still have their finalizer.
#[derive(Debug, Default)]
struct Notes {
    succeeded: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl Tally {
    /// Counts the pods of a job, and returns those whose finalizer can be removed once the status is written.
    pub(super) fn take<'a>(job: &Item, pods: &'a [Item]) -> (Self, Vec<&'a Item>) {
        let mut tally = Self::read(job);
        let tracked = |uid: &str| pods.iter().any(|pod| pod.uid() == uid && is_tracked(pod));
        tally
            .noted
            .succeeded
            .retain(|uid| tracked(uid) || is_counted(&mut tally.succeeded));
        tally
            .noted
            .failed
            .retain(|uid| tracked(uid) || is_counted(&mut tally.failed));
        let is_suspended = job["spec"]["suspend"] == true;
        let ended: Vec<&Item> = pods
            .iter()
            .filter(|pod| is_tracked(pod) && is_over(pod))
            .collect();
        for pod in &ended {
            // A pod stopped because its job is suspended has not failed.
            if !(is_suspended && pod.is_deleting()) {
                tally.note(job, pod);
            }
        }
        tally.fail_indexes(job, pods);
        (tally, ended)
    }

    fn read(job: &Item) -> Self {
        let uids = |name: &str| -> BTreeSet<String> {
            let uids = job
                .list(&format!("/status/uncountedTerminatedPods/{name}"))
                .iter();
            uids.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let end = u64::try_from(job.number("/spec/completions")).unwrap_or_default();
        let by_index = job.text("/spec/completionMode") == "Indexed";
        Self {
            succeeded: job.number("/status/succeeded"),
            failed: job.number("/status/failed"),
            noted: Notes {
                succeeded: uids("succeeded"),
                failed: uids("failed"),
            },
            indexes: by_index.then(|| Indexes::parse(job.text("/status/completedIndexes"), end)),
            failed_indexes: (by_index && limit_per_index(job).is_some())
                .then(|| Indexes::parse(job.text("/status/failedIndexes"), end)),
            unforgiven: None,
        }
    }

    fn note(&mut self, job: &Item, pod: &Item) {
        let uid = pod.uid().to_owned();
        match (pod.text("/status/phase"), &mut self.indexes) {
            // An index that is completed twice counts once.
            ("Succeeded", Some(indexes)) => index_of(pod).into_iter().for_each(|index| indexes.insert(index)),
            ("Succeeded", None) => drop(self.noted.succeeded.insert(uid)),
            _ => self.note_failure(job, pod),
        }
    }

    fn note_failure(&mut self, job: &Item, pod: &Item) {
        match consequence(job, pod) {
            Consequence::Ignore => return,
            Consequence::Count => {}
            Consequence::FailIndex => {
                let indexes = self.failed_indexes.iter_mut().zip(index_of(pod));
                indexes.for_each(|(indexes, index)| indexes.insert(index));
            }
            Consequence::FailJob(words) => self.unforgiven = Some(words),
        }
        self.noted.failed.insert(pod.uid().to_owned());
    }

    /// Records the indexes that exceed their backoff limit.
    fn fail_indexes(&mut self, job: &Item, pods: &[Item]) {
        let (Some(failed), Some(limit)) = (&mut self.failed_indexes, limit_per_index(job)) else {
            return;
        };
        for index in pods.iter().filter_map(index_of) {
            let is_done = self.indexes.as_ref().is_some_and(|done| done.contains(index));
            if !is_done && failures_of(job, pods, index) > limit {
                failed.insert(index);
            }
        }
    }

    pub(super) fn succeeded(&self) -> i64 {
        match &self.indexes {
            Some(indexes) => i64::try_from(indexes.len()).unwrap_or(i64::MAX),
            None => self.succeeded + count(&self.noted.succeeded),
        }
    }

    pub(super) fn failed(&self) -> i64 {
        self.failed + count(&self.noted.failed)
    }

    /// The counts as part of the status.
    pub(super) fn status(&self) -> Value {
        let written = match &self.indexes {
            Some(_) => self.succeeded(),
            None => self.succeeded,
        };
        json!({
            "succeeded": written,
            "failed": self.failed,
            "completedIndexes": self.indexes.as_ref().map(Indexes::text),
            "failedIndexes": self.failed_indexes.as_ref().map(Indexes::text),
            "uncountedTerminatedPods": {
                "succeeded": (!self.noted.succeeded.is_empty()).then_some(&self.noted.succeeded),
                "failed": (!self.noted.failed.is_empty()).then_some(&self.noted.failed),
            },
        })
    }

    /// True if every recorded pod is counted.
    pub(super) fn is_written(&self) -> bool {
        self.noted.succeeded.is_empty() && self.noted.failed.is_empty()
    }
}

/// Turns a recorded uid into one more in the count.
fn is_counted(count: &mut i64) -> bool {
    *count += 1;
    false
}

fn count(uids: &BTreeSet<String>) -> i64 {
    i64::try_from(uids.len()).unwrap_or(i64::MAX)
}

fn limit_per_index(job: &Item) -> Option<i64> {
    job.at("/spec/backoffLimitPerIndex").as_i64()
}

/// The failures of an index: by its existing pods, or by their failure counts.
pub(super) fn failures_of(job: &Item, pods: &[Item], index: u64) -> i64 {
    let of_index = || pods.iter().filter(|pod| index_of(pod) == Some(index));
    let has_failed =
        |pod: &&Item| pod.text("/status/phase") == "Failed" && consequence(job, pod) != Consequence::Ignore;
    let noted = of_index().map(|pod| {
        let before: i64 = pod
            .annotation(INDEX_FAILURES)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        before + i64::from(has_failed(&pod))
    });
    let seen = i64::try_from(of_index().filter(has_failed).count()).unwrap_or(i64::MAX);
    noted.max().unwrap_or_default().max(seen)
}

/// The completion index of a pod.
pub(super) fn index_of(pod: &Item) -> Option<u64> {
    pod.annotation(INDEX)?.parse().ok()
}

/// True if a pod has finished, or was deleted before it got a node.
fn is_over(pod: &Item) -> bool {
    has_ended(pod) || (pod.is_deleting() && pod.text("/spec/nodeName").is_empty())
}

fn is_tracked(pod: &Item) -> bool {
    pod.finalizers().iter().any(|name| name == TRACKING)
}
