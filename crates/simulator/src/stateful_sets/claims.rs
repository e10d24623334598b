//! The volume claims of a stateful set: one per pod and claim template. They outlive the pod unless the set's
//! retention policy says otherwise.

use serde_json::{Value, json};
use watchkeeper_client::Error;

use crate::cluster::{Cluster, neighbour};
use crate::events;
use crate::item::Item;
use crate::kinds::claims;

/// Creates the missing claims of a pod.
pub(super) async fn ensure(cluster: &Cluster, set: &Item, ordinal: i64) -> Result<(), Error> {
    let goes_with_set = set.text("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted") == "Delete";
    for template in set.list("/spec/volumeClaimTemplates") {
        let mut labels = template["metadata"]["labels"].clone();
        for (name, value) in set["spec"]["selector"]["matchLabels"]
            .as_object()
            .into_iter()
            .flatten()
        {
            labels[name] = value.clone();
        }
        let claim = json!({
            "metadata": {
                "name": name_of(set, template, ordinal),
                "labels": labels,
                "annotations": template["metadata"]["annotations"],
                "ownerReferences": goes_with_set.then(|| [set.as_controller()]),
            },
            "spec": template["spec"],
        });
        match cluster.create(&claims(), set.namespace(), claim).await {
            // A claim of an earlier pod of that name.
            Err(error) if error.is_already_exists() => {}
            created => {
                let claim = created?;
                let words = format!(
                    "create Claim {} Pod {}-{ordinal} in StatefulSet {} success",
                    claim.name(),
                    set.name(),
                    set.name()
                );
                cluster
                    .events
                    .normal(events::STATEFUL_SETS, set, "SuccessfulCreate", words);
            }
        }
    }
    Ok(())
}

/// Makes a surplus pod the owner of its claims in place of the set, if the retention policy says so. Other owners stay.
pub(super) async fn hand_over(cluster: &Cluster, set: &Item, pod: &Item) -> Result<(), Error> {
    if set.text("/spec/persistentVolumeClaimRetentionPolicy/whenScaled") != "Delete" {
        return Ok(());
    }
    let known = cluster.snapshot(&claims());
    for volume in pod.list("/spec/volumes") {
        let name = volume["persistentVolumeClaim"]["claimName"].as_str();
        if let Some(claim) = name.and_then(|name| known.get(&neighbour(pod, name))) {
            let owners = json!({"metadata": {"ownerReferences": handed_over(&Item::read(claim), set, pod)}});
            cluster.merge(&claims(), claim, owners).await?;
        }
    }
    Ok(())
}

/// The owner references of a claim after `set` handed it over to `pod`.
fn handed_over(claim: &Item, set: &Item, pod: &Item) -> Vec<Value> {
    let others = claim.list("/metadata/ownerReferences").iter();
    let others = others.filter(|owner| owner["uid"] != set.uid() && owner["uid"] != pod.uid());
    others.cloned().chain([pod.as_owner()]).collect()
}

/// Adds the claims to a pod's volumes, replacing volumes of the same names.
pub(super) fn mount(set: &Item, ordinal: i64, spec: &mut Value) {
    let templates = set.list("/spec/volumeClaimTemplates");
    let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    volumes.retain(|volume| {
        !templates
            .iter()
            .any(|template| template["metadata"]["name"] == volume["name"])
    });
    volumes.extend(templates.iter().map(|template| {
        json!({
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": name_of(set, template, ordinal)},
        })
    }));
    spec["volumes"] = json!(volumes);
}

fn name_of(set: &Item, template: &Value, ordinal: i64) -> String {
    let template = template["metadata"]["name"].as_str().unwrap_or_default();
    format!("{template}-{}-{ordinal}", set.name())
}
