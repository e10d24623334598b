//! The status of a job.
//!
//! An end is announced by `SuccessCriteriaMet` or `FailureTarget`; `Complete` or `Failed` follows when no pod is left
//! and all are counted.

use serde_json::{Value, json};
use watchkeeper_meta::Time;

use super::plan::{End, Plan, Verdict};
use super::tally::Tally;
use crate::conditions::{self, Condition};
use crate::item::Item;
use crate::pods::{has_ended, is_active, is_ready};
use crate::time;

/// The verdict in the status: an announced end is final.
pub(super) fn verdict_so_far(job: &Item) -> Option<Verdict> {
    let mut conditions = job.list("/status/conditions").iter();
    let announced = conditions.find(|known| {
        let is_end = known["type"] == "SuccessCriteriaMet" || known["type"] == "FailureTarget";
        is_end && known["status"] == "True"
    })?;
    let text = |name: &str| announced[name].as_str().unwrap_or_default().to_owned();
    Some(Verdict::Ended(End {
        well: announced["type"] == "SuccessCriteriaMet",
        reason: text("reason"),
        message: text("message"),
    }))
}

pub(super) fn is_finished(job: &Item) -> bool {
    job.holds("Complete") || job.holds("Failed")
}

pub(super) fn finished_at(job: &Item) -> Option<Time> {
    let mut conditions = job.list("/status/conditions").iter();
    let end = conditions.find(|known| known["type"] == "Complete" || known["type"] == "Failed")?;
    time::read(&end["lastTransitionTime"])
}

/// The status by the plan: pods to be deleted are no longer active.
pub(super) fn of(job: &Item, pods: &[Item], tally: &Tally, plan: &Plan<'_>) -> Value {
    let count = |counts: &dyn Fn(&Item) -> bool| pods.iter().filter(|pod| counts(pod)).count();
    let terminating = count(&|pod| pod.is_deleting() && !has_ended(pod));
    let active = count(&is_active);
    let mut status = tally.status();
    status["active"] = json!(active);
    status["ready"] = json!(count(&|pod| is_active(pod) && is_ready(pod)));
    status["terminating"] = json!(terminating);
    status["startTime"] = match (&plan.verdict, job.at("/status/startTime")) {
        (Verdict::Suspended, _) => Value::Null,
        (_, Value::Null) => json!(time::timestamp()),
        (_, started) => started.clone(),
    };
    let is_over = active + terminating == 0 && tally.is_written();
    status["conditions"] = json!(conditions(job, &plan.verdict, is_over));
    if matches!(&plan.verdict, Verdict::Ended(end) if end.well) && is_over {
        status["completionTime"] = json!(time::timestamp());
    }
    status
}

fn conditions(job: &Item, verdict: &Verdict, is_over: bool) -> Vec<Value> {
    let known = job.list("/status/conditions");
    let was_suspended = known.iter().any(|known| known["type"] == "Suspended");
    let end = match verdict {
        Verdict::Running if was_suspended => {
            return with(known, "Suspended", false, "JobResumed", "Job resumed");
        }
        Verdict::Running => return known.to_vec(),
        Verdict::Suspended => return with(known, "Suspended", true, "JobSuspended", "Job suspended"),
        Verdict::Ended(end) => end,
    };
    let (announced, told) = match end.well {
        true => ("SuccessCriteriaMet", "Complete"),
        false => ("FailureTarget", "Failed"),
    };
    let (reason, message) = (&end.reason, &end.message);
    let announced = with(known, announced, true, reason, message);
    match is_over {
        true => with(&announced, told, true, reason, message),
        false => announced,
    }
}

/// Conditions of jobs also have a last probe time.
fn with(known: &[Value], kind: &str, holds: bool, reason: &str, message: &str) -> Vec<Value> {
    let holds = Some(holds);
    let mut all = conditions::with(
        known,
        Condition {
            kind,
            holds,
            reason,
            message,
        },
    );
    for condition in all.iter_mut().filter(|condition| condition["type"] == kind) {
        condition["lastProbeTime"] = condition["lastTransitionTime"].clone();
    }
    all
}
