//! Nodes: they register, are Ready, and say so again and again.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_meta::{ObjectKey, Time};

use crate::cluster::{Cluster, nodes, now, resource};
use crate::futures::Task;

/// 10 s, as kubelets: how often a node renews its lease.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// 40 s, as kubelets: how long a lease holds.
const LEASE_SECONDS: i64 = 40;

/// Registers the nodes and keeps them alive.
pub(crate) fn run(cluster: Cluster, count: usize, stop: CancellationToken) -> Task {
    Box::pin(async move {
        let names: Vec<String> = (1..=count).map(|number| format!("node-{number}")).collect();
        loop {
            for (index, name) in names.iter().enumerate() {
                if let Err(error) = report(&cluster, name, index).await {
                    tracing::warn!(node = name, %error, "node cannot report");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
        }
    })
}

async fn report(cluster: &Cluster, name: &str, index: usize) -> Result<(), Error> {
    let key = ObjectKey::new("", name);
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "addresses": [
                {"type": "InternalIP", "address": format!("192.0.2.{}", index + 10)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [ready()],
            "nodeInfo": {
                "kubeletVersion": "v1.37.0",
                "containerRuntimeVersion": "watchkeeper://simulated",
                "osImage": "simulated",
                "kernelVersion": "0",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    });
    match cluster.create(&nodes(), "", node).await {
        // A node is not ready when it registers; now it is.
        Ok(_) => drop(
            cluster
                .merge(&nodes(), &key, None, json!({"spec": {"taints": null}}))
                .await?,
        ),
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error),
    }
    renew_lease(cluster, name).await
}

/// Nodes say when they were last heard of, where pods say when they were probed.
fn ready() -> Value {
    let now = now();
    json!({
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the simulated node is ready",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    })
}

async fn renew_lease(cluster: &Cluster, name: &str) -> Result<(), Error> {
    let leases = resource("coordination.k8s.io", "v1", "leases");
    let now = Time::from(jiff::Timestamp::now()).to_rfc3339_micro();
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now});
    let key = ObjectKey::new("kube-node-lease", name);
    match cluster.merge(&leases, &key, None, json!({"spec": spec})).await {
        Err(error) if error.is_not_found() => {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name},
                "spec": spec,
            });
            cluster.create(&leases, key.namespace(), lease).await.map(drop)
        }
        renewed => renewed.map(drop),
    }
}
