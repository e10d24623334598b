//! Stateful sets: pods with stable names and volumes, in order.
//!
//! [`plan`] decides the next steps, this file executes them. An ordered set takes one step; the resulting change of a
//! pod triggers the next.

mod claims;
mod plan;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};

use self::plan::{Step, Wish};
use crate::cluster::{Cluster, Task};
use crate::events;
use crate::item::Item;
use crate::kinds::{controller_revisions, pods, stateful_sets};
use crate::pod_control::{is_namespace_terminating, message};
use crate::pods::{from_template, is_available, is_ready, next_available};
use crate::revisions::{self, HASH_LABEL, Revisions};

const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("stateful-sets", &stateful_sets())
        .owns(cluster.informer(&pods()), &stateful_sets())
        .watches(
            cluster.informer(&pods()),
            cluster.adopting(&stateful_sets()),
            None,
        )
        .owns(cluster.informer(&controller_revisions()), &stateful_sets());
    cluster.run(controller, reconcile)
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(set) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let wish = Wish::of(&set);
    let revisions = Revisions::of(&cluster, &set).await?;
    let current = revisions
        .named(set.text("/status/currentRevision"))
        .unwrap_or(revisions.latest());
    let present = cluster
        .claim(&set, &pods(), |pod| plan::is_member(&set, pod))
        .await?;
    for step in plan::steps(&wish, &present, revisions.latest().name()) {
        match step {
            Step::Create(ordinal) if wish.keeps_old(ordinal) => {
                create(&cluster, &set, ordinal, current).await?
            }
            Step::Create(ordinal) => create(&cluster, &set, ordinal, revisions.latest()).await?,
            Step::Replace(pod) => delete(&cluster, &set, pod).await?,
            Step::Remove(pod) => {
                claims::hand_over(&cluster, &set, pod).await?;
                delete(&cluster, &set, pod).await?;
            }
        }
    }
    let present = cluster.controlled_by(&set, &pods());
    let status = status(&set, &wish, &present, current.name(), revisions.latest().name());
    let is_used = |revision: &Item| {
        revision.name() == current.name() || present.iter().any(|pod| is_of(pod, revision.name()))
    };
    revisions.trim(&cluster, &set, is_used).await?;
    cluster.report(&stateful_sets(), &set, status).await?;
    let next = next_available(&present, wish.min_ready_seconds);
    Ok(next.map_or(Action::Done, Action::After))
}

/// True if a pod was created from a revision.
fn is_of(pod: &Item, revision: &str) -> bool {
    pod.label(HASH_LABEL).is_some_and(|hash| hash == revision)
}

async fn create(cluster: &Cluster, set: &Item, ordinal: i64, revision: &Item) -> Result<(), Error> {
    claims::ensure(cluster, set, ordinal).await?;
    let name = format!("{}-{ordinal}", set.name());
    let mut pod = from_template(set, &revisions::template(revision));
    let labels = &mut pod["metadata"]["labels"];
    labels[POD_NAME_LABEL] = json!(name);
    labels[POD_INDEX_LABEL] = json!(ordinal.to_string());
    labels[HASH_LABEL] = json!(revision.name());
    claims::mount(set, ordinal, &mut pod["spec"]);
    pod["spec"]["hostname"] = json!(name);
    pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    pod["metadata"]["name"] = json!(name);
    let created = cluster.create(&pods(), set.namespace(), pod).await;
    if let Err(error) = &created
        && is_namespace_terminating(error)
    {
        return Ok(());
    }
    tell(cluster, set, "create", &name, created.as_ref().err());
    created.map(drop)
}

async fn delete(cluster: &Cluster, set: &Item, pod: &Item) -> Result<(), Error> {
    let deleted = cluster.delete(&pods(), pod, None).await;
    tell(cluster, set, "delete", pod.name(), deleted.as_ref().err());
    deleted
}

/// Records an Event about a created or deleted pod, or about the failure.
fn tell(cluster: &Cluster, set: &Item, verb: &str, pod: &str, error: Option<&Error>) {
    let reason = |outcome: &str| match verb {
        "create" => format!("{outcome}Create"),
        _ => format!("{outcome}Delete"),
    };
    let subject = format!("{verb} Pod {pod} in StatefulSet {}", set.name());
    let who = events::STATEFUL_SETS;
    match error {
        None => cluster
            .events
            .normal(who, set, &reason("Successful"), format!("{subject} successful")),
        Some(error) => {
            let words = format!("{subject} failed error: {}", message(error));
            cluster.events.warning(who, set, &reason("Failed"), words);
        }
    }
}

/// The status of a set. When every pod has the new template, its revision becomes the current one.
fn status(set: &Item, wish: &Wish, pods: &[Item], current: &str, update: &str) -> Value {
    let count = |counts: &dyn Fn(&Item) -> bool| pods.iter().filter(|pod| counts(pod)).count();
    let of = |revision: &str| count(&|pod| !pod.is_deleting() && is_of(pod, revision));
    let (replicas, ready, updated) = (pods.len(), count(&is_ready), of(update));
    let is_done = wish.rolls && updated == replicas && ready == replicas;
    let current = if is_done { update } else { current };
    json!({
        "observedGeneration": set.generation(),
        "replicas": replicas,
        "readyReplicas": ready,
        "availableReplicas": count(&|pod| is_available(pod, wish.min_ready_seconds)),
        "currentReplicas": of(current),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
    })
}
