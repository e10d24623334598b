//! The kubelets of all nodes: pods start, run and stop.
//!
//! ```text
//! bound ▶ ContainerCreating ▶ Running ▶ (meant to end) Succeeded
//!                                │
//!                                └▶ deleted ▶ stopped, within its grace period
//! ```

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_meta::Time;
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_wire::Object;

use crate::SimulatorOptions;
use crate::cluster::{Cluster, Reconcile, condition, ignore_gone, now, pods, value};
use crate::futures::Task;

/// Runs the pods of all nodes.
pub(crate) fn run(cluster: Cluster, options: SimulatorOptions, stop: CancellationToken) -> Task {
    Box::pin(async move {
        let reconciler = {
            let cluster = cluster.clone();
            Reconcile(move |request| run_pod(cluster.clone(), options.clone(), request))
        };
        cluster.control("kubelet", &pods(), &[], reconciler, stop).await;
    })
}

/// Where a pod is in its life.
enum Stage {
    Unbound,
    Bound,
    Creating,
    Running,
    Ended,
    Deleting,
}

fn stage(pod: &Value) -> Stage {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/spec/nodeName").is_empty() {
        return Stage::Unbound;
    }
    if !text("/metadata/deletionTimestamp").is_empty() {
        return Stage::Deleting;
    }
    match text("/status/phase") {
        "Running" => Stage::Running,
        "Succeeded" | "Failed" => Stage::Ended,
        _ if text("/status/startTime").is_empty() => Stage::Bound,
        _ => Stage::Creating,
    }
}

async fn run_pod(cluster: Cluster, options: SimulatorOptions, request: Request) -> Result<Action, Error> {
    let Some(object) = request.object else {
        return Ok(Action::Done);
    };
    let pod = value(&object);
    match stage(&pod) {
        Stage::Unbound | Stage::Ended => Ok(Action::Done),
        Stage::Bound => {
            set_status(&cluster, &object, creating(&pod)).await?;
            Ok(Action::After(options.container_creation))
        }
        Stage::Creating => match time_left(&pod["status"]["startTime"], options.container_creation) {
            Some(left) => Ok(Action::After(left)),
            None => {
                set_status(&cluster, &object, running(&pod, &object)).await?;
                Ok(if is_meant_to_end(&pod) {
                    Action::After(options.run_time)
                } else {
                    Action::Done
                })
            }
        },
        Stage::Running if is_meant_to_end(&pod) => {
            let started = &pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"];
            match time_left(started, options.run_time) {
                Some(left) => Ok(Action::After(left)),
                None => set_status(&cluster, &object, succeeded(&pod))
                    .await
                    .map(|()| Action::Done),
            }
        }
        Stage::Running => Ok(Action::Done),
        Stage::Deleting => stop(&cluster, &options, &pod, &object).await,
    }
}

/// Jobs and bare pods that are not restarted.
fn is_meant_to_end(pod: &Value) -> bool {
    matches!(pod["spec"]["restartPolicy"].as_str(), Some("Never" | "OnFailure"))
}

/// How much of a time span since `start` is left.
fn time_left(start: &Value, span: Duration) -> Option<Duration> {
    let start: Time = start.as_str()?.parse().ok()?;
    let passed = Time::from(jiff::Timestamp::now())
        .seconds
        .saturating_sub(start.seconds)
        .max(0);
    // Times in objects have whole seconds; shorter spans count as over once they have begun.
    let left = i64::try_from(span.as_secs()).unwrap_or(i64::MAX) - passed;
    u64::try_from(left)
        .ok()
        .filter(|left| *left > 0)
        .map(Duration::from_secs)
}

async fn set_status(cluster: &Cluster, pod: &Object, status: Value) -> Result<(), Error> {
    let patched = cluster
        .merge(&pods(), &pod.key(), Some("status"), json!({"status": status}))
        .await;
    ignore_gone(patched.map(drop))
}

fn containers(pod: &Value, state: Value, ready: bool) -> Vec<Value> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .map(|container| {
            json!({
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "started": ready,
                "restartCount": 0,
                "state": state,
            })
        })
        .collect()
}

fn creating(pod: &Value) -> Value {
    json!({
        "phase": "Pending",
        "startTime": now(),
        "hostIP": "192.0.2.10",
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", false),
            condition("Ready", false),
        ],
        "containerStatuses": containers(pod, json!({"waiting": {"reason": "ContainerCreating"}}), false),
    })
}

fn running(pod: &Value, object: &Object) -> Value {
    let address = pod_address(object.uid());
    json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", true),
            condition("Ready", true),
        ],
        "containerStatuses": containers(pod, json!({"running": {"startedAt": now()}}), true),
    })
}

fn succeeded(pod: &Value) -> Value {
    let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now()}});
    json!({
        "phase": "Succeeded",
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", false),
            condition("Ready", false),
        ],
        "containerStatuses": containers(pod, ended, false),
    })
}

/// An address from the pod network, the same for the same pod.
fn pod_address(uid: &str) -> String {
    let sum = uid.bytes().fold(0u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let [_, b, c, d] = sum.to_be_bytes();
    format!("10.{}.{c}.{}", 200 + b % 50, d.max(1))
}

async fn stop(
    cluster: &Cluster,
    options: &SimulatorOptions,
    pod: &Value,
    object: &Object,
) -> Result<Action, Error> {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"]
        .as_u64()
        .unwrap_or_default();
    let stopping = options.stop_time.min(Duration::from_secs(grace));
    tokio::time::sleep(stopping).await;
    cluster.delete(&pods(), object, Some(0)).await?;
    Ok(Action::Done)
}
