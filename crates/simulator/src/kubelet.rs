//! The kubelets of all nodes: pods start, run and stop.
//!
//! ```text
//! bound ▶ ContainerCreating ▶ Running ▶ (meant to end) Succeeded or Failed
//!                              │  ▲
//!                              │  └── CrashLoopBackOff, if it is to be restarted
//!                              └▶ deleted ▶ stopped, within its grace period
//! ```
//!
//! How long each takes is in the options; how a pod ends is in its annotations. A pod whose node is gone goes at once.

mod addresses;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use watchkeeper_client::Error;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::controller::{Action, Mapping, Request};
use watchkeeper_wire::Object;

use self::addresses::Addresses;
use crate::SimulatorOptions;
use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::{nodes, pods};
use crate::pods::has_ended;
use crate::scheduler::BY_NODE;

/// The exit code of a pod's containers. A pod that would run forever ends with it, too, and is started again.
const EXIT_CODE: &str = "simulator.watchkeeper/exit-code";
/// How long a pod runs that is meant to end, in seconds.
const RUN_SECONDS: &str = "simulator.watchkeeper/run-seconds";
/// `false` while a pod that runs is not ready.
const READY: &str = "simulator.watchkeeper/ready";

/// Runs the pods of all nodes.
pub(crate) fn run(cluster: &Cluster, options: SimulatorOptions) -> Task {
    let kubelet = Arc::new(Kubelet {
        options,
        since: Mutex::default(),
        addresses: Addresses::new(cluster),
    });
    let controller =
        cluster
            .controller("kubelet", &pods())
            .watches(cluster.informer(&nodes()), pods_on(cluster), None);
    cluster.run(controller, move |cluster, request| {
        let kubelet = kubelet.clone();
        async move { kubelet.tend(&cluster, request).await }
    })
}

fn pods_on(cluster: &Cluster) -> Mapping {
    let store = cluster.informer(&pods()).store().clone();
    Arc::new(move |node| {
        let pods = store.snapshot();
        let own = pods.by_index(BY_NODE, node.name()).into_iter().flatten();
        own.map(Object::key).collect()
    })
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unbound,
    Bound,
    Creating,
    Running,
    BackingOff,
    Ended,
    Deleting,
}

fn stage(pod: &Item) -> Stage {
    if pod.text("/spec/nodeName").is_empty() {
        return Stage::Unbound;
    }
    if pod.is_deleting() {
        return Stage::Deleting;
    }
    match pod.text("/status/phase") {
        "Succeeded" | "Failed" => Stage::Ended,
        "Running" if status::is_backing_off(pod) => Stage::BackingOff,
        "Running" => Stage::Running,
        _ if pod.text("/status/startTime").is_empty() => Stage::Bound,
        _ => Stage::Creating,
    }
}

struct Kubelet {
    options: SimulatorOptions,
    /// When each pod entered its stage. Whoever starts anew begins anew to count.
    since: Mutex<HashMap<ObjectKey, (String, Stage, Instant)>>,
    addresses: Addresses,
}

impl Kubelet {
    async fn tend(&self, cluster: &Cluster, request: Request) -> Result<Action, Error> {
        let Some(pod) = request.object.as_ref().map(Item::read) else {
            self.since.lock().remove(&request.key);
            self.addresses.free(&request.key);
            return Ok(Action::Done);
        };
        let stage = stage(&pod);
        if stage != Stage::Unbound && is_lost(cluster, &pod).await? {
            return stop(cluster, &pod).await;
        }
        if let Some(left) = self.span(stage, &pod).checked_sub(self.time_in(stage, &pod))
            && !left.is_zero()
        {
            return Ok(Action::After(left));
        }
        let status = match stage {
            Stage::Unbound | Stage::Ended => return Ok(Action::Done),
            Stage::Bound => status::creating(cluster, &pod),
            Stage::Creating => status::running(&pod, &self.addresses.of(&pod), is_meant_ready(&pod)),
            Stage::BackingOff => status::restarted(&pod, is_meant_ready(&pod)),
            Stage::Running if is_meant_to_end(&pod) && is_restarted(&pod) => {
                status::backing_off(&pod, exit_code(&pod))
            }
            Stage::Running if is_meant_to_end(&pod) => status::ended(&pod, exit_code(&pod)),
            Stage::Running => status::ready(&pod, is_meant_ready(&pod)),
            Stage::Deleting => return stop(cluster, &pod).await,
        };
        // What it leads to comes back as a change.
        cluster.report(&pods(), &pod, status).await?;
        Ok(Action::Done)
    }

