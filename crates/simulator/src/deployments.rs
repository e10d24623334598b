//! Deployments: a replica set per template, and a careful move from one to the next.
//!
//! How large each set should be is decided in [`plan`]; what is said about it, in [`progress`].

mod plan;
mod progress;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};

use self::plan::{Size, Sizes, Strategy};
use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::{deployments, replica_sets};
use crate::revisions::short_hash;

/// Tells the pods of one template from those of another.
const HASH_LABEL: &str = "pod-template-hash";
/// Numbers the templates a deployment has had.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// What belongs to the deployment alone.
const OWN_ANNOTATIONS: &[&str] = &["kubectl.kubernetes.io/last-applied-configuration", REVISION];
/// How many old sets are kept unless a deployment says otherwise.
const KEPT: i64 = 10;

/// Rolls deployments out.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("deployments", &deployments())
        .owns(cluster.informer(&replica_sets()), &deployments());
    cluster.run(controller, reconcile)
}

/// The replica sets of a deployment, oldest first.
struct Sets {
    /// The one with the deployment's template; a deployment that is paused gets none.
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
    if deployment["spec"]["paused"] == true {
        let only = plan::only_size(&strategy, &sizes(&sets));
        resize(&cluster, &sets, &only).await?;
    } else {
        let new = current_set(&cluster, &deployment, &sets).await?;
        number(&cluster, &deployment, &new).await?;
        sets.new = Some(new);
        resize(&cluster, &sets, &plan::next_sizes(&strategy, &sizes(&sets))).await?;
        trim(&cluster, &deployment, &sets).await?;
    }
    let (status, next) = progress::status(&deployment, &strategy, &sets);
    cluster.report(&deployments(), &deployment, status).await?;
    Ok(next.map_or(Action::Done, Action::After))
}

/// The template of a set without the label that makes it a set of its own.
fn template_of(set: &Item) -> Value {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH_LABEL);
    }
    template
}

fn revision(object: &Item) -> i64 {
    let revision = object.annotation(REVISION).and_then(|text| text.parse().ok());
    revision.unwrap_or_default()
}

/// The set of the deployment's template, with the highest number of all: an old template that comes back is the latest.
async fn current_set(cluster: &Cluster, deployment: &Item, sets: &Sets) -> Result<Item, Error> {
    let next = sets.old.iter().map(revision).max().unwrap_or_default() + 1;
    let Some(set) = &sets.new else {
        return create_set(cluster, deployment, next).await;
    };
    if revision(set) >= next {
        return Ok(set.clone());
    }
    let renumbered = json!({"metadata": {"annotations": {REVISION: next.to_string()}}});
    let renumbered = cluster.merge(&replica_sets(), set, renumbered).await?;
    Ok(Item::read(&renumbered))
}

async fn create_set(cluster: &Cluster, deployment: &Item, revision: i64) -> Result<Item, Error> {
    let mut template = deployment["spec"]["template"].clone();
    let hash = short_hash(&template.to_string());
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let mut annotations = deployment["metadata"]["annotations"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    annotations.retain(|name, _| !OWN_ANNOTATIONS.contains(&name.as_str()));
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

/// Gives the deployment the number of its template.
async fn number(cluster: &Cluster, deployment: &Item, set: &Item) -> Result<(), Error> {
    if revision(deployment) == revision(set) {
        return Ok(());
    }
    let numbered = json!({REVISION: revision(set).to_string()});
    cluster.note(&deployments(), deployment, numbered).await.map(drop)
}

fn sizes(sets: &Sets) -> Sizes {
    let size = |set: &Item| Size {
        wanted: set.number("/spec/replicas"),
        running: set.number("/status/replicas"),
        available: set.number("/status/availableReplicas"),
    };
    Sizes {
        new: sets.new.as_ref().map(size).unwrap_or_default(),
        old: sets.old.iter().map(size).collect(),
    }
}

async fn resize(cluster: &Cluster, sets: &Sets, sizes: &Sizes) -> Result<(), Error> {
    let new = sets.new.iter().zip([&sizes.new]);
    for (set, size) in new.chain(sets.old.iter().zip(&sizes.old)) {
        if set.number("/spec/replicas") != size.wanted {
            let resized = json!({"spec": {"replicas": size.wanted}});
            cluster.merge(&replica_sets(), set, resized).await?;
        }
    }
    Ok(())
}

/// Deletes the oldest of the empty sets that are not kept.
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
