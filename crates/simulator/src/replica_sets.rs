//! Replica sets and replication controllers: as many pods as asked for, no more and no fewer.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::Resource;
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::pods;
use crate::pods::{from_template, is_active, is_available, is_ready, next_available};

/// Says how much would be lost with a pod; those with the least go first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Keeps sets of a kind at their size.
pub(crate) fn run(cluster: &Cluster, kind: Resource) -> Task {
    let controller = cluster
        .controller(&kind.plural, &kind)
        .owns(cluster.informer(&pods()), &kind);
    cluster.run(controller, move |cluster, request| {
        reconcile(cluster, kind.clone(), request)
    })
}

async fn reconcile(cluster: Cluster, kind: Resource, request: Request) -> Result<Action, Error> {
    let Some(set) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let wanted = usize::try_from(set.number("/spec/replicas")).unwrap_or_default();
    // A replication controller's selector has another form, and takes over nothing.
    let mut running = cluster
        .claim(&set, &pods(), |_| set.kind() == "ReplicaSet")
        .await?;
    running.retain(is_active);
    match wanted.checked_sub(running.len()) {
        Some(missing) => create_pods(&cluster, &set, missing).await?,
        None => delete_pods(&cluster, running, wanted).await?,
    }
    let running = active_pods(&cluster, &set);
    let min_ready = set.number("/spec/minReadySeconds");
    cluster
        .report(&kind, &set, status(&set, &running, min_ready))
        .await?;
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
        cluster.create(&pods(), set.namespace(), pod).await?;
    }
    Ok(())
}

/// Deletes pods that are too many: those that are not ready first, then the cheapest, then the youngest.
async fn delete_pods(cluster: &Cluster, mut running: Vec<Item>, wanted: usize) -> Result<(), Error> {
    running.sort_by_cached_key(|pod| {
        let cost = pod.annotation(DELETION_COST).and_then(|cost| cost.parse().ok());
        let cost: i32 = cost.unwrap_or_default();
        let age = std::cmp::Reverse(pod.creation_timestamp());
        (is_ready(pod), cost, age, pod.name().to_owned())
    });
    for pod in &running[..running.len() - wanted] {
        cluster.delete(&pods(), pod, None).await?;
    }
    Ok(())
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
