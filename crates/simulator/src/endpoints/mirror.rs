//! Mirrors Endpoints written by users, for services without a selector, into slices: programs read only slices.
//!
//! ```text
//! endpoints ──per port set and address family──▶ slices owned by the endpoints
//! ```

use std::net::IpAddr;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};

use super::slices::{Family, Group, named};
use super::{LAST_CHANGE, LEADER, of_service, without_nulls};
use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::{endpoint_slices, endpoints, services};

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// On endpoints that are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// An annotation of kubectl that is not copied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The largest number of addresses mirrored of a subset, as in Kubernetes.
const MAX_ADDRESSES: usize = 1000;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("endpoints-mirror", &endpoints())
        .watches(cluster.informer(&services()), super::same_name(), None)
        .watches(cluster.informer(&endpoint_slices()), of_service(), None);
    cluster.run(controller, reconcile)
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    // Slices of deleted endpoints are garbage collected.
    let Some(endpoints) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let groups = match is_mirrored(&cluster, &endpoints) {
        true => groups(&endpoints),
        false => Vec::new(),
    };
    let labels = endpoints["metadata"]["labels"].as_object();
    let mut annotations = endpoints["metadata"]["annotations"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    annotations.retain(|name, _| name != LAST_CHANGE && name != LAST_APPLIED);
    let family = Family {
        owner: &endpoints,
        manager: MANAGER,
        labels: labels.cloned().unwrap_or_default(),
        annotations: Some(json!(annotations)),
        notes: json!({}),
        most: MAX_ADDRESSES,
    };
    family.keep(&cluster, groups).await?;
    Ok(Action::Done)
}

/// True if endpoints were written by a user and have a service.
fn is_mirrored(cluster: &Cluster, endpoints: &Item) -> bool {
    let services = cluster.snapshot(&services());
    let service = services.get(&endpoints.key()).map(Item::read);
    let is_skipped = endpoints.label(SKIP).is_some_and(|value| value == "true");
    let has_own = service.is_some_and(|service| service.at("/spec/selector").is_null());
    has_own && !is_skipped && endpoints.annotation(LEADER).is_none()
}

fn groups(endpoints: &Item) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for subset in endpoints.list("/subsets") {
        let ports = named(subset["ports"].as_array().map_or(&[], Vec::as_slice));
        let addresses = |name: &str| subset[name].as_array().into_iter().flatten();
        let ready = addresses("addresses").map(|address| (address, true));
        let all = ready.chain(addresses("notReadyAddresses").map(|address| (address, false)));
        for (address, is_ready) in all.take(MAX_ADDRESSES) {
            let Some(ip) = address["ip"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) else {
                continue;
            };
            let address_type = match ip {
                IpAddr::V4(_) => "IPv4",
                IpAddr::V6(_) => "IPv6",
            };
            let endpoint = endpoint(address, ip, is_ready);
            let is_same = |group: &&mut Group| group.ports == ports && group.address_type == address_type;
            match groups.iter_mut().find(is_same) {
                Some(group) => group.endpoints.push(endpoint),
                None => groups.push(Group {
                    address_type,
                    ports: ports.clone(),
                    endpoints: vec![endpoint],
                }),
            }
        }
    }
    groups
}

fn endpoint(address: &Value, ip: IpAddr, is_ready: bool) -> Value {
    without_nulls(json!({
        "addresses": [ip.to_string()],
        "conditions": {"ready": is_ready},
        "hostname": address["hostname"],
        "nodeName": address["nodeName"],
        "targetRef": address["targetRef"],
    }))
}
