//! The scheduler: a pod without a node gets the node with the fewest pods.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_meta::CreateOptions;
use watchkeeper_runtime::controller::{Action, ControllerOptions, Request};
use watchkeeper_wire::Object;

use crate::cluster::{Cluster, Reconcile, holds, ignore_gone, nodes, pods, value};
use crate::futures::Task;

/// How long a pod that fits nowhere waits until it is tried again.
const NOWHERE: std::time::Duration = std::time::Duration::from_millis(250);

/// Binds pods to nodes.
pub(crate) fn run(cluster: Cluster, stop: CancellationToken) -> Task {
    Box::pin(async move {
        let reconciler = {
            let cluster = cluster.clone();
            Reconcile(move |request| schedule(cluster.clone(), request))
        };
        // One at a time, so that each sees where the last one went.
        let options = ControllerOptions {
            workers: 1,
            ..Default::default()
        };
        cluster
            .control_with(options, "scheduler", &pods(), &[], reconciler, stop)
            .await;
    })
}

async fn schedule(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(pod) = request.object else {
        return Ok(Action::Done);
    };
    if pod.is_deleting() || is_bound(&value(&pod)) {
        return Ok(Action::Done);
    }
    let Some(node) = emptiest_node(&cluster).await else {
        return Ok(Action::After(NOWHERE));
    };
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let api = cluster.api(&pods(), pod.namespace()).subresource("binding");
    let bound = api.post(pod.name(), &binding, &CreateOptions::default()).await;
    ignore_gone(bound.map(drop))?;
    // The next pod is placed with this one in sight.
    let key = pod.key();
    cluster
        .informer(&pods())
        .store()
        .wait_until(|pods| pods.get(&key).is_none_or(|pod| is_bound(&value(pod))))
        .await;
    Ok(Action::Done)
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty())
}

async fn emptiest_node(cluster: &Cluster) -> Option<String> {
    let nodes = cluster.informer(&nodes()).store().synced().await;
    let pods = cluster.informer(&pods()).store().snapshot();
    let ready = nodes.iter().filter(|node| {
        let node = value(node);
        holds(&node, "Ready") && node["spec"]["unschedulable"] != true
    });
    let load = |node: &Object| {
        pods.iter()
            .filter(|pod| value(pod)["spec"]["nodeName"].as_str() == Some(node.name()))
            .count()
    };
    ready
        .min_by_key(|node| (load(node), node.name().to_owned()))
        .map(|node| node.name().to_owned())
}
