//! Daemon sets: a pod on every matching node.
//!
//! The affinity of each pod names its node, so the scheduler has no choice. [`plan`] decides what to create and
//! delete.

mod plan;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};

use self::plan::{Place, Step, Wish};
use crate::cluster::{Cluster, Task};
use crate::events;
use crate::item::Item;
use crate::kinds::{controller_revisions, daemon_sets, nodes, pods};
use crate::placement::{admits, matches, tolerates};
use crate::pod_control::{self, is_namespace_terminating};
use crate::pods::{from_template, next_available};
use crate::revisions::{self, HASH_LABEL, Revisions};

/// The tolerations of daemon pods: they may be what makes the node ready.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("daemon-sets", &daemon_sets())
        .owns(cluster.informer(&pods()), &daemon_sets())
        .watches(cluster.informer(&pods()), cluster.adopting(&daemon_sets()), None)
        .owns(cluster.informer(&controller_revisions()), &daemon_sets())
        .watches(cluster.informer(&nodes()), cluster.all_of(&daemon_sets()), None);
    cluster.run(controller, reconcile)
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(set) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let revisions = Revisions::of(&cluster, &set).await?;
    let hash = revisions::hash(revisions.latest());
    let spec = with_tolerations(&set["spec"]["template"]["spec"]);
    cluster.claim(&set, &pods(), |_| true).await?;
    let places = places(&cluster, &set, &spec, &hash);
    let wish = Wish::of(&set, &places);
    for step in plan::steps(&wish, &places) {
        match step {
            Step::Create(node) => create(&cluster, &set, &spec, &hash, node).await?,
            Step::Delete(pod) => pod_control::delete(&cluster, events::DAEMON_SETS, &set, pod).await?,
        }
    }
    let present = cluster.controlled_by(&set, &pods());
    let is_used = |revision: &Item| present.iter().any(|pod| is_of(pod, &revisions::hash(revision)));
    revisions.trim(&cluster, &set, is_used).await?;
    let places = self::places(&cluster, &set, &spec, &hash);
    cluster
        .report(&daemon_sets(), &set, plan::status(&set, &wish, &places))
        .await?;
    let next = next_available(&present, wish.min_ready_seconds);
    Ok(next.map_or(Action::Done, Action::After))
}

fn is_of(pod: &Item, hash: &str) -> bool {
    pod.label(HASH_LABEL).is_some_and(|own| own == hash)
}

/// All nodes with the pods of a set. Pods of deleted nodes are removed elsewhere.
fn places(cluster: &Cluster, set: &Item, spec: &Value, hash: &str) -> Vec<Place> {
    let mut pods = cluster.controlled_by(set, &pods());
    pods.sort_by_key(|pod| (pod.creation_timestamp(), pod.name().to_owned()));
    let place = |node: Item| {
        let (own, others) = std::mem::take(&mut pods)
            .into_iter()
            .partition(|pod| target(pod) == node.name());
        pods = others;
        let (new, old) = Vec::into_iter(own).partition(|pod| is_of(pod, hash));
        Place {
            is_wanted: admits(&node, spec),
            is_bearable: matches(&node, spec) && tolerates(&node, spec, &["NoExecute"]),
            node: node.name().to_owned(),
            new,
            old,
        }
    };
    let nodes = cluster.snapshot(&nodes());
    nodes.iter().map(Item::read).map(place).collect()
}

/// The node a pod is bound to, or meant for.
fn target(pod: &Item) -> &str {
    match pod.text("/spec/nodeName") {
        "" => pod.text(
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
             /nodeSelectorTerms/0/matchFields/0/values/0",
        ),
        node => node,
    }
}

fn with_tolerations(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let bears = |(key, effect): &(&str, &str)| json!({"key": key, "operator": "Exists", "effect": effect});
    all.extend(TOLERATED.iter().map(bears));
    if spec["hostNetwork"] == true {
        all.push(bears(&("node.kubernetes.io/network-unavailable", "NoSchedule")));
    }
    spec["tolerations"] = json!(all);
    spec
}

async fn create(cluster: &Cluster, set: &Item, spec: &Value, hash: &str, node: &str) -> Result<(), Error> {
    let mut pod = from_template(set, &set["spec"]["template"]);
    pod["metadata"]["generateName"] = json!(format!("{}-", set.name()));
    pod["metadata"]["labels"][HASH_LABEL] = json!(hash);
    pod["spec"] = spec.clone();
    let here = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [here]}]});
    match pod_control::create(cluster, events::DAEMON_SETS, set, pod).await {
        Err(error) if is_namespace_terminating(&error) => Ok(()),
        created => created.map(drop),
    }
}
