//! The status of a deployment: replica counts and conditions.
//!
//! Progress resets the clock of a rollout; a rollout without progress beyond its deadline is reported as failed, and
//! still continues.

use std::time::Duration;

use serde_json::{Value, json};

use super::Sets;
use super::plan::Strategy;
use crate::conditions::{self, Condition, REPLICA_FAILURE};
use crate::item::Item;
use crate::time;

/// The default progress deadline.
const DEADLINE_SECONDS: i64 = 600;

/// The status, and the time to the next check because of a deadline.
pub(super) fn status(deployment: &Item, strategy: &Strategy, sets: &Sets) -> (Value, Option<Duration>) {
    let available = sets.sum("/status/availableReplicas");
    let new = |pointer: &str| sets.new.as_ref().map_or(0, |new| new.number(pointer));
    let mut status = json!({
        "observedGeneration": deployment.generation(),
        "replicas": sets.sum("/status/replicas"),
        "updatedReplicas": new("/status/replicas"),
        "readyReplicas": sets.sum("/status/readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": (strategy.wanted - available).max(0),
    });
    let enough = available >= strategy.min_available();
    let known = deployment.list("/status/conditions");
    let mut conditions = conditions::with(known, availability(enough));
    let progress = Progress::of(deployment, strategy, &status);
    if let Some((holds, reason, message)) = progress.told() {
        let subject = match &sets.new {
            _ if holds.is_none() => "Deployment".to_owned(),
            Some(new) => format!("ReplicaSet {:?}", new.name()),
            None => format!("Deployment {:?}", deployment.name()),
        };
        let told = Condition {
            kind: "Progressing",
            holds,
            reason,
            message: &format!("{subject} {message}"),
        };
        conditions = conditions::with(&conditions, told);
    }
    conditions.retain(|known| known["type"] != REPLICA_FAILURE);
    conditions.extend(replica_failure(sets, known));
    let is_moving = progress == Progress::Moving && !deployment.says(&status);
    note_updates(&mut conditions, known, is_moving);
    let is_timed = matches!(progress, Progress::Moving | Progress::Resumed);
    let next = deadline(deployment, &conditions).filter(|_| is_timed);
    status["conditions"] = json!(conditions);
    (status, next)
}

fn availability(enough: bool) -> Condition<'static> {
    let (reason, message) = match enough {
        true => ("MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => (
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
    };
    Condition {
        kind: "Available",
        holds: Some(enough),
        reason,
        message,
    }
}

/// The reason pods cannot be created or deleted: that of the current set first, then of the others.
fn replica_failure(sets: &Sets, known: &[Value]) -> Option<Value> {
    let of_set = |set: &Item| {
        let mut conditions = set.list("/status/conditions").iter();
        conditions.find(|known| known["type"] == REPLICA_FAILURE).cloned()
    };
    let mut failure = sets.new.iter().chain(&sets.old).find_map(of_set)?;
    let before = known.iter().find(|known| known["type"] == REPLICA_FAILURE);
    if let Some(before) = before.filter(|before| before["reason"] == failure["reason"]) {
        failure["lastUpdateTime"] = before["lastUpdateTime"].clone();
    }
    Some(failure)
}

/// The progress of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Paused,
    /// It was paused before.
    Resumed,
    Moving,
    Done,
    Stuck,
    /// Unchanged: a complete rollout stays complete, whatever happens to its pods; so does one that failed while it
    /// is paused.
    Unchanged,
}

impl Progress {
    fn of(deployment: &Item, strategy: &Strategy, status: &Value) -> Self {
        let is_all = |name: &str| status[name] == strategy.wanted;
        let is_done = ["updatedReplicas", "replicas", "availableReplicas"]
            .into_iter()
            .all(is_all);
        let known = deployment.list("/status/conditions");
        let before = progressing(known).and_then(|known| known["reason"].as_str());
        let is_all_new = status["replicas"] == status["updatedReplicas"];
        if deployment["spec"]["paused"] == true {
            match before {
                Some("ProgressDeadlineExceeded") => Self::Unchanged,
                _ => Self::Paused,
            }
        } else if is_done {
            Self::Done
        } else if before == Some("NewReplicaSetAvailable") && is_all_new {
            Self::Unchanged
        } else if before == Some("DeploymentPaused") {
            Self::Resumed
        } else if deployment.says(status) && is_late(deployment, known) {
            Self::Stuck
        } else {
            Self::Moving
        }
    }

    /// Status, reason and message of the condition.
    fn told(self) -> Option<(Option<bool>, &'static str, &'static str)> {
        match self {
            Self::Unchanged => None,
            Self::Paused => Some((None, "DeploymentPaused", "is paused")),
            Self::Resumed => Some((None, "DeploymentResumed", "is resumed")),
            Self::Moving => Some((Some(true), "ReplicaSetUpdated", "is progressing.")),
            Self::Done => Some((
                Some(true),
                "NewReplicaSetAvailable",
                "has successfully progressed.",
            )),
            Self::Stuck => Some((
                Some(false),
                "ProgressDeadlineExceeded",
                "has timed out progressing.",
            )),
        }
    }
}

fn progressing(conditions: &[Value]) -> Option<&Value> {
    conditions.iter().find(|known| known["type"] == "Progressing")
}

/// True if a rollout without progress has missed its deadline. Reporting it does not extend the deadline.
fn is_late(deployment: &Item, conditions: &[Value]) -> bool {
    let reason = progressing(conditions).and_then(|known| known["reason"].as_str());
    match reason {
        Some("ReplicaSetUpdated" | "DeploymentResumed") => deadline(deployment, conditions).is_none(),
        Some("ProgressDeadlineExceeded") => true,
        _ => false,
    }
}

/// The time until the deadline of a rollout.
fn deadline(deployment: &Item, conditions: &[Value]) -> Option<Duration> {
    let seconds = deployment.at("/spec/progressDeadlineSeconds").as_i64();
    let since = time::read(&progressing(conditions)?["lastUpdateTime"])?;
    time::left(since, seconds.unwrap_or(DEADLINE_SECONDS))
}

/// Sets the update time of new and changed conditions, and of `Progressing` while there is progress.
fn note_updates(conditions: &mut [Value], known: &[Value], is_moving: bool) {
    for condition in conditions {
        let before = known.iter().find(|known| known["type"] == condition["type"]);
        let same = before.is_some_and(|before| before["reason"] == condition["reason"]);
        if !same || (is_moving && condition["type"] == "Progressing") {
            condition["lastUpdateTime"] = json!(time::timestamp());
        }
    }
}
