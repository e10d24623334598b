//! Endpoint slices: what is there is changed as little as need be.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_wire::Object;

use super::{HEADLESS, MANAGED_BY, MANAGER, SERVICE, Target, is_headless, without_nulls};
use crate::cluster::Cluster;
use crate::item::Item;
use crate::kinds::endpoint_slices;
use crate::pods::is_ready;

/// 100, as Kubernetes: a pod that changes is not worth a larger write.
const MAX_ENDPOINTS: usize = 100;

/// Brings the slices of a service in line with its pods.
pub(super) async fn keep(cluster: &Cluster, service: &Item, targets: &[Target]) -> Result<(), Error> {
    let known = cluster.snapshot(&endpoint_slices());
    let is_own = |slice: &&Object| {
        let has = |label: &str, value: &str| slice.label(label).is_some_and(|own| own == value);
        has(SERVICE, service.name()) && has(MANAGED_BY, MANAGER) && !slice.is_deleting()
    };
    let own = known.in_namespace(service.namespace()).filter(is_own);
    let mut own: Vec<Item> = own.map(Item::read).collect();
    for (ports, endpoints) in wanted(service, targets) {
        let parts = endpoints.len().div_ceil(MAX_ENDPOINTS).max(1);
        let mut parts: Vec<&[Value]> = (0..parts).map(|part| chunk(&endpoints, part)).collect();
        // Slices that are right already stay; the others of these ports are used for the rest.
        own.retain(|slice| !take(&mut parts, slice, &ports));
        for part in parts {
            let reused = own.iter().position(|slice| has_ports(slice, &ports));
            match reused.map(|place| own.remove(place)) {
                Some(slice) => {
                    let patch = json!({"endpoints": part, "metadata": {"labels": labels(service)}});
                    cluster.merge(&endpoint_slices(), &slice, patch).await?;
                }
                None => create(cluster, service, &ports, part).await?,
            }
        }
    }
    for slice in own {
        cluster.delete(&endpoint_slices(), &slice, None).await?;
    }
    Ok(())
}

fn chunk(endpoints: &[Value], part: usize) -> &[Value] {
    let first = part * MAX_ENDPOINTS;
    &endpoints[first..endpoints.len().min(first + MAX_ENDPOINTS)]
}

/// Whether a slice is one of these parts, which then is not needed any more.
fn take(parts: &mut Vec<&[Value]>, slice: &Item, ports: &[Value]) -> bool {
    let part = parts
        .iter()
        .position(|part| slice.list("/endpoints") == *part && has_ports(slice, ports));
    part.map(|part| parts.remove(part)).is_some()
}

fn has_ports(slice: &Item, ports: &[Value]) -> bool {
    slice.list("/ports") == ports
}

/// All endpoints by the ports they have. A service without pods has one empty slice.
fn wanted(service: &Item, targets: &[Target]) -> Vec<(Vec<Value>, Vec<Value>)> {
    let mut by_ports: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for target in targets {
        let ports = named(&target.ports);
        let key = json!(ports).to_string();
        let (_, endpoints) = by_ports.entry(key).or_insert_with(|| (ports, Vec::new()));
        endpoints.push(endpoint(service, target));
    }
    if by_ports.is_empty() {
        return vec![(Vec::new(), Vec::new())];
    }
    by_ports.into_values().collect()
}

/// In a slice every port has a name, if only an empty one.
fn named(ports: &[Value]) -> Vec<Value> {
    let mut ports = ports.to_vec();
    for port in ports.iter_mut().filter(|port| port["name"].is_null()) {
        port["name"] = json!("");
    }
    ports
}

fn endpoint(service: &Item, target: &Target) -> Value {
    let pod = &target.pod;
    let name = |pointer: &str| Some(pod.text(pointer)).filter(|text| !text.is_empty());
    // A pod's name in the service's domain, if it asked for one.
    let hostname = name("/spec/hostname").filter(|_| pod.text("/spec/subdomain") == service.name());
    without_nulls(json!({
        "addresses": [target.address],
        "conditions": {
            "ready": target.is_ready(service),
            "serving": is_ready(pod),
            "terminating": pod.is_deleting(),
        },
        "hostname": hostname,
        "nodeName": name("/spec/nodeName"),
        "targetRef": target.reference(),
    }))
}

fn labels(service: &Item) -> Value {
    let mut labels = service["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    labels.insert(SERVICE.to_owned(), json!(service.name()));
    labels.insert(MANAGED_BY.to_owned(), json!(MANAGER));
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    json!(labels)
}

async fn create(
    cluster: &Cluster,
    service: &Item,
    ports: &[Value],
    endpoints: &[Value],
) -> Result<(), Error> {
    let slice = json!({
        "metadata": {
            "generateName": format!("{}-", service.name()),
            "labels": labels(service),
            "ownerReferences": [service.as_controller()],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    });
    cluster
        .create(&endpoint_slices(), service.namespace(), slice)
        .await
        .map(drop)
}
