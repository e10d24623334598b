//! Deployments: a replica set per template, and a careful move from one to the next.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_wire::Object;
use watchkeeper_wire::values::{IntOrString, Round};

use crate::cluster::{
    BY_CONTROLLER, Cluster, Reconcile, condition, controller_reference, deployments, ignore_gone, is_told,
    replica_sets, value,
};
use crate::futures::Task;

/// Tells the pods of one template from those of another.
const HASH_LABEL: &str = "pod-template-hash";
/// Numbers the templates a deployment has had.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Rolls deployments out.
pub(crate) fn run(cluster: Cluster, stop: CancellationToken) -> Task {
    Box::pin(async move {
        let reconciler = {
            let cluster = cluster.clone();
            Reconcile(move |request| reconcile(cluster.clone(), request))
        };
        cluster
            .control(
                "deployments",
                &deployments(),
                &[&replica_sets()],
                reconciler,
                stop,
            )
            .await;
    })
}

/// A replica set and what is read of it.
struct Set {
    object: Object,
    value: Value,
}

impl Set {
    fn number(&self, pointer: &str) -> i64 {
        self.value
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    fn wanted(&self) -> i64 {
        self.number("/spec/replicas")
    }

    fn available(&self) -> i64 {
        self.number("/status/availableReplicas")
    }

    fn revision(&self) -> i64 {
        let text = self.value["metadata"]["annotations"][REVISION].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(object) = request.object else {
        return Ok(Action::Done);
    };
    let deployment = value(&object);
    if object.is_deleting() {
        return Ok(Action::Done);
    }
    let hash = template_hash(&deployment["spec"]["template"]);
    let mut sets = sets_of(&cluster, &object);
    if !sets
        .iter()
        .any(|set| set.value["metadata"]["labels"][HASH_LABEL] == hash)
    {
        let set = create_set(&cluster, &object, &deployment, &hash, &sets).await?;
        sets.push(set);
    }
    let (new, old): (Vec<Set>, Vec<Set>) = sets
        .into_iter()
        .partition(|set| set.value["metadata"]["labels"][HASH_LABEL] == hash);
    let Some(new) = new.into_iter().next() else {
        return Ok(Action::Done);
    };
    if deployment["spec"]["paused"] != true {
        roll(&cluster, &deployment, &new, &old).await?;
    }
    report(&cluster, &object, &deployment, &new, &old).await?;
    Ok(Action::Done)
}

/// The same text for the same template, whatever the order it was written in.
fn template_hash(template: &Value) -> String {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    format!("{:08x}", hasher.hash_one(template.to_string()) as u32)
}

fn sets_of(cluster: &Cluster, deployment: &Object) -> Vec<Set> {
    let sets = cluster.informer(&replica_sets()).store().snapshot();
    let Ok(owned) = sets.by_index(BY_CONTROLLER, deployment.uid()) else {
        return Vec::new();
    };
    owned
        .filter(|set| !set.is_deleting())
        .map(|set| Set {
            object: set.clone(),
            value: value(set),
        })
        .collect()
}

async fn create_set(
    cluster: &Cluster,
    deployment: &Object,
    spec: &Value,
    hash: &str,
    others: &[Set],
) -> Result<Set, Error> {
    let revision = others.iter().map(Set::revision).max().unwrap_or_default() + 1;
    let mut template = spec["spec"]["template"].clone();
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = spec["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()),
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": controller_reference(deployment),
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    });
    let created = cluster
        .create(&replica_sets(), deployment.namespace(), set)
        .await?;
    cluster
        .informer(&replica_sets())
        .store()
        .wait_for(&created.version())
        .await;
    let key = deployment.key();
    let annotation = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
    cluster.merge(&deployments(), &key, None, annotation).await?;
    Ok(Set {
        value: value(&created),
        object: created,
    })
}

/// One step of a rollout: as many new pods as may be too many, as few old ones as may be missing.
async fn roll(cluster: &Cluster, deployment: &Value, new: &Set, old: &[Set]) -> Result<(), Error> {
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let recreate = deployment["spec"]["strategy"]["type"] == "Recreate";
    let (surge, unavailable) = match recreate {
        true => (0, wanted),
        false => allowance(&deployment["spec"]["strategy"]["rollingUpdate"], wanted),
    };
    let old_total: i64 = old.iter().map(Set::wanted).sum();
    let old_left: i64 = old.iter().map(|set| set.number("/status/replicas")).sum();
    let room = match recreate {
        // Nothing new before all of the old is gone.
        true if old_total + old_left > 0 => new.wanted(),
        true => wanted,
        false => (wanted + surge - old_total)
            .clamp(0, wanted)
            .max(new.wanted().min(wanted)),
    };
    scale(cluster, new, room).await?;
    let available = new.available() + old.iter().map(Set::available).sum::<i64>();
    let mut spare = match recreate {
        true => old_total,
        false => (available - (wanted - unavailable)).max(0),
    };
    for set in old.iter().filter(|set| set.wanted() > 0) {
        // Pods that are not available anyway can always go.
        let broken = (set.wanted() - set.available()).max(0);
        let fewer = (broken + spare.min(set.available())).min(set.wanted());
        spare -= fewer - broken.min(fewer);
        scale(cluster, set, set.wanted() - fewer).await?;
    }
    Ok(())
}

/// How many pods may be too many and how many may be missing; never both none.
fn allowance(strategy: &Value, wanted: i64) -> (i64, i64) {
    let scaled = |name: &str, round: Round| -> i64 {
        let value = serde_json::from_value::<IntOrString>(strategy[name].clone());
        let value = value.unwrap_or(IntOrString::String("25%".to_owned()));
        value.scaled(wanted, round).unwrap_or(1)
    };
    let (surge, unavailable) = (
        scaled("maxSurge", Round::Up),
        scaled("maxUnavailable", Round::Down),
    );
    if surge == 0 && unavailable == 0 {
        (0, 1)
    } else {
        (surge, unavailable)
    }
}

async fn scale(cluster: &Cluster, set: &Set, replicas: i64) -> Result<(), Error> {
    if set.wanted() == replicas {
        return Ok(());
    }
    let scaled = json!({"spec": {"replicas": replicas}});
    let patched = cluster
        .merge(&replica_sets(), &set.object.key(), None, scaled)
        .await?;
    cluster
        .informer(&replica_sets())
        .store()
        .wait_for(&patched.version())
        .await;
    Ok(())
}

async fn report(
    cluster: &Cluster,
    object: &Object,
    deployment: &Value,
    new: &Set,
    old: &[Set],
) -> Result<(), Error> {
    let sum = |pointer: &str| new.number(pointer) + old.iter().map(|set| set.number(pointer)).sum::<i64>();
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let (replicas, available) = (sum("/status/replicas"), sum("/status/availableReplicas"));
    let updated = new.number("/status/replicas");
    let counts = json!({
        "observedGeneration": object.generation(),
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": sum("/status/readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": (wanted - available).max(0),
    });
    let is_told = is_told(deployment, &counts);
    let done = updated == wanted && replicas == wanted && available == wanted;
    let (_, unavailable) = allowance(&deployment["spec"]["strategy"]["rollingUpdate"], wanted);
    let enough = available >= wanted - unavailable;
    let conditions = json!([
        explained(
            "Available",
            enough,
            if enough {
                "MinimumReplicasAvailable"
            } else {
                "MinimumReplicasUnavailable"
            }
        ),
        explained(
            "Progressing",
            true,
            if done {
                "NewReplicaSetAvailable"
            } else {
                "ReplicaSetUpdated"
            }
        ),
    ]);
    let same_reasons = (0..2)
        .all(|index| deployment["status"]["conditions"][index]["reason"] == conditions[index]["reason"]);
    if is_told && same_reasons {
        return Ok(());
    }
    let mut status = counts;
    status["conditions"] = conditions;
    let patched = cluster
        .merge(
            &deployments(),
            &object.key(),
            Some("status"),
            json!({"status": status}),
        )
        .await;
    ignore_gone(patched.map(drop))
}

fn explained(kind: &str, holds: bool, reason: &str) -> Value {
    let mut condition = condition(kind, holds);
    if let Some(fields) = condition.as_object_mut() {
        fields.remove("lastProbeTime");
        fields.insert("lastUpdateTime".to_owned(), fields["lastTransitionTime"].clone());
        fields.insert("reason".to_owned(), json!(reason));
        fields.insert("message".to_owned(), json!(""));
    }
    condition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_leave_room_to_move() {
        let quarter = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
        assert_eq!(allowance(&quarter, 4), (1, 1));
        assert_eq!(allowance(&quarter, 1), (1, 0));
        assert_eq!(allowance(&json!({"maxSurge": 0, "maxUnavailable": 0}), 3), (0, 1));
    }
}
