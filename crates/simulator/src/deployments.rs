//! Deployments: a replica set per template, and rolling updates from one to the next.
//!
//! [`plan`] decides the sizes of the sets, [`progress`] the status.

mod plan;
mod progress;

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Mapping, Request};
use watchkeeper_runtime::delta::Delta;
use watchkeeper_wire::Object;

use self::plan::{Size, Sizes, Strategy};
use crate::cluster::{Cluster, Task, neighbour};
use crate::events;
use crate::item::Item;
use crate::kinds::{deployments, pods, replica_sets};
use crate::pods::has_ended;
use crate::revisions::short_hash;

/// The label that distinguishes the pods of one template from those of another.
const HASH_LABEL: &str = "pod-template-hash";
/// The revision number of a template.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revision numbers of a set's template.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// On a set: the desired replicas of the deployment when the set was last resized.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// On a set: the maximum replicas of the deployment then, including the surge.
const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// The annotations a set does not copy from its deployment.
const OWN_ANNOTATIONS: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];
/// The default number of old sets that are kept.
const KEPT: i64 = 10;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("deployments", &deployments())
        .owns(cluster.informer(&replica_sets()), &deployments())
        .watches(
            cluster.informer(&replica_sets()),
            cluster.adopting(&deployments()),
            None,
        )
        .watches(
            cluster.informer(&pods()),
            deployment_of(cluster),
            Some(Arc::new(has_stopped)),
        );
    cluster.run(controller, reconcile)
}

/// Maps a pod to the deployment of its set.
fn deployment_of(cluster: &Cluster) -> Mapping {
    let sets = cluster.informer(&replica_sets()).store().clone();
    Arc::new(move |pod| {
        let set = pod.controller().filter(|owner| owner.kind == "ReplicaSet");
        let set = set.and_then(|set| sets.get(&neighbour(pod, &set.name)));
        let deployment = set.as_ref().and_then(Object::controller);
        let key = deployment.map(|deployment| neighbour(pod, &deployment.name));
        key.into_iter().collect()
    })
}

/// True if a pod was deleted or has finished: a `Recreate` deployment may continue.
fn has_stopped(change: &Delta) -> bool {
    match change {
        Delta::Added { .. } => false,
        Delta::Updated { new, .. } => has_ended(&Item::read(new)),
        Delta::Deleted { .. } => true,
    }
}

/// The replica sets of a deployment, oldest first.
struct Sets {
    /// The one with the deployment's template; a paused deployment gets no new one.
    new: Option<Item>,
    old: Vec<Item>,
}

impl Sets {
    async fn of(cluster: &Cluster, deployment: &Item) -> Result<Self, Error> {
        let mut old = cluster.claim(deployment, &replica_sets(), |_| true).await?;
        old.retain(|set| !set.is_deleting());
        old.sort_by_key(|set| (set.creation_timestamp(), set.name().to_owned()));
        let template = &deployment["spec"]["template"];
        let new = old.iter().position(|set| template_of(set) == *template);
        let new = new.map(|new| old.remove(new));
        Ok(Self { new, old })
    }

    fn all(&self) -> impl Iterator<Item = &Item> {
        self.old.iter().chain(&self.new)
    }

    /// True if the desired replicas have changed since the sets were last resized: the deployment is scaled before
    /// the rollout continues.
    fn were_sized_otherwise(&self, strategy: &Strategy) -> bool {
        let mut active = self.all().filter(|set| set.number("/spec/replicas") > 0);
        active.any(|set| noted(set, DESIRED).is_some_and(|desired| desired != strategy.wanted))
    }

    fn sum(&self, pointer: &str) -> i64 {
        self.all().map(|set| set.number(pointer)).sum()
    }
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(deployment) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let mut sets = Sets::of(&cluster, &deployment).await?;
    let strategy = Strategy::of(&deployment);
    if deployment["spec"]["paused"] == true || sets.were_sized_otherwise(&strategy) {
        let scaled = plan::scaled(&strategy, &sizes(&cluster, &sets));
        resize(&cluster, &deployment, &strategy, &sets, &scaled).await?;
    } else {
        let new = current_set(&cluster, &deployment, &sets).await?;
        number(&cluster, &deployment, &new).await?;
        sets.new = Some(new);
        let next = plan::next_sizes(&strategy, &sizes(&cluster, &sets));
        resize(&cluster, &deployment, &strategy, &sets, &next).await?;
        trim(&cluster, &deployment, &sets).await?;
    }
    let (status, next) = progress::status(&deployment, &strategy, &sets);
    cluster.report(&deployments(), &deployment, status).await?;
    Ok(next.map_or(Action::Done, Action::After))
}

/// The template of a set without the template hash label.
fn template_of(set: &Item) -> Value {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH_LABEL);
    }
    template
}

fn revision(object: &Item) -> i64 {
    noted(object, REVISION).unwrap_or_default()
}

/// A number in an annotation.
fn noted(object: &Item, annotation: &str) -> Option<i64> {
    object.annotation(annotation)?.parse().ok()
}

