//! The scheduler: a pod without a node gets the node with the fewest pods of those that admit it.

use std::sync::Arc;

use serde_json::json;
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Mapping, Request};
use watchkeeper_wire::Object;

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::conditions::{self, Condition};
use crate::item::Item;
use crate::kinds::{nodes, pods};
use crate::placement::admits;

/// The index of pods by their node; those that have none are under no name.
pub(crate) const BY_NODE: &str = "node";

/// Binds pods to nodes.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let waiting = cluster.informer(&pods());
    // The scheduler is the first to ask for it.
    let _ = waiting.store().add_index(BY_NODE, node_of);
    // One at a time, so that each sees where the last one went.
    let options = ControllerOptions {
        workers: 1,
        ..Default::default()
    };
    let controller = DynamicController::new("scheduler", waiting, options).watches(
        cluster.informer(&nodes()),
        waiting_pods(cluster),
        None,
    );
    cluster.run(controller, schedule)
}

fn node_of(pod: &Object) -> Vec<String> {
    vec![Item::read(pod).text("/spec/nodeName").to_owned()]
}

/// Whatever happens to a node may make room for those that wait.
fn waiting_pods(cluster: &Cluster) -> Mapping {
    let store = cluster.informer(&pods()).store().clone();
    Arc::new(move |_| {
        let pods = store.snapshot();
        let waiting = pods.by_index(BY_NODE, "").into_iter().flatten();
        waiting.map(Object::key).collect()
    })
}

async fn schedule(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(pod) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    if is_bound(&pod) || !pod.list("/spec/schedulingGates").is_empty() {
        return Ok(Action::Done);
    }
    match emptiest_node(&cluster, &pod) {
        Some(node) => bind(&cluster, &pod, &node).await?,
        None => report_waiting(&cluster, &pod).await?,
    }
    Ok(Action::Done)
}

fn is_bound(pod: &Item) -> bool {
    !pod.text("/spec/nodeName").is_empty()
}

fn emptiest_node(cluster: &Cluster, pod: &Item) -> Option<String> {
    let (nodes, pods) = (cluster.snapshot(&nodes()), cluster.snapshot(&pods()));
    let nodes = nodes.iter().map(Item::read);
    let fitting = nodes.filter(|node| node.holds("Ready") && admits(node, &pod["spec"]));
    let load = |node: &Item| pods.by_index(BY_NODE, node.name()).into_iter().flatten().count();
    let node = fitting.min_by_key(|node| (load(node), node.name().to_owned()))?;
    Some(node.name().to_owned())
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
    ignore_gone(bound.map(drop))?;
    // The next pod is placed with this one in sight.
    let is_placed = |pod: &Object| pod.is_deleting() || is_bound(&Item::read(pod));
    cluster
        .see(&pods(), |pods| pods.get(&pod.key()).is_none_or(is_placed))
        .await;
    Ok(())
}

async fn report_waiting(cluster: &Cluster, pod: &Item) -> Result<(), Error> {
    let count = cluster.snapshot(&nodes()).len();
    let waiting = Condition {
        kind: "PodScheduled",
        holds: Some(false),
        reason: "Unschedulable",
        message: &format!("0/{count} nodes are available."),
    };
    let conditions = conditions::with(pod.list("/status/conditions"), waiting);
    cluster
        .report(&pods(), pod, json!({"conditions": conditions}))
        .await
}
