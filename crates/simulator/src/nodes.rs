//! Nodes: register, become Ready, and renew their leases.
//!
//! Every node object is kept alive, also those created by others. A deleted one is not recreated, unless the scenario
//! has preempted it. A healthy node costs one small request per heartbeat, and heartbeats are rarer in a cluster with
//! more nodes than [`BEATS_PER_SECOND`] can serve.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_client::Error;
use watchkeeper_meta::{ObjectKey, PatchKind};
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_runtime::recorder::EventType;
use watchkeeper_wire::{Object, ObjectOptions};

use crate::cluster::{Cluster, Task};
use crate::conditions::{self, Condition};
use crate::events::{self, note};
use crate::item::Item;
use crate::kinds::{leases, nodes};
use crate::placement::UNSCHEDULABLE;
use crate::scenario::{NodeState, Scenario};
use crate::{SimulatorOptions, stages, time};

/// The interval of lease renewals, as in kubelets.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The most heartbeats per second. With more than ten thousand nodes, they are less frequent than a kubelet's.
const BEATS_PER_SECOND: usize = 1000;
/// The duration of a lease in heartbeats, as in kubelets: 40 seconds.
const LEASE_BEATS: u64 = 4;
/// The interval at which nodes are looked at while a scenario may change them.
const LOOK: Duration = Duration::from_secs(5);
/// The number of nodes that register at the same time.
const REGISTERING: usize = 16;
/// The delay before another attempt to register.
const PATIENCE: Duration = Duration::from_secs(1);

const ARCHITECTURE: &str = "amd64";
const OPERATING_SYSTEM: &str = "linux";
/// The region of all simulated nodes.
const REGION: &str = "simulated";

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The taint of a node until it is ready for the first time.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The taint of a node that cannot be reached.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a node that will be taken away.
const PREEMPTION: &str = "simulator.watchkeeper/preemption";

/// Registers nodes and keeps them alive.
pub(crate) fn run(cluster: &Cluster, options: &SimulatorOptions) -> Task {
    let heart = Arc::new(Heart {
        is_staged: stages::staged(&options.stages).contains(&nodes()),
        scenario: options.scenario.clone(),
        started: Instant::now(),
        settled: Mutex::default(),
        preempted: Mutex::default(),
    });
    let beating = cluster.run(cluster.controller("nodes", &nodes()), move |cluster, request| {
        let heart = heart.clone();
        async move { heart.beat(&cluster, request).await }
    });
    let (cluster, count) = (cluster.clone(), options.nodes);
    Box::pin(async move {
        tokio::join!(beating, register_all(&cluster, count));
    })
}

async fn register_all(cluster: &Cluster, count: usize) {
    let numbers = futures_util::stream::iter(1..=count);
    numbers
        .for_each_concurrent(REGISTERING, |number| register_until_done(cluster, number))
        .await;
}