/// The set of the deployment's template, with the highest revision: an old template that comes back is the latest.
async fn current_set(cluster: &Cluster, deployment: &Item, sets: &Sets) -> Result<Item, Error> {
    let next = sets.old.iter().map(revision).max().unwrap_or_default() + 1;
    let Some(set) = &sets.new else {
        return create_set(cluster, deployment, next).await;
    };
    let mut annotations = inherited_annotations(deployment);
    if revision(set) < next {
        annotations.insert(REVISION.to_owned(), json!(next.to_string()));
        if revision(set) > 0 {
            annotations.insert(REVISION_HISTORY.to_owned(), json!(with_revision(set)));
        }
    }
    let known = &set["metadata"]["annotations"];
    let is_same = annotations.iter().all(|(name, value)| known[name] == *value);
    let min_ready = &deployment["spec"]["minReadySeconds"];
    if is_same && set.number("/spec/minReadySeconds") == min_ready.as_i64().unwrap_or_default() {
        return Ok(set.clone());
    }
    let patch = json!({"metadata": {"annotations": annotations}, "spec": {"minReadySeconds": min_ready}});
    let updated = cluster.merge(&replica_sets(), set, patch).await?;
    Ok(Item::read(&updated))
}

/// The earlier revisions of a set, including its current one.
fn with_revision(set: &Item) -> String {
    let current = revision(set).to_string();
    match set
        .annotation(REVISION_HISTORY)
        .filter(|history| !history.is_empty())
    {
        Some(history) => format!("{history},{current}"),
        None => current,
    }
}

/// The annotations of a deployment that its current set copies.
fn inherited_annotations(deployment: &Item) -> serde_json::Map<String, Value> {
    let annotations = deployment["metadata"]["annotations"].as_object();
    let mut annotations = annotations.cloned().unwrap_or_default();
    annotations.retain(|name, _| !OWN_ANNOTATIONS.contains(&name.as_str()));
    annotations
}

async fn create_set(cluster: &Cluster, deployment: &Item, revision: i64) -> Result<Item, Error> {
    let mut template = deployment["spec"]["template"].clone();
    let hash = short_hash(&template.to_string());
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let mut annotations = inherited_annotations(deployment);
    annotations.insert(REVISION.to_owned(), json!(revision.to_string()));
    let set = json!({
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()),
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [deployment.as_controller()],
        },
        "spec": {
            "replicas": 0,
            "minReadySeconds": deployment["spec"]["minReadySeconds"],
            "selector": selector,
            "template": template,
        },
    });
    let created = cluster
        .create(&replica_sets(), deployment.namespace(), set)
        .await?;
    Ok(Item::read(&created))
}

/// Sets the deployment's revision annotation.
async fn number(cluster: &Cluster, deployment: &Item, set: &Item) -> Result<(), Error> {
    if revision(deployment) == revision(set) {
        return Ok(());
    }
    let numbered = json!({REVISION: revision(set).to_string()});
    cluster.note(&deployments(), deployment, numbered).await.map(drop)
}

fn sizes(cluster: &Cluster, sets: &Sets) -> Sizes {
    let running = |set: &Item| {
        let pods = cluster.controlled_by(set, &pods());
        pods.iter().filter(|pod| !has_ended(pod)).count()
    };
    let size = |set: &Item| Size {
        wanted: set.number("/spec/replicas"),
        running: i64::try_from(running(set)).unwrap_or(i64::MAX),
        available: set.number("/status/availableReplicas"),
        of_most: noted(set, MOST),
    };
    Sizes {
        new: sets.new.as_ref().map(size).unwrap_or_default(),
        old: sets.old.iter().map(size).collect(),
    }
}

/// Resizes sets, and records the deployment's desired replicas on each set with pods.
async fn resize(
    cluster: &Cluster,
    deployment: &Item,
    strategy: &Strategy,
    sets: &Sets,
    sizes: &Sizes,
) -> Result<(), Error> {
    let new = sets.new.iter().zip([&sizes.new]);
    for (set, size) in new.chain(sets.old.iter().zip(&sizes.old)) {
        let before = set.number("/spec/replicas");
        let (desired, most) = (strategy.wanted, strategy.most());
        let is_noted = noted(set, DESIRED) == Some(desired) && noted(set, MOST) == Some(most);
        if before == size.wanted && (is_noted || size.wanted == 0) {
            continue;
        }
        let notes = json!({DESIRED: desired.to_string(), MOST: most.to_string()});
        let resized = json!({"metadata": {"annotations": notes}, "spec": {"replicas": size.wanted}});
        cluster.merge(&replica_sets(), set, resized).await?;
        let direction = match size.wanted.cmp(&before) {
            Ordering::Less => "down",
            Ordering::Equal => continue,
            Ordering::Greater => "up",
        };
        let words = format!(
            "Scaled {direction} replica set {} from {before} to {}",
            set.name(),
            size.wanted
        );
        cluster
            .events
            .normal(events::DEPLOYMENTS, deployment, "ScalingReplicaSet", words);
    }
    Ok(())
}

/// Deletes the oldest empty sets beyond the history limit.
async fn trim(cluster: &Cluster, deployment: &Item, sets: &Sets) -> Result<(), Error> {
    let kept = deployment
        .at("/spec/revisionHistoryLimit")
        .as_i64()
        .unwrap_or(KEPT);
    let empty = |set: &&Item| set.number("/spec/replicas") == 0 && set.number("/status/replicas") == 0;
    let mut empty: Vec<&Item> = sets.old.iter().filter(empty).collect();
    empty.sort_by_key(|set| revision(set));
    let surplus = empty
        .len()
        .saturating_sub(usize::try_from(kept).unwrap_or_default());
    for set in &empty[..surplus] {
        cluster.delete(&replica_sets(), set, None).await?;
    }
    Ok(())
}
