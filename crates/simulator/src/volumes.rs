//! Volumes: every claim gets a provisioned volume, and neither is deleted while it is in use.
//!
//! ```text
//! claim Pending ▶ volume created for it ▶ both Bound ▶ claim deleted, once no pod uses it ▶ volume reclaimed
//! ```

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::controller::{Action, Mapping, Request};
use watchkeeper_wire::Object;

use crate::cluster::{Cluster, Task};
use crate::events;
use crate::item::Item;
use crate::kinds::{claims, pods, volumes};
use crate::pods::has_ended;

/// The finalizer of a claim that is in use.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer of a volume that is bound.
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Binds claims, and releases deleted ones when no pod uses them.
pub(crate) fn run_claims(cluster: &Cluster) -> Task {
    let controller =
        cluster
            .controller("claims", &claims())
            .watches(cluster.informer(&pods()), used_claims(), None);
    cluster.run(controller, reconcile_claim)
}

/// Reclaims volumes of deleted claims.
pub(crate) fn run_volumes(cluster: &Cluster) -> Task {
    let claimed: Mapping = Arc::new(|claim| vec![ObjectKey::new("", &volume_name(claim))]);
    let controller =
        cluster
            .controller("volumes", &volumes())
            .watches(cluster.informer(&claims()), claimed, None);
    cluster.run(controller, reconcile_volume)
}

fn used_claims() -> Mapping {
    Arc::new(|pod| {
        let pod = Item::read(pod);
        let claims = claims_of(&pod).map(|name| ObjectKey::new(pod.namespace(), name));
        claims.collect()
    })
}

fn claims_of(pod: &Item) -> impl Iterator<Item = &str> {
    let volumes = pod.list("/spec/volumes").iter();
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

async fn reconcile_claim(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(claim) = request.object.as_ref().map(Item::read) else {
        return Ok(Action::Done);
    };
    if !claim.is_deleting() {
        bind(&cluster, &claim).await?;
    } else if !is_used(&cluster, &claim) {
        cluster
            .drop_finalizer(&claims(), &claim, CLAIM_PROTECTION)
            .await?;
    }
    Ok(Action::Done)
}

fn is_used(cluster: &Cluster, claim: &Item) -> bool {
    let pods = cluster.snapshot(&pods());
    let mut pods = pods.in_namespace(claim.namespace()).map(Item::read);
    pods.any(|pod| !has_ended(&pod) && claims_of(&pod).any(|name| name == claim.name()))
}

async fn bind(cluster: &Cluster, claim: &Item) -> Result<(), Error> {
    if claim.text("/status/phase") == "Bound" {
        return Ok(());
    }
    let name = volume_name(claim);
    if claim.text("/spec/volumeName").is_empty() {
        match cluster.create(&volumes(), "", volume_for(claim)).await {
            Err(error) if error.is_already_exists() => {}
            created => {
                let words = format!("Successfully provisioned volume {}", created?.name());
                cluster
                    .events
                    .normal(events::VOLUMES, claim, "ProvisioningSucceeded", words);
            }
        }
        let bound = json!({
            "metadata": {"annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }},
            "spec": {"volumeName": name},
        });
        cluster.merge(&claims(), claim, bound).await?;
    }
    let status = json!({
        "phase": "Bound",
        "accessModes": claim["spec"]["accessModes"],
        "capacity": claim["spec"]["resources"]["requests"],
    });
    cluster.report(&claims(), claim, status).await
}

/// The volume of a claim, existing or to be created.
fn volume_name(claim: &Object) -> String {
    format!("pvc-{}", claim.uid())
}

fn volume_for(claim: &Item) -> Value {
    json!({
        "metadata": {
            "name": volume_name(claim),
            "annotations": {"pv.kubernetes.io/provisioned-by": "watchkeeper-simulator"},
        },
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(),
                "name": claim.name(),
                "uid": claim.uid(),
            },
            "hostPath": {"path": format!("/simulated/{}", claim.uid())},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim["spec"]["storageClassName"],
            "volumeMode": claim["spec"]["volumeMode"],
        },
    })
}

async fn reconcile_volume(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(volume) = request.object.as_ref().map(Item::read) else {
        return Ok(Action::Done);
    };
    let claim = &volume["spec"]["claimRef"];
    let text = |name: &str| claim[name].as_str().unwrap_or_default();
    let known = cluster.snapshot(&claims());
    let is_claimed = known
        .find(text("namespace"), text("name"))
        .is_some_and(|known| known.uid() == text("uid"));
    let phase = match (is_claimed, claim.is_null()) {
        (true, _) => "Bound",
        (false, true) => "Available",
        (false, false) => "Released",
    };
    cluster
        .report(&volumes(), &volume, json!({"phase": phase}))
        .await?;
    if phase == "Released" && volume.text("/spec/persistentVolumeReclaimPolicy") == "Delete" {
        cluster.delete(&volumes(), &volume, None).await?;
    }
    if volume.is_deleting() && !is_claimed {
        cluster
            .drop_finalizer(&volumes(), &volume, VOLUME_PROTECTION)
            .await?;
    }
    Ok(Action::Done)
}
