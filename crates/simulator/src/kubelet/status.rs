//! The status of a pod: phase, addresses and conditions.

use serde_json::{Value, json};

use super::containers::Role;
use crate::cluster::Cluster;
use crate::conditions::{self, Condition};
use crate::item::Item;
use crate::kinds::nodes;
use crate::time::timestamp;

/// 128 + SIGTERM: the exit code of a stopped container.
pub(super) const TERMINATED: i64 = 143;

/// The status of each container, with its role.
pub(super) type Statuses = Vec<(Role, Value)>;

/// The phase of a pod, by its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    fn of(pod: &Item, statuses: &Statuses) -> Self {
        let codes = |role: Role| {
            let of_role = statuses.iter().filter(move |(own, _)| *own == role);
            of_role.map(|(_, status)| status["state"]["terminated"]["exitCode"].as_i64())
        };
        // A failed init container fails the pod.
        if codes(Role::Init).flatten().any(|code| code != 0) {
            return Self::Failed;
        }
        let ended: Option<Vec<i64>> = codes(Role::Main).collect();
        if let Some(codes) = ended {
            return match codes.iter().all(|code| *code == 0) {
                true => Self::Succeeded,
                false => Self::Failed,
            };
        }
        let mut main = statuses.iter().filter(|(role, _)| *role == Role::Main);
        let has_begun =
            main.any(|(_, status)| status["state"]["running"].is_object() || status["restartCount"] != 0);
        match has_begun || pod.text("/status/phase") == "Running" {
            true => Self::Running,
            false => Self::Pending,
        }
    }

    fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The status of a pod its node has just seen: the host, and containers about to be created.
pub(super) fn seen(cluster: &Cluster, pod: &Item, statuses: &Statuses) -> Value {
    let address = host_address(cluster, pod);
    let mut status = of(pod, "", statuses);
    status["startTime"] = json!(timestamp());
    status["hostIP"] = address.clone();
    status["hostIPs"] = json!([{"ip": address}]);
    status
}

/// The whole status of a pod. Its address is set with its first container.
pub(super) fn of(pod: &Item, address: &str, statuses: &Statuses) -> Value {
    let phase = Phase::of(pod, statuses);
    let list = |init: bool| -> Vec<&Value> {
        let of_list = statuses.iter().filter(|(role, _)| (*role != Role::Main) == init);
        of_list.map(|(_, status)| status).collect()
    };
    let mut status = json!({
        "phase": format!("{phase:?}"),
        "observedGeneration": pod.generation(),
        "conditions": conditions(pod, phase, statuses),
        "containerStatuses": list(false),
    });
    if !list(true).is_empty() {
        status["initContainerStatuses"] = json!(list(true));
    }
    let has_begun = statuses
        .iter()
        .any(|(_, status)| !status["containerID"].is_null());
    if has_begun && !address.is_empty() {
        status["podIP"] = json!(address);
        status["podIPs"] = json!([{"ip": address}]);
    }
    status
}

/// The status of a pod that has exceeded its active deadline.
pub(super) fn overdue(status: &mut Value) {
    status["phase"] = json!("Failed");
    status["reason"] = json!("DeadlineExceeded");
    status["message"] = json!("Pod was active on the node longer than the specified deadline");
}

fn conditions(pod: &Item, phase: Phase, statuses: &Statuses) -> Vec<Value> {
    let unready = |is_meant: &dyn Fn(Role) -> bool| -> Vec<&str> {
        let unready = statuses
            .iter()
            .filter(|(role, status)| is_meant(*role) && status["ready"] != true);
        unready
            .filter_map(|(_, status)| status["name"].as_str())
            .collect()
    };
    let uninitialized = unready(&|role| role == Role::Init);
    let unready = unready(&|role| role != Role::Init);
    let has_begun = statuses
        .iter()
        .any(|(_, status)| !status["containerID"].is_null());
    let initialized = match (phase, uninitialized.is_empty()) {
        (Phase::Succeeded, _) => Answer::well("PodCompleted"),
        (_, true) => Answer::well(""),
        (_, false) => {
            let words = format!("containers with incomplete status: [{}]", uninitialized.join(" "));
            Answer::not("ContainersNotInitialized", words)
        }
    };
    let containers = match phase {
        Phase::Succeeded => Answer::not("PodCompleted", String::new()),
        Phase::Failed => Answer::not("PodFailed", String::new()),
        _ if unready.is_empty() && uninitialized.is_empty() => Answer::well(""),
        _ => {
            let words = format!("containers with unready status: [{}]", unready.join(" "));
            Answer::not("ContainersNotReady", words)
        }
    };
    let ready = match containers.holds {
        true => gates(pod),
        false => containers.clone(),
    };
    let mut all = pod.list("/status/conditions").to_vec();
    for (kind, answer) in [
        ("PodScheduled", Answer::well("")),
        (
            "PodReadyToStartContainers",
            Answer::plain(has_begun && !phase.has_ended()),
        ),
        ("Initialized", initialized),
        ("ContainersReady", containers),
        ("Ready", ready),
    ] {
        let condition = Condition {
            kind,
            holds: Some(answer.holds),
            reason: answer.reason,
            message: &answer.message,
        };
        all = conditions::with(&all, condition);
    }
    all
}

/// The status of a condition, with its reason.
#[derive(Clone, Debug)]
struct Answer {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Answer {
    fn plain(holds: bool) -> Self {
        Self {
            holds,
            ..Self::well("")
        }
    }

    fn well(reason: &'static str) -> Self {
        Self {
            holds: true,
            reason,
            message: String::new(),
        }
    }

    fn not(reason: &'static str, message: String) -> Self {
        Self {
            holds: false,
            reason,
            message,
        }
    }
}

/// The combined status of a pod's readiness gates.
fn gates(pod: &Item) -> Answer {
    let known = pod.list("/status/conditions");
    let mut missing = Vec::new();
    for gate in pod.list("/spec/readinessGates") {
        let kind = gate["conditionType"].as_str().unwrap_or_default();
        match known.iter().find(|known| known["type"] == kind) {
            Some(known) if known["status"] == "True" => {}
            Some(known) => {
                let status = known["status"].as_str().unwrap_or_default();
                missing.push(format!(
                    "the status of pod readiness gate {kind:?} is not \"True\", but {status}"
                ));
            }
            None => missing.push(format!(
                "corresponding condition of pod readiness gate {kind:?} does not exist."
            )),
        }
    }
    match missing.is_empty() {
        true => Answer::well(""),
        false => Answer::not("ReadinessGatesNotReady", missing.join(", ")),
    }
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
