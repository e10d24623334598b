//! Replica sets and replication controllers: keep the desired number of pods.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::Resource;
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Task};
use crate::conditions::{self, Condition, REPLICA_FAILURE};
use crate::events::{self, Component};
use crate::item::Item;
use crate::kinds::pods;
use crate::pod_control::{self, is_namespace_terminating, message};
use crate::pods::{from_template, is_active, is_available, is_ready, next_available};

/// The annotation with a pod's deletion cost; the cheapest are deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Runs the controller of a kind.
pub(crate) fn run(cluster: &Cluster, kind: Resource) -> Task {
    let controller = cluster
        .controller(&kind.plural, &kind)
        .owns(cluster.informer(&pods()), &kind)
        .watches(cluster.informer(&pods()), cluster.adopting(&kind), None);
    cluster.run(controller, move |cluster, request| {
        reconcile(cluster, kind.clone(), request)
    })
}

async fn reconcile(cluster: Cluster, kind: Resource, request: Request) -> Result<Action, Error> {
    let Some(set) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let wanted = usize::try_from(set.number("/spec/replicas")).unwrap_or_default();
    let mut running = cluster
        .claim(&set, &pods(), |pod| is_active(&Item::read(pod)))
        .await?;
    running.retain(is_active);
    let failure = match wanted.checked_sub(running.len()) {
        Some(missing) => create_pods(&cluster, &set, missing).await.err(),
        None => delete_pods(&cluster, &set, running, wanted).await.err(),
    };
    let running = active_pods(&cluster, &set);
    let min_ready = set.number("/spec/minReadySeconds");
    let mut status = status(&set, &running, min_ready);
    status["conditions"] = json!(with_failure(&set, wanted, running.len(), failure.as_ref()));
    cluster.report(&kind, &set, status).await?;
    if let Some(error) = failure {
        return Err(error);
    }
    let next = next_available(&running, min_ready);
    Ok(next.map_or(Action::Done, Action::After))
}

fn active_pods(cluster: &Cluster, set: &Item) -> Vec<Item> {
    let mut pods = cluster.controlled_by(set, &pods());
    pods.retain(is_active);
    pods
}

async fn create_pods(cluster: &Cluster, set: &Item, missing: usize) -> Result<(), Error> {
    for _ in 0..missing {
        let mut pod = from_template(set, &set["spec"]["template"]);
        pod["metadata"]["generateName"] = json!(format!("{}-", set.name()));
        match pod_control::create(cluster, component(set), set, pod).await {
            Err(error) if is_namespace_terminating(&error) => return Ok(()),
            created => drop(created?),
        }
    }
    Ok(())
}

/// The name of a set's controller in Events.
fn component(set: &Item) -> Component {
    match set.kind() {
        "ReplicaSet" => events::REPLICA_SETS,
        _ => events::REPLICATION,
    }
}

/// Deletes surplus pods: those that are not ready first, then the cheapest, then the youngest.
async fn delete_pods(
    cluster: &Cluster,
    set: &Item,
    mut running: Vec<Item>,
    wanted: usize,
) -> Result<(), Error> {
    running.sort_by_cached_key(|pod| {
        let cost = pod.annotation(DELETION_COST).and_then(|cost| cost.parse().ok());
        let cost: i32 = cost.unwrap_or_default();
        let age = std::cmp::Reverse(pod.creation_timestamp());
        (is_ready(pod), cost, age, pod.name().to_owned())
    });
    for pod in &running[..running.len() - wanted] {
        pod_control::delete(cluster, component(set), set, pod).await?;
    }
    Ok(())
}

/// The conditions of a set, including the one about missing pods. The first message is kept, because each attempt has
/// another one, with another pod name.
fn with_failure(set: &Item, wanted: usize, running: usize, failure: Option<&Error>) -> Vec<Value> {
    let mut conditions = set.list("/status/conditions").to_vec();
    let Some(error) = failure else {
        conditions.retain(|known| known["type"] != REPLICA_FAILURE);
        return conditions;
    };
    let reason = match running < wanted {
        true => "FailedCreate",
        false => "FailedDelete",
    };
    let is_known = |known: &Value| known["type"] == REPLICA_FAILURE && known["reason"] == reason;
    if conditions.iter().any(is_known) {
        return conditions;
    }
    let failed = Condition {
        kind: REPLICA_FAILURE,
        holds: Some(true),
        reason,
        message: &message(error),
    };
    conditions::with(&conditions, failed)
}

fn status(set: &Item, running: &[Item], min_ready: i64) -> Value {
    let count = |counts: &dyn Fn(&Item) -> bool| running.iter().filter(|pod| counts(pod)).count();
    json!({
        "replicas": running.len(),
        "fullyLabeledReplicas": running.len(),
        "readyReplicas": count(&is_ready),
        "availableReplicas": count(&|pod| is_available(pod, min_ready)),
        "observedGeneration": set.generation(),
    })
}
