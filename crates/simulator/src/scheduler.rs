//! The scheduler: binds a pod without a node to the best node it fits on.
//!
//! ```text
//! pod ──▶ nodes that admit it ──▶ the best of them ──▶ bound
//!            └─ none ──▶ nodes where pods of a lower priority make room ──▶ those are deleted, the pod waits
//!                          └─ none ──▶ why, for each node, in its condition and an Event
//! ```
//!
//! [`fit`] decides what keeps a pod from a node, with Kubernetes' texts. Only pods of the default scheduler are
//! scheduled.

mod fit;
mod neighbours;
mod preemption;
mod sites;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use watchkeeper_client::Error;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Mapping, Request};
use watchkeeper_runtime::delta::Delta;
use watchkeeper_wire::Object;

use self::fit::{Candidate, Obstacle};
use self::sites::{Site, Sites};
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
    let controller = DynamicController::new("scheduler", waiting.clone(), options)
        .watches(cluster.informer(&nodes()), waiting_pods(cluster), None)
        .watches(waiting, waiting_pods(cluster), Some(Arc::new(makes_room)))
        .watches(cluster.informer(&claims()), waiting_pods(cluster), None);
    let sites = Arc::new(Sites::default());
    cluster.run(controller, move |cluster, request| {
        let sites = sites.clone();
        async move { schedule(&cluster, &sites, request).await }
    })
}

fn node_of(pod: &Object) -> Vec<String> {
    vec![Item::read(pod).text("/spec/nodeName").to_owned()]
}

/// Maps anything to the pending pods: it may have made room for them.
fn waiting_pods(cluster: &Cluster) -> Mapping {
    let store = cluster.informer(&pods()).store().clone();
    Arc::new(move |_| {
        let pods = store.snapshot();
        let waiting = pods.by_index(BY_NODE, "").into_iter().flatten();
        waiting.map(Object::key).collect()
    })
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
    let Some(pod) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let is_mine = matches!(pod.text("/spec/schedulerName"), "" | NAME);
    if !is_mine || is_bound(&pod) || !pod.list("/spec/schedulingGates").is_empty() {
        return Ok(Action::Done);
    }
    let sites = sites.see(cluster, &pod);
    let candidate = Candidate::new(cluster, &pod, &sites);
    let (mut fitting, mut obstacles) = (Vec::new(), BTreeMap::new());
    for site in &sites {
        match candidate.obstacle(site) {
            None => fitting.push(site),
            Some(obstacle) => drop(obstacles.insert(site.name().to_owned(), obstacle)),
        }
    }
    let best = fitting.into_iter().min_by_key(|site| candidate.rank(site));
    match best {
        Some(site) => bind(cluster, &pod, site.name()).await?,
        None => preempt_or_wait(cluster, &candidate, &sites, &obstacles).await?,
    }
    Ok(Action::Done)
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

/// Preempts pods of lower priority, or reports why the pod waits.
async fn preempt_or_wait(
    cluster: &Cluster,
    candidate: &Candidate<'_>,
    sites: &[Site],
    obstacles: &BTreeMap<String, Obstacle>,
) -> Result<(), Error> {
    let pod = candidate.pod;
    let mut status = json!({});
    let mut words = fit::words(candidate, obstacles, sites.len());
    match preemption::choose(candidate, sites, obstacles) {
        Ok(choice) => {
            status["nominatedNodeName"] = json!(choice.node);
            for victim in &choice.victims {
                evict(cluster, pod, victim, &choice.node).await?;
            }
        }
        Err(why) => words += &why,
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