    /// How long a pod stays in a stage.
    fn span(&self, stage: Stage, pod: &Item) -> Duration {
        let options = &self.options;
        match stage {
            Stage::Unbound | Stage::Bound | Stage::Ended => Duration::ZERO,
            Stage::Creating => options.container_creation,
            Stage::Running if is_meant_to_end(pod) => run_time(pod).unwrap_or(options.run_time),
            Stage::Running => Duration::ZERO,
            Stage::BackingOff => backoff(options.restart_backoff, status::restarts(pod)),
            Stage::Deleting => {
                let grace = pod.number("/metadata/deletionGracePeriodSeconds");
                options.stop_time.min(Duration::from_secs(grace.unsigned_abs()))
            }
        }
    }

    /// How long a pod has been in its stage.
    fn time_in(&self, stage: Stage, pod: &Item) -> Duration {
        let mut since = self.since.lock();
        let begun = since
            .entry(pod.key())
            .or_insert_with(|| (pod.uid().to_owned(), stage, Instant::now()));
        if (&*begun.0, begun.1) != (pod.uid(), stage) {
            *begun = (pod.uid().to_owned(), stage, Instant::now());
        }
        begun.2.elapsed()
    }
}

/// Doubles with each restart, up to a point.
fn backoff(first: Duration, restarts: i64) -> Duration {
    const MOST: Duration = Duration::from_secs(300);
    let doubled = 2_u32.saturating_pow(u32::try_from(restarts.saturating_sub(1)).unwrap_or_default());
    first.saturating_mul(doubled).min(MOST)
}

/// Whether a pod's node is gone. The server has the last word: the cache may be behind.
async fn is_lost(cluster: &Cluster, pod: &Item) -> Result<bool, Error> {
    let node = pod.text("/spec/nodeName");
    if cluster.snapshot(&nodes()).find("", node).is_some() {
        return Ok(false);
    }
    match cluster.api(&nodes(), "").get(node).await {
        Err(error) if error.is_not_found() => Ok(true),
        found => found.map(|_| false),
    }
}

async fn stop(cluster: &Cluster, pod: &Item) -> Result<Action, Error> {
    if !is_kept_running(pod) && !has_ended(pod) {
        // Whoever counts how pods end is told how this one did.
        cluster
            .report(&pods(), pod, status::ended(pod, status::TERMINATED))
            .await?;
    }
    let is_stopped = pod.is_deleting() && pod.number("/metadata/deletionGracePeriodSeconds") == 0;
    // What is left of a pod that has been stopped is somebody's finalizer.
    if !is_stopped || pod.finalizers().is_empty() {
        cluster.delete(&pods(), pod, Some(0)).await?;
    }
    Ok(Action::Done)
}

fn is_kept_running(pod: &Item) -> bool {
    !matches!(pod.text("/spec/restartPolicy"), "Never" | "OnFailure")
}

fn is_meant_to_end(pod: &Item) -> bool {
    !is_kept_running(pod) || pod.annotation(EXIT_CODE).is_some()
}

fn is_restarted(pod: &Item) -> bool {
    is_kept_running(pod) || (pod.text("/spec/restartPolicy") == "OnFailure" && exit_code(pod) != 0)
}

fn exit_code(pod: &Item) -> i64 {
    let code = pod.annotation(EXIT_CODE);
    code.and_then(|code| code.parse().ok()).unwrap_or_default()
}

fn run_time(pod: &Item) -> Option<Duration> {
    let seconds = pod.annotation(RUN_SECONDS)?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn is_meant_ready(pod: &Item) -> bool {
    pod.annotation(READY).is_none_or(|ready| ready != "false")
}
