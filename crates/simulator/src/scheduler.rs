//! The scheduler: binds a pod without a node to the best node it fits on.
//!
//! ```text
//! pod ──▶ nodes that admit it ──▶ the best of them ──▶ bound
//!            └─ none ──▶ nodes where pods of a lower priority make room ──▶ those are deleted, the pod waits
//!                          └─ none ──▶ why, for each node, in its condition and an Event
//! ```
//!
//! [`fit`] decides what keeps a pod from a node, with Kubernetes' texts. Only pods of the default scheduler are
//! scheduled. Nodes are tried in the order of their number of pods, so a pod without preferences takes the first one it
//! fits on, however many there are; one with affinity or spread constraints is compared with the pods of all nodes.

mod fit;
mod neighbours;
mod preemption;
mod sites;

use std::sync::Arc;

use serde_json::json;
use watchkeeper_client::Error;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Mapping, Request};
use watchkeeper_runtime::delta::Delta;
use watchkeeper_wire::Object;

use self::fit::Candidate;
use self::preemption::Choice;
use self::sites::Sites;
use crate::cluster::{Cluster, Task, ignore_gone};
use crate::conditions::{self, Condition};
use crate::events;
use crate::item::Item;
use crate::kinds::{claims, nodes, pods};
use crate::pods::has_ended;

/// The index of pods by node; those without one are under the empty value.
pub(crate) const BY_NODE: &str = "node";
/// The name of this scheduler.
const NAME: &str = "default-scheduler";

/// Runs the scheduler.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let waiting = cluster.informer(&pods());
    // The scheduler is the first to add this index.
    let _ = waiting.store().add_index(BY_NODE, node_of);
    // One at a time, so that each pod sees where the last one went.
    let options = ControllerOptions {
        workers: 1,
        ..Default::default()
    };
    let sites = Arc::new(Sites::default());
    let controller = DynamicController::new("scheduler", waiting.clone(), options)
        .watches(cluster.informer(&nodes()), waiting_pods(&sites), None)
        .watches(waiting, waiting_pods(&sites), Some(Arc::new(makes_room)))
        .watches(cluster.informer(&claims()), waiting_pods(&sites), None);
    cluster.run(controller, move |cluster, request| {
        let sites = sites.clone();
        async move { schedule(&cluster, &sites, request).await }
    })
}

fn node_of(pod: &Object) -> Vec<String> {
    vec![Item::read(pod).text("/spec/nodeName").to_owned()]
}

/// Maps anything to the pods that found no node: it may have made room for them.
fn waiting_pods(sites: &Arc<Sites>) -> Mapping {
    let sites = sites.clone();
    Arc::new(move |_| sites.waiting())
}

/// True if a pod leaves a node, or may attract others by affinity.
fn makes_room(change: &Delta) -> bool {
    let is_running = |pod: &Object| {
        let pod = Item::read(pod);
        is_bound(&pod) && !has_ended(&pod)
    };
    match change {
        Delta::Added { .. } => false,
        Delta::Updated { old, new, .. } => is_running(old) != is_running(new),
        Delta::Deleted { old, .. } => is_running(old),
    }
}

async fn schedule(cluster: &Cluster, sites: &Sites, request: Request) -> Result<Action, Error> {
    let pod = Item::living(&request).filter(is_schedulable);
    sites.note(&request.key, pod.is_some());
    let Some(pod) = pod else {
        return Ok(Action::Done);
    };
    match decide(cluster, sites, &pod) {
        Decision::Bind { node } => {
            sites.note(&request.key, false);
            bind(cluster, &pod, &node).await?;
        }
        Decision::Wait { words, preempt } => preempt_and_wait(cluster, &pod, words, preempt).await?,
    }
    Ok(Action::Done)
}

/// True if a pod is this scheduler's, and has no node yet.
fn is_schedulable(pod: &Item) -> bool {
    let is_mine = matches!(pod.text("/spec/schedulerName"), "" | NAME);
    is_mine && !is_bound(pod) && pod.list("/spec/schedulingGates").is_empty()
}

enum Decision {
    Bind { node: String },
    Wait { words: String, preempt: Option<Choice> },
}

fn decide(cluster: &Cluster, sites: &Sites, pod: &Item) -> Decision {
    let sites = sites.see(cluster, pod);
    let candidate = Candidate::new(cluster, pod, &sites);
    let obstacles = match candidate.best(&sites) {
        Ok(site) => {
            let node = site.name().to_owned();
            return Decision::Bind { node };
        }
        Err(obstacles) => obstacles,
    };
    let mut words = fit::words(&candidate, &obstacles, sites.len());
    let choice = preemption::choose(&candidate, &sites, &obstacles);
    let preempt = choice.map_err(|why| words += &why).ok();
    Decision::Wait { words, preempt }
}

fn is_bound(pod: &Item) -> bool {
    !pod.text("/spec/nodeName").is_empty()
}

async fn bind(cluster: &Cluster, pod: &Item, node: &str) -> Result<(), Error> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let api = cluster.api(&pods(), pod.namespace()).subresource("binding");
    let bound = api.post(pod.name(), &binding).await;
    let is_bound_now = bound.is_ok();
    ignore_gone(bound.map(drop))?;
    if is_bound_now {
        let words = format!(
            "Successfully assigned {}/{} to {node}",
            pod.namespace(),
            pod.name()
        );
        cluster.events.normal(events::SCHEDULER, pod, "Scheduled", words);
    }
    // The next pod is placed with this one in the store.
    let is_placed = |pod: &Object| pod.is_deleting() || is_bound(&Item::read(pod));
    cluster
        .see(&pods(), |pods| pods.get(&pod.key()).is_none_or(is_placed))
        .await;
    Ok(())
}

/// Preempts pods of lower priority, if that helps, and reports why the pod waits.
async fn preempt_and_wait(
    cluster: &Cluster,
    pod: &Item,
    words: String,
    preempt: Option<Choice>,
) -> Result<(), Error> {
    let mut status = json!({});
    if let Some(choice) = preempt {
        status["nominatedNodeName"] = json!(choice.node);
        for victim in &choice.victims {
            evict(cluster, pod, victim, &choice.node).await?;
        }
    }
    let waiting = Condition {
        kind: "PodScheduled",
        holds: Some(false),
        reason: "Unschedulable",
        message: &words,
    };
    status["conditions"] = json!(conditions::with(pod.list("/status/conditions"), waiting));
    if !pod.says(&status) {
        cluster
            .events
            .warning(events::SCHEDULER, pod, "FailedScheduling", words.clone());
    }
    cluster.report(&pods(), pod, status).await
}

/// Deletes a pod to make room for another.
async fn evict(cluster: &Cluster, pod: &Item, victim: &ObjectKey, node: &str) -> Result<(), Error> {
    let known = cluster.snapshot(&pods());
    let Some(victim) = known
        .get(victim)
        .map(Item::read)
        .filter(|victim| !victim.is_deleting())
    else {
        return Ok(());
    };
    let preempted = Condition {
        kind: "DisruptionTarget",
        holds: Some(true),
        reason: "PreemptionByScheduler",
        message: "default-scheduler: preempting to accommodate a higher priority pod",
    };
    let conditions = conditions::with(victim.list("/status/conditions"), preempted);
    let status = json!({"conditions": conditions});
    cluster.report(&pods(), &victim, status).await?;
    cluster.delete(&pods(), &victim, None).await?;
    let words = format!("Preempted by pod {} on node {node}", pod.uid());
    cluster
        .events
        .normal(events::SCHEDULER, &victim, "Preempted", words);
    Ok(())
}
