//! Nodes: they register, are Ready, and say so again and again.
//!
//! Every node object is kept alive, also one that somebody else has created. One that is deleted stays away.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::PatchKind;
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Task};
use crate::conditions::{self, Condition};
use crate::item::Item;
use crate::kinds::{leases, nodes};
use crate::time;

/// 10 s, as kubelets: how often a node renews its lease.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// 40 s, as kubelets: how long a lease holds.
const LEASE_SECONDS: i64 = 40;
/// How long to wait before another attempt to register.
const PATIENCE: Duration = Duration::from_secs(1);

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// What a node has until it is ready for the first time.
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
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
    });
    match cluster.create(&nodes(), "", node).await {
        Err(error) if error.is_already_exists() => Ok(()),
        created => created.map(drop),
    }
}

async fn beat(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(node) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    cluster.report(&nodes(), &node, status(&node)).await?;
    let taints = node.list("/spec/taints").iter();
    let left: Vec<&Value> = taints.filter(|taint| taint["key"] != NOT_READY).collect();
    if left.len() < node.list("/spec/taints").len() {
        cluster
            .merge(&nodes(), &node, json!({"spec": {"taints": left}}))
            .await?;
    }
    renew_lease(&cluster, &node).await?;
    Ok(Action::After(HEARTBEAT))
}

fn status(node: &Item) -> Value {
    let size = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
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
            "architecture": "amd64",
            "bootID": node.uid(),
            "containerRuntimeVersion": "watchkeeper://simulated",
            "kernelVersion": "0",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.37.0",
            "machineID": node.uid(),
            "operatingSystem": "linux",
            "osImage": "simulated",
            "systemUUID": node.uid(),
        },
    })
}

/// `node-7` is 192.0.2.17; others get what their name adds up to.
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
        message: "the simulated node is ready",
    };
    let mut all = node.list("/status/conditions").to_vec();
    for (kind, reason, message) in [
        ("MemoryPressure", "KubeletHasSufficientMemory", "there is memory"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "there is room"),
        (
            "PIDPressure",
            "KubeletHasSufficientPID",
            "there are numbers for processes",
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