async fn register_until_done(cluster: &Cluster, number: usize) {
    while let Err(error) = register(cluster, &format!("node-{number}"), number).await {
        tracing::warn!(node = number, %error, "node cannot register");
        tokio::select! {
            () = cluster.stop.cancelled() => return,
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }
}

async fn register(cluster: &Cluster, name: &str, number: usize) -> Result<(), Error> {
    let labels = labels(name, number);
    let node = json!({"metadata": {"name": name, "labels": labels}});
    match cluster.create(&nodes(), "", node).await {
        // It was registered before, perhaps with fewer labels.
        Err(error) if error.is_already_exists() => {
            let patch = json!({"metadata": {"labels": labels}});
            let patched = cluster
                .api(&nodes(), "")
                .patch(name, PatchKind::Merge, &patch)
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

/// Keeps nodes alive, or not, as the scenario says.
struct Heart {
    /// The status is the business of stages.
    is_staged: bool,
    scenario: Scenario,
    /// The time from which the scenario counts.
    started: Instant,
    /// The versions at which nodes say what they should: only their leases have to be renewed.
    settled: Mutex<HashMap<ObjectKey, String>>,
    preempted: Mutex<HashSet<ObjectKey>>,
}

impl Heart {
    async fn beat(&self, cluster: &Cluster, request: Request) -> Result<Action, Error> {
        let Some(object) = request.object.as_ref().filter(|node| !node.is_deleting()) else {
            self.settled.lock().remove(&request.key);
            return self.come_back(cluster, &request.key).await;
        };
        let state = self.scenario.node(object, self.started.elapsed());
        let is_settled = || {
            self.settled
                .lock()
                .get(&request.key)
                .is_some_and(|at| at == object.resource_version())
        };
        if state != NodeState::Up || !is_settled() {
            let node = Item::read(object);
            if state == NodeState::Preempted {
                self.preempted.lock().insert(request.key.clone());
                cluster.delete(&nodes(), &node, None).await?;
                return Ok(Action::After(LOOK));
            }
            self.settle(cluster, &node, state).await?;
        }
        let interval = interval(cluster);
        if state != NodeState::Down {
            renew_lease(cluster, object, interval).await?;
        }
        Ok(Action::After(match self.scenario.is_empty() {
            true => interval,
            false => interval.min(LOOK),
        }))
    }

    /// Brings status and taints in line with the state of a node.
    async fn settle(&self, cluster: &Cluster, node: &Item, state: NodeState) -> Result<(), Error> {
        if !self.is_staged {
            cluster.report(&nodes(), node, status(node, state)).await?;
            tell(cluster, node, state);
        }
        let taints = taints(node, state);
        if node.list("/spec/taints") != taints {
            cluster
                .merge(&nodes(), node, json!({"spec": {"taints": taints}}))
                .await?;
        }
        let mut settled = self.settled.lock();
        match state {
            // The store shows what was written: the node is settled at the version it has there.
            NodeState::Up => {
                let known = cluster.snapshot(&nodes());
                let version = known
                    .find("", node.name())
                    .map(|node| node.resource_version().to_owned());
                settled.insert(node.key(), version.unwrap_or_default());
            }
            _ => drop(settled.remove(&node.key())),
        }
        Ok(())
    }

    /// Registers a preempted node again when the scenario gives it back.
    async fn come_back(&self, cluster: &Cluster, key: &ObjectKey) -> Result<Action, Error> {
        if !self.preempted.lock().contains(key) {
            return Ok(Action::Done);
        }
        let absent = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name()}});
        let absent = Object::from_json(absent.to_string().as_bytes(), &ObjectOptions::default());
        let state = absent.map_or(NodeState::Up, |node| {
            self.scenario.node(&node, self.started.elapsed())
        });
        if state == NodeState::Preempted {
            return Ok(Action::After(LOOK));
        }
        let number = key
            .name()
            .rsplit_once('-')
            .and_then(|(_, number)| number.parse().ok());
        register(cluster, key.name(), number.unwrap_or_default()).await?;
        self.preempted.lock().remove(key);
        Ok(Action::Done)
    }
}

/// The interval of heartbeats: that of kubelets, or longer in a cluster with very many nodes.
fn interval(cluster: &Cluster) -> Duration {
    let count = cluster.snapshot(&nodes()).len();
    HEARTBEAT.max(Duration::from_secs((count / BEATS_PER_SECOND) as u64))
}

/// The taints of a node: more while it is cordoned or in trouble.
fn taints(node: &Item, state: NodeState) -> Vec<Value> {
    let is_cordoned = node.at("/spec/unschedulable") == true;
    let wanted: Vec<(&str, &str)> = [
        (is_cordoned, UNSCHEDULABLE, "NoSchedule"),
        (state == NodeState::Down, UNREACHABLE, "NoSchedule"),
        (state == NodeState::Down, UNREACHABLE, "NoExecute"),
        (state == NodeState::Noticed, PREEMPTION, "NoSchedule"),
    ]
    .into_iter()
    .filter_map(|(is_wanted, key, effect)| is_wanted.then_some((key, effect)))
    .collect();
    let is = |taint: &Value, (key, effect): (&str, &str)| taint["key"] == key && taint["effect"] == effect;
    let own = [NOT_READY, UNSCHEDULABLE, UNREACHABLE, PREEMPTION];
    let mut taints = node.list("/spec/taints").to_vec();
    taints.retain(|taint| {
        let is_own = own.iter().any(|key| taint["key"] == *key);
        !is_own || wanted.iter().any(|wanted| is(taint, *wanted))
    });
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| is(taint, (key, effect))) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": time::timestamp()}));
        }
    }
    taints
}

/// Records an Event when a node has become ready, or no longer is.
fn tell(cluster: &Cluster, node: &Item, state: NodeState) {
    if state == NodeState::Down {
        if node.holds("Ready") {
            let words = format!("Node {} status is now: NodeNotReady", node.name());
            cluster.events.normal(events::NODES, node, "NodeNotReady", words);
        }
        return;
    }
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

fn status(node: &Item, state: NodeState) -> Value {
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
        "conditions": conditions(node, state),
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

fn conditions(node: &Item, state: NodeState) -> Vec<Value> {
    let ready = match state {
        NodeState::Down => Condition {
            kind: "Ready",
            holds: None,
            reason: "NodeStatusUnknown",
            message: "Kubelet stopped posting node status.",
        },
        _ => Condition {
            kind: "Ready",
            holds: Some(true),
            reason: "KubeletReady",
            message: "kubelet is posting ready status",
        },
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

async fn renew_lease(cluster: &Cluster, node: &Object, interval: Duration) -> Result<(), Error> {
    let (now, seconds) = (time::now().to_rfc3339_micro(), interval.as_secs() * LEASE_BEATS);
    let spec = json!({"holderIdentity": node.name(), "leaseDurationSeconds": seconds, "renewTime": now});
    let api = cluster.api(&leases(), LEASE_NAMESPACE);
    let patch = json!({"spec": spec});
    let renewed = api.patch(node.name(), PatchKind::Merge, &patch).await;
    match renewed {
        Err(error) if error.is_not_found() => {
            let owner = Item::read(node).as_owner();
            let metadata = json!({"name": node.name(), "ownerReferences": [owner]});
            let lease = json!({"metadata": metadata, "spec": spec});
            cluster.create(&leases(), LEASE_NAMESPACE, lease).await.map(drop)
        }
        renewed => renewed.map(drop),
    }
}
