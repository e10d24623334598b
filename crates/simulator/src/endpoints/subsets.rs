//! The older `Endpoints`: all pods with the same ports form a subset.

use serde_json::{Value, json};
use watchkeeper_client::Error;

use super::{LAST_CHANGE, Target, inherited_labels, last_change, without_nulls};
use crate::cluster::{Cluster, ignore_gone};
use crate::item::Item;
use crate::kinds::endpoints;
use crate::pod_control::is_namespace_terminating;

/// On endpoints that are truncated.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The largest number of addresses, as in Kubernetes.
const MAX_ADDRESSES: usize = 1000;

/// Updates the endpoints of a service.
pub(super) async fn keep(cluster: &Cluster, service: &Item, targets: &[Target]) -> Result<(), Error> {
    let staying: Vec<&Target> = targets
        .iter()
        .filter(|target| !target.pod.is_deleting())
        .collect();
    let subsets = subsets(service, &staying);
    let mut labels = inherited_labels(service);
    labels.insert(
        "endpoints.kubernetes.io/managed-by".to_owned(),
        json!("endpoint-controller"),
    );
    let annotations = json!({
        LAST_CHANGE: last_change(service, targets),
        OVER_CAPACITY: (staying.len() > MAX_ADDRESSES).then_some("truncated"),
    });
    let known = cluster.snapshot(&endpoints());
    let Some(known) = known.get(&service.key()).map(Item::read) else {
        let metadata = json!({
            "name": service.name(), "labels": labels, "annotations": without_nulls(annotations),
        });
        let object = json!({"metadata": metadata, "subsets": subsets});
        return match cluster.create(&endpoints(), service.namespace(), object).await {
            Err(error) if is_namespace_terminating(&error) => Ok(()),
            created => created.map(drop),
        };
    };
    if known.list("/subsets") == subsets && known["metadata"]["labels"] == json!(labels) {
        return Ok(());
    }
    let changed = cluster
        .replace(&endpoints(), &known, |endpoints| {
            endpoints["metadata"]["labels"] = json!(labels);
            let mut noted = endpoints["metadata"]["annotations"].clone();
            for name in [LAST_CHANGE, OVER_CAPACITY] {
                noted[name] = annotations[name].clone();
            }
            endpoints["metadata"]["annotations"] = without_nulls(noted);
            endpoints["subsets"] = json!(subsets);
        })
        .await;
    ignore_gone(changed.map(drop))
}

fn subsets(service: &Item, targets: &[&Target]) -> Vec<Value> {
    let mut subsets: Vec<(&[Value], Vec<Value>, Vec<Value>)> = Vec::new();
    for target in targets.iter().take(MAX_ADDRESSES) {
        let place = subsets.iter().position(|(ports, ..)| *ports == target.ports);
        let place = place.unwrap_or_else(|| {
            subsets.push((&target.ports, Vec::new(), Vec::new()));
            subsets.len() - 1
        });
        let address = without_nulls(json!({
            "ip": target.address,
            "hostname": target.hostname(service),
            "nodeName": target.pod.text("/spec/nodeName"),
            "targetRef": target.reference(),
        }));
        match target.is_ready(service) {
            true => subsets[place].1.push(address),
            false => subsets[place].2.push(address),
        }
    }
    let list = |list: Vec<Value>| (!list.is_empty()).then_some(list);
    let subsets = subsets.into_iter().map(|(ports, ready, not_ready)| {
        without_nulls(json!({
            "addresses": list(ready),
            "notReadyAddresses": list(not_ready),
            "ports": list(ports.to_vec()),
        }))
    });
    subsets.collect()
}
