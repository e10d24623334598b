//! What a kubelet says of a pod, one function per stage.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::conditions::{self, Condition};
use crate::item::Item;
use crate::kinds::nodes;
use crate::time::timestamp;

/// 128 + SIGTERM: how a container ends that is told to.
pub(super) const TERMINATED: i64 = 143;

pub(super) fn creating(cluster: &Cluster, pod: &Item) -> Value {
    let address = host_address(cluster, pod);
    json!({
        "phase": "Pending",
        "startTime": timestamp(),
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "conditions": conditions(pod, false),
        "containerStatuses": containers(pod, &json!({"waiting": {"reason": "ContainerCreating"}}), false),
    })
}

pub(super) fn running(pod: &Item, address: &str, is_ready: bool) -> Value {
    json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions(pod, is_ready),
        "containerStatuses": containers(pod, &json!({"running": {"startedAt": timestamp()}}), is_ready),
    })
}

/// A pod that goes on running, ready or not.
pub(super) fn ready(pod: &Item, is_ready: bool) -> Value {
    let mut containers = pod.list("/status/containerStatuses").to_vec();
    for container in &mut containers {
        container["ready"] = json!(is_ready);
    }
    json!({"conditions": conditions(pod, is_ready), "containerStatuses": containers})
}

pub(super) fn ended(pod: &Item, exit_code: i64) -> Value {
    json!({
        "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
        "conditions": conditions(pod, false),
        "containerStatuses": containers(pod, &terminated(pod, exit_code), false),
    })
}

/// A pod whose containers have ended and wait to be started again.
pub(super) fn backing_off(pod: &Item, exit_code: i64) -> Value {
    let mut containers = containers(pod, &json!({"waiting": {"reason": "CrashLoopBackOff"}}), false);
    for container in &mut containers {
        container["restartCount"] = json!(restarts(pod) + 1);
        container["lastState"] = terminated(pod, exit_code);
    }
    json!({"conditions": conditions(pod, false), "containerStatuses": containers})
}

pub(super) fn restarted(pod: &Item, is_ready: bool) -> Value {
    let state = json!({"running": {"startedAt": timestamp()}});
    json!({"conditions": conditions(pod, is_ready), "containerStatuses": containers(pod, &state, is_ready)})
}

pub(super) fn is_backing_off(pod: &Item) -> bool {
    pod.text("/status/containerStatuses/0/state/waiting/reason") == "CrashLoopBackOff"
}

pub(super) fn restarts(pod: &Item) -> i64 {
    pod.number("/status/containerStatuses/0/restartCount")
}

fn terminated(pod: &Item, exit_code: i64) -> Value {
    json!({"terminated": {
        "exitCode": exit_code,
        "reason": if exit_code == 0 { "Completed" } else { "Error" },
        "startedAt": pod.at("/status/containerStatuses/0/state/running/startedAt"),
        "finishedAt": timestamp(),
    }})
}

fn conditions(pod: &Item, is_ready: bool) -> Vec<Value> {
    let mut all = pod.list("/status/conditions").to_vec();
    for (kind, holds) in [
        ("PodScheduled", true),
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("ContainersReady", is_ready),
        ("Ready", is_ready),
    ] {
        all = conditions::with(&all, Condition::plain(kind, holds));
    }
    all
}

fn containers(pod: &Item, state: &Value, is_ready: bool) -> Vec<Value> {
    let containers = pod.list("/spec/containers").iter();
    let status = |container: &Value| {
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": is_ready,
            "started": state["running"].is_object(),
            "restartCount": restarts(pod),
            "state": state,
        })
    };
    containers.map(status).collect()
}

fn host_address(cluster: &Cluster, pod: &Item) -> Value {
    let nodes = cluster.snapshot(&nodes());
    let Some(node) = nodes.find("", pod.text("/spec/nodeName")).map(Item::read) else {
        return Value::Null;
    };
    let mut addresses = node.list("/status/addresses").iter();
    let internal = addresses.find(|address| address["type"] == "InternalIP");
    internal.map_or(Value::Null, |address| address["address"].clone())
}
