//! Replica sets: as many pods as asked for, no more and no fewer.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_wire::Object;

use crate::cluster::{
    BY_CONTROLLER, Cluster, Reconcile, controller_reference, holds, ignore_gone, is_told, pods, replica_sets,
    value,
};
use crate::futures::Task;

/// Keeps replica sets at their size.
pub(crate) fn run(cluster: Cluster, stop: CancellationToken) -> Task {
    Box::pin(async move {
        let reconciler = {
            let cluster = cluster.clone();
            Reconcile(move |request| reconcile(cluster.clone(), request))
        };
        cluster
            .control("replica-sets", &replica_sets(), &[&pods()], reconciler, stop)
            .await;
    })
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(set) = request.object else {
        return Ok(Action::Done);
    };
    let spec = value(&set);
    if !set.is_deleting() {
        let wanted = spec["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
        let running = active_pods(&cluster, &set);
        match wanted.checked_sub(running.len()) {
            Some(missing) => create_pods(&cluster, &set, &spec, missing).await?,
            None => delete_pods(&cluster, running, wanted).await?,
        }
    }
    report(&cluster, &set, &spec).await?;
    Ok(Action::Done)
}

/// The pods of a set that are there to stay.
fn active_pods(cluster: &Cluster, set: &Object) -> Vec<Object> {
    let pods = cluster.informer(&pods()).store().snapshot();
    let Ok(owned) = pods.by_index(BY_CONTROLLER, set.uid()) else {
        return Vec::new();
    };
    let is_active = |pod: &&Object| {
        !pod.is_deleting()
            && !matches!(
                value(pod)["status"]["phase"].as_str(),
                Some("Succeeded" | "Failed")
            )
    };
    owned.filter(is_active).cloned().collect()
}

async fn create_pods(cluster: &Cluster, set: &Object, spec: &Value, missing: usize) -> Result<(), Error> {
    for _ in 0..missing {
        let template = &spec["spec"]["template"];
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": format!("{}-", set.name()),
                "labels": template["metadata"]["labels"],
                "annotations": template["metadata"]["annotations"],
                "ownerReferences": controller_reference(set),
            },
            "spec": template["spec"],
        });
        let created = cluster.create(&pods(), set.namespace(), pod).await?;
        // Counted before the next look, so that no pod is created twice.
        cluster
            .informer(&pods())
            .store()
            .wait_for(&created.version())
            .await;
    }
    Ok(())
}

/// Deletes pods that are too many, those that are not ready first.
async fn delete_pods(cluster: &Cluster, mut running: Vec<Object>, wanted: usize) -> Result<(), Error> {
    running.sort_by_key(|pod| {
        (
            !holds(&value(pod), "Ready"),
            pod.creation_timestamp(),
            pod.name().to_owned(),
        )
    });
    for pod in running.iter().rev().take(running.len() - wanted) {
        cluster.delete(&pods(), pod, None).await?;
        let (key, uid) = (pod.key(), pod.uid().to_owned());
        let store = cluster.informer(&pods()).store().clone();
        store
            .wait_until(|pods| {
                pods.get(&key)
                    .is_none_or(|pod| pod.uid() != uid || pod.is_deleting())
            })
            .await;
    }
    Ok(())
}

async fn report(cluster: &Cluster, set: &Object, spec: &Value) -> Result<(), Error> {
    let active = active_pods(cluster, set);
    let ready = active.iter().filter(|pod| holds(&value(pod), "Ready")).count();
    let status = json!({
        "replicas": active.len(),
        "fullyLabeledReplicas": active.len(),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": set.generation(),
    });
    if is_told(spec, &status) {
        return Ok(());
    }
    let patched = cluster
        .merge(
            &replica_sets(),
            &set.key(),
            Some("status"),
            json!({"status": status}),
        )
        .await;
    ignore_gone(patched.map(drop))
}
