//! Nodes: register, become Ready, and renew their leases.
//!
//! Every node object is kept alive, also those created by others. A deleted one is not recreated.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::PatchKind;
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_runtime::recorder::EventType;

use crate::cluster::{Cluster, Task};
use crate::conditions::{self, Condition};
use crate::events::{self, note};
use crate::item::Item;
use crate::kinds::{leases, nodes};
use crate::placement::UNSCHEDULABLE;
use crate::time;

/// The interval of lease renewals, as in kubelets.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The duration of a lease, as in kubelets.
const LEASE_SECONDS: i64 = 40;
/// The delay before another attempt to register.
const PATIENCE: Duration = Duration::from_secs(1);

const ARCHITECTURE: &str = "amd64";
const OPERATING_SYSTEM: &str = "linux";
/// The region of all simulated nodes.
const REGION: &str = "simulated";

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The taint of a node until it is ready for the first time.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Registers nodes and keeps them alive.
pub(crate) fn run(cluster: &Cluster, count: usize) -> Task {
    let heart = cluster.run(cluster.controller("nodes", &nodes()), beat);
    let cluster = cluster.clone();
    Box::pin(async move {
        tokio::join!(heart, register_all(&cluster, count));
    })
}

async fn register_all(cluster: &Cluster, count: usize) {
    for number in 1..=count {
        while let Err(error) = register(cluster, number).await {
            tracing::warn!(node = number, %error, "node cannot register");
            tokio::select! {
                () = cluster.stop.cancelled() => return,
                () = tokio::time::sleep(PATIENCE) => {}
            }
        }
    }
}

async fn register(cluster: &Cluster, number: usize) -> Result<(), Error> {
    let name = format!("node-{number}");
    let labels = labels(&name, number);
    let node = json!({"metadata": {"name": name, "labels": labels}});
    match cluster.create(&nodes(), "", node).await {
        // It was registered before, perhaps with fewer labels.
        Err(error) if error.is_already_exists() => {
            let patch = json!({"metadata": {"labels": labels}});
            let patched = cluster
                .api(&nodes(), "")
                .patch(&name, PatchKind::Merge, &patch)
                .await;
            patched.map(drop)
        }
        Err(error) => Err(error),
        Ok(node) => {
            let words = format!("Node {name} event: Registered Node {name} in Controller");
            cluster
                .events
                .normal(events::NODES, &node, "RegisteredNode", words);
            Ok(())
        }
    }
}

/// The well-known labels of a node. Nodes alternate between three zones.
fn labels(name: &str, number: usize) -> Value {
    let zone = ["c", "a", "b"][number % 3];
    json!({
        "beta.kubernetes.io/arch": ARCHITECTURE,
        "beta.kubernetes.io/os": OPERATING_SYSTEM,
        "kubernetes.io/arch": ARCHITECTURE,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": OPERATING_SYSTEM,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": format!("{REGION}-{zone}"),
    })
}

async fn beat(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(node) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    cluster.report(&nodes(), &node, status(&node)).await?;
    tell(&cluster, &node);
    let taints = taints(&node);
    if node.list("/spec/taints") != taints {
        cluster
            .merge(&nodes(), &node, json!({"spec": {"taints": taints}}))
            .await?;
    }
    renew_lease(&cluster, &node).await?;
    Ok(Action::After(HEARTBEAT))
}

/// The taints of a ready node: one more while it is cordoned.
fn taints(node: &Item) -> Vec<Value> {
    let is_cordoned = node.at("/spec/unschedulable") == true;
    let mut taints = node.list("/spec/taints").to_vec();
    taints.retain(|taint| taint["key"] != NOT_READY && (is_cordoned || taint["key"] != UNSCHEDULABLE));
    if is_cordoned && !taints.iter().any(|taint| taint["key"] == UNSCHEDULABLE) {
        let now = time::timestamp();
        taints.push(json!({"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": now}));
    }
    taints
}

/// Records an Event when a node has become ready.
fn tell(cluster: &Cluster, node: &Item) {
    if node.holds("Ready") {
        return;
    }
    let voice = cluster.events.voice(events::KUBELET).on_host(node.name());
    for reason in [
        "NodeHasSufficientMemory",
        "NodeHasNoDiskPressure",
        "NodeHasSufficientPID",
        "NodeReady",
    ] {
        let words = format!("Node {} status is now: {reason}", node.name());
        voice.record(node, note(EventType::Normal, reason, words));
    }
}

fn status(node: &Item) -> Value {
    // As KWOK's nodes: enough capacity for usual requests.
    let size = json!({"cpu": "32", "ephemeral-storage": "1Ti", "memory": "256Gi", "pods": "110"});
    let own = |name: &str, value: Value| match node["status"][name].is_null() {
        true => value,
        false => node["status"][name].clone(),
    };
    json!({
        "capacity": own("capacity", size.clone()),
        "allocatable": own("allocatable", size),
        "addresses": own("addresses", json!([
            {"type": "InternalIP", "address": address(node.name())},
            {"type": "Hostname", "address": node.name()},
        ])),
        "conditions": conditions(node),
        "nodeInfo": {
            "architecture": ARCHITECTURE,
            "bootID": node.uid(),
            "containerRuntimeVersion": "watchkeeper://simulated",
            "kernelVersion": "0",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.37.0",
            "machineID": node.uid(),
            "operatingSystem": OPERATING_SYSTEM,
            "osImage": "simulated",
            "systemUUID": node.uid(),
        },
    })
}

/// `node-7` is 192.0.2.17; other names are hashed.
fn address(name: &str) -> String {
    let number = name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    let sum = || name.bytes().map(usize::from).sum();
    let last: usize = number.unwrap_or_else(sum);
    format!("192.0.2.{}", (last + 10) % 250)
}

fn conditions(node: &Item) -> Vec<Value> {
    let ready = Condition {
        kind: "Ready",
        holds: Some(true),
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
    };
    let mut all = node.list("/status/conditions").to_vec();
    for (kind, reason, message) in [
        (
            "MemoryPressure",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
    ] {
        let holds = Some(false);
        all = conditions::with(
            &all,
            Condition {
                kind,
                holds,
                reason,
                message,
            },
        );
    }
    all = conditions::with(&all, ready);
    for condition in all
        .iter_mut()
        .filter(|known| known["lastHeartbeatTime"].is_null())
    {
        condition["lastHeartbeatTime"] = condition["lastTransitionTime"].clone();
    }
    all
}

async fn renew_lease(cluster: &Cluster, node: &Item) -> Result<(), Error> {
    let now = time::now().to_rfc3339_micro();
    let spec =
        json!({"holderIdentity": node.name(), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now});
    let api = cluster.api(&leases(), LEASE_NAMESPACE);
    let patch = json!({"spec": spec});
    let renewed = api.patch(node.name(), PatchKind::Merge, &patch).await;
    match renewed {
        Err(error) if error.is_not_found() => {
            let metadata = json!({"name": node.name(), "ownerReferences": [node.as_owner()]});
            let lease = json!({"metadata": metadata, "spec": spec});
            cluster.create(&leases(), LEASE_NAMESPACE, lease).await.map(drop)
        }
        renewed => renewed.map(drop),
    }
}
