//! `metrics.k8s.io` for `kubectl top`: the simulated usage of pods and nodes, as `PodMetrics` and `NodeMetrics`.
//!
//! The group is served from custom resource definitions; a real metrics server would replace them. An object is
//! written when its content changes, not periodically: simulated usage is exact and does not become stale.

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::{ObjectKey, Resource, Scope};
use watchkeeper_runtime::controller::{Action, Mapping, Request};
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::garbage::established;
use crate::item::Item;
use crate::kinds::{custom_resource_definitions, nodes, pods};
use crate::pod_control::is_namespace_terminating;
use crate::scheduler::BY_NODE;
use crate::{time, usage};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// The stated measurement window.
const WINDOW: &str = "15s";

fn pod_metrics() -> Resource {
    Resource::namespaced(GROUP, VERSION, "PodMetrics", "pods")
}

fn node_metrics() -> Resource {
    Resource {
        kind: "NodeMetrics".into(),
        plural: "nodes".into(),
        scope: Scope::Cluster,
        ..pod_metrics()
    }
}

/// Defines the kinds and runs the controllers.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let cluster = cluster.clone();
    Box::pin(async move {
        let defined = async {
            for resource in [pod_metrics(), node_metrics()] {
                define(&cluster, &resource).await;
            }
        };
        tokio::select! {
            () = cluster.stop.cancelled() => return,
            () = defined => {}
        }
        tokio::join!(run_pods(&cluster), run_nodes(&cluster));
    })
}

/// Defines a kind, and waits until it is served.
async fn define(cluster: &Cluster, resource: &Resource) {
    let name = resource.group_resource().to_string();
    let kinds = custom_resource_definitions();
    match cluster.create(&kinds, "", definition(resource)).await {
        Err(error) if !error.is_already_exists() => {
            tracing::warn!(%error, name, "metrics are not served");
            cluster.stop.cancelled().await;
        }
        _ => {
            let is_served = |name: &str, kinds: &watchkeeper_runtime::store::Snapshot| {
                kinds.find("", name).and_then(established).is_some()
            };
            cluster.see(&kinds, |kinds| is_served(&name, kinds)).await;
        }
    }
}

fn definition(resource: &Resource) -> Value {
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let columns = match resource.scope {
        Scope::Cluster => json!([
            column("cpu", ".usage.cpu"),
            column("memory", ".usage.memory"),
            column("window", ".window"),
        ]),
        Scope::Namespaced => json!([
            column("cpu", ".containers[*].usage.cpu"),
            column("memory", ".containers[*].usage.memory"),
            column("window", ".window"),
        ]),
    };
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {
            "name": resource.group_resource().to_string(),
            "annotations": {"api-approved.kubernetes.io": "unapproved, simulated metrics"},
        },
        "spec": {
            "group": resource.group,
            "scope": match resource.scope { Scope::Cluster => "Cluster", Scope::Namespaced => "Namespaced" },
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": columns,
            }],
        },
    })
}

fn run_pods(cluster: &Cluster) -> Task {
    let same_name: Mapping = Arc::new(|metrics| vec![metrics.key()]);
    let controller =
        cluster
            .controller("pod-metrics", &pods())
            .watches(cluster.informer(&pod_metrics()), same_name, None);
    cluster.run(controller, measure_pod)
}

fn run_nodes(cluster: &Cluster) -> Task {
    let node_of: Mapping = Arc::new(|pod| {
        let node = Item::read(pod).text("/spec/nodeName").to_owned();
        let key = (!node.is_empty()).then(|| ObjectKey::new("", &node));
        key.into_iter().collect()
    });
    let controller =
        cluster
            .controller("node-metrics", &nodes())
            .watches(cluster.informer(&pods()), node_of, None);
    cluster.run(controller, measure_node)
}

async fn measure_pod(cluster: Cluster, request: Request) -> Result<Action, Error> {
    // The metrics of a deleted pod are garbage collected.
    let Some(pod) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    if pod.text("/status/phase") != "Running" {
        let known = cluster.snapshot(&pod_metrics());
        if let Some(known) = known.get(&pod.key()) {
            cluster.delete(&pod_metrics(), known, None).await?;
        }
        return Ok(Action::Done);
    }
    let containers = pod.list("/spec/containers").iter().map(|container| {
        let used = |resource: &str| usage::of_container(&pod, container, resource).unwrap_or_default();
        json!({"name": container["name"], "usage": amounts(used("cpu"), used("memory"))})
    });
    let containers: Vec<Value> = containers.collect();
    write(&cluster, &pod_metrics(), &pod, "containers", json!(containers)).await
}

async fn measure_node(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(node) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let known = cluster.snapshot(&pods());
    let there = known
        .by_index(BY_NODE, node.name())
        .into_iter()
        .flatten()
        .map(Item::read);
    let (mut cpu, mut memory) = (0, 0);
    for pod in there.filter(|pod| pod.text("/status/phase") == "Running") {
        for container in pod.list("/spec/containers") {
            cpu += usage::of_container(&pod, container, "cpu").unwrap_or_default();
            memory += usage::of_container(&pod, container, "memory").unwrap_or_default();
        }
    }
    write(&cluster, &node_metrics(), &node, "usage", amounts(cpu, memory)).await
}

/// Thousandths as quantities.
fn amounts(cpu: i64, memory: i64) -> Value {
    json!({
        "cpu": Quantity::from_milli(cpu, QuantityFormat::DecimalSi).to_string(),
        "memory": Quantity::new(memory / 1000, QuantityFormat::BinarySi).to_string(),
    })
}

/// Writes the metrics of an object, unless they are unchanged.
async fn write(
    cluster: &Cluster,
    resource: &Resource,
    measured: &Item,
    field: &str,
    used: Value,
) -> Result<Action, Error> {
    let known = cluster.snapshot(resource);
    let written = match known.get(&measured.key()).map(Item::read) {
        Some(known) if known[field] == used => return Ok(Action::Done),
        Some(known) => {
            let replaced = cluster.replace(resource, &known, |metrics| {
                metrics[field] = used;
                metrics["timestamp"] = json!(time::timestamp());
            });
            ignore_gone(replaced.await.map(drop))
        }
        None => {
            let metrics = json!({
                "metadata": {
                    "name": measured.name(),
                    "labels": measured["metadata"]["labels"],
                    "ownerReferences": [measured.as_owner()],
                },
                "timestamp": time::timestamp(),
                "window": WINDOW,
                field: used,
            });
            let created = cluster.create(resource, measured.namespace(), metrics).await;
            created.map(drop)
        }
    };
    match written {
        Err(error) if is_namespace_terminating(&error) || error.is_already_exists() => Ok(Action::Done),
        written => written.map(|()| Action::Done),
    }
}
