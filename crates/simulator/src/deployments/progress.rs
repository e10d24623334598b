//! What is said of a deployment: how many pods there are, and whether it gets on.
//!
//! A rollout that moves has its clock set back; one that does not for longer than its deadline has failed, and still
//! goes on.

use std::time::Duration;

use serde_json::{Value, json};

use super::Sets;
use super::plan::Strategy;
use crate::conditions::{self, Condition};
use crate::item::Item;
use crate::time;

/// 600 s: how long a rollout may stand still unless its deployment says otherwise.
const DEADLINE_SECONDS: i64 = 600;

/// The status, and when to look again because a deadline may have passed.
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
    let (holds, reason, message) = progress.told();
    let name = sets.new.as_ref().map_or("", |new| new.name());
    let told = Condition {
        kind: "Progressing",
        holds,
        reason,
        message: &format!("ReplicaSet {name:?} {message}"),
    };
    conditions = conditions::with(&conditions, told);
    let is_moving = progress == Progress::Moving && !deployment.says(&status);
    note_updates(&mut conditions, known, is_moving);
    let next = deadline(deployment, &conditions).filter(|_| progress == Progress::Moving);
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

/// How a rollout gets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Paused,
    Moving,
    Done,
    Stuck,
}

impl Progress {
    fn of(deployment: &Item, strategy: &Strategy, status: &Value) -> Self {
        let is_all = |name: &str| status[name] == strategy.wanted;
        let is_done = ["updatedReplicas", "replicas", "availableReplicas"]
            .into_iter()
            .all(is_all);
        let known = deployment.list("/status/conditions");
        if deployment["spec"]["paused"] == true {
            Self::Paused
        } else if is_done {
            Self::Done
        } else if deployment.says(status) && is_late(deployment, known) {
            Self::Stuck
        } else {
            Self::Moving
        }
    }

    /// The answer, the reason, and what is said about the set.
    fn told(self) -> (Option<bool>, &'static str, &'static str) {
        match self {
            Self::Paused => (None, "DeploymentPaused", "is paused."),
            Self::Moving => (Some(true), "ReplicaSetUpdated", "is progressing."),
            Self::Done => (
                Some(true),
                "NewReplicaSetAvailable",
                "has successfully progressed.",
            ),
            Self::Stuck => (
                Some(false),
                "ProgressDeadlineExceeded",
                "has timed out progressing.",
            ),
        }
    }
}

fn progressing(conditions: &[Value]) -> Option<&Value> {
    conditions.iter().find(|known| known["type"] == "Progressing")
}

/// Whether a rollout that has not moved since has missed its deadline. Having said so does not give it more time.
fn is_late(deployment: &Item, conditions: &[Value]) -> bool {
    let reason = progressing(conditions).and_then(|known| known["reason"].as_str());
    match reason {
        Some("ReplicaSetUpdated") => deadline(deployment, conditions).is_none(),
        Some("ProgressDeadlineExceeded") => true,
        _ => false,
    }
}

/// How long until the deadline of a rollout.
fn deadline(deployment: &Item, conditions: &[Value]) -> Option<Duration> {
    let seconds = deployment.at("/spec/progressDeadlineSeconds").as_i64();
    let since = time::read(&progressing(conditions)?["lastUpdateTime"])?;
    time::left(since, seconds.unwrap_or(DEADLINE_SECONDS))
}

/// Dates every condition that is new or says something new, and the one that says that the rollout moves.
fn note_updates(conditions: &mut [Value], known: &[Value], is_moving: bool) {
    for condition in conditions {
        let before = known.iter().find(|known| known["type"] == condition["type"]);
        let same = before.is_some_and(|before| before["reason"] == condition["reason"]);
        if !same || (is_moving && condition["type"] == "Progressing") {
            condition["lastUpdateTime"] = json!(time::timestamp());
        }
    }
}
