//! `rollout status`: how far a rollout is, with kubectl's sentences, until it has finished.

use std::io::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::{Kind, Workload};
use crate::failure::Failure;
use crate::session::Session;
use crate::waiting::until;

/// The progress of a rollout.
#[derive(Debug, PartialEq)]
enum Progress {
    Waiting(String),
    Finished(String),
}

/// Prints each new sentence until the rollout has finished.
pub(super) async fn show(
    workload: &Workload,
    watch: bool,
    timeout: Duration,
    session: &mut Session,
) -> Result<(), Failure> {
    // An object that does not exist is the server's error, as in kubectl.
    workload.api.get(&workload.name).await?;
    let mut before = String::new();
    let waiting = until(&workload.api, &workload.name, |object| {
        let Some(object) = object else {
            let plural = workload.api.resource().group_resource();
            return Err(Failure::text(format!("{plural} {:?} was deleted", workload.name)));
        };
        let (text, finished) = match progress(workload.kind, &workload.name, object)? {
            Progress::Waiting(text) => (text, !watch),
            Progress::Finished(text) => (text, true),
        };
        if text != before {
            writeln!(session.out, "{text}")?;
            session.out.flush()?;
            before = text;
        }
        Ok(finished)
    });
    match timeout.is_zero() {
        true => waiting.await,
        false => tokio::time::timeout(timeout, waiting).await.unwrap_or_else(|_| {
            Err(Failure::text(format!(
                "timed out after {timeout:?} waiting for the rollout; `watchkeeper describe {}` shows why",
                workload.display_name()
            )))
        }),
    }
}

fn progress(kind: Kind, name: &str, object: &Value) -> Result<Progress, Failure> {
    let generation = &object["metadata"]["generation"];
    let observed = &object["status"]["observedGeneration"];
    let is_observed = observed.as_i64().unwrap_or_default() >= generation.as_i64().unwrap_or_default();
    match kind {
        Kind::Deployment if is_observed => deployment(name, object),
        Kind::DaemonSet if is_observed => Ok(daemon_set(name, object)),
        Kind::StatefulSet if is_observed => stateful_set(object),
        Kind::Deployment => Ok(Progress::Waiting(
            "Waiting for deployment spec update to be observed...".to_owned(),
        )),
        Kind::DaemonSet => Ok(Progress::Waiting(
            "Waiting for daemon set spec update to be observed...".to_owned(),
        )),
        Kind::StatefulSet => Ok(Progress::Waiting(
            "Waiting for statefulset spec update to be observed...".to_owned(),
        )),
    }
}

fn number(value: &Value, absent: i64) -> i64 {
    value.as_i64().unwrap_or(absent)
}

fn deployment(name: &str, object: &Value) -> Result<Progress, Failure> {
    let status = &object["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut progressing = conditions.filter(|condition| condition["type"] == "Progressing");
    if progressing.any(|condition| condition["reason"] == "ProgressDeadlineExceeded") {
        return Err(Failure::text(format!(
            "deployment {name:?} exceeded its progress deadline"
        )));
    }
    let wanted = number(&object["spec"]["replicas"], 1);
    let count = |field: &str| number(&status[field], 0);
    let (updated, total, available) = (
        count("updatedReplicas"),
        count("replicas"),
        count("availableReplicas"),
    );
    let waiting = |what: String| {
        Ok(Progress::Waiting(format!(
            "Waiting for deployment {name:?} rollout to finish: {what}..."
        )))
    };
    if updated < wanted {
        return waiting(format!(
            "{updated} out of {wanted} new replicas have been updated"
        ));
    }
    if total > updated {
        return waiting(format!(
            "{} old replicas are pending termination",
            total - updated
        ));
    }
    if available < updated {
        return waiting(format!("{available} of {updated} updated replicas are available"));
    }
    Ok(Progress::Finished(format!(
        "deployment {name:?} successfully rolled out"
    )))
}

fn daemon_set(name: &str, object: &Value) -> Progress {
    let count = |field: &str| number(&object["status"][field], 0);
    let wanted = count("desiredNumberScheduled");
    let waiting = |what: String| {
        Progress::Waiting(format!(
            "Waiting for daemon set {name:?} rollout to finish: {what}..."
        ))
    };
    match (count("updatedNumberScheduled"), count("numberAvailable")) {
        (updated, _) if updated < wanted => {
            waiting(format!("{updated} out of {wanted} new pods have been updated"))
        }
        (_, available) if available < wanted => {
            waiting(format!("{available} of {wanted} updated pods are available"))
        }
        _ => Progress::Finished(format!("daemon set {name:?} successfully rolled out")),
    }
}

fn stateful_set(object: &Value) -> Result<Progress, Failure> {
    let (spec, status) = (&object["spec"], &object["status"]);
    if spec["updateStrategy"]["type"] == "OnDelete" {
        return Err(Failure::text(
            "rollout status is only available for RollingUpdate strategy type",
        ));
    }
    let wanted = number(&spec["replicas"], 1);
    let count = |field: &str| number(&status[field], 0);
    let ready = count("readyReplicas");
    if ready < wanted {
        return Ok(Progress::Waiting(format!(
            "Waiting for {} pods to be ready...",
            wanted - ready
        )));
    }
    let updated = count("updatedReplicas");
    let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"], 0);
    if partition > 0 {
        let wanted = wanted - partition;
        return Ok(match updated < wanted {
            true => Progress::Waiting(format!(
                "Waiting for partitioned roll out to finish: {updated} out of {wanted} new pods have been updated..."
            )),
            false => Progress::Finished(format!(
                "partitioned roll out complete: {updated} new pods have been updated..."
            )),
        });
    }
    let (current, update) = (&status["currentRevision"], &status["updateRevision"]);
    Ok(match current == update {
        true => Progress::Finished(format!(
            "statefulset rolling update complete {} pods at revision {}...",
            count("currentReplicas"),
            current.as_str().unwrap_or_default()
        )),
        false => Progress::Waiting(format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision {}...",
            update.as_str().unwrap_or_default()
        )),
    })
}
