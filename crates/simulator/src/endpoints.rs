//! Endpoints: the addresses of a service's pods, as EndpointSlices and as `Endpoints`.
//!
//! ```text
//! service ──selector──▶ pods with an address ──▶ one port set each ──▶ slices of up to 100 ──▶ compared with existing slices
//! ```
//!
//! A slice with the right content is not written, so a change of one pod costs one write. Endpoints written by users
//! are mirrored into slices ([`mirror`]).

pub(crate) mod mirror;
mod slices;
mod subsets;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::{LabelSelector, ObjectKey};
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Mapping, Request};
use watchkeeper_runtime::delta::{Cause, Delta};

use self::slices::{Family, Group, named};
use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::{endpoint_slices, endpoints, nodes, pods, services};
use crate::pods::{has_ended, is_ready};

/// On a slice: its service.
const SERVICE: &str = "kubernetes.io/service-name";
/// On a slice: its controller.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// On slices and endpoints: the time of the last change.
const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// On endpoints used as a lock by old leader election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// On a node: its zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// On headless services and their endpoints.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// The largest number of endpoints in a slice, as in Kubernetes: it bounds the size of a write.
const MAX_ENDPOINTS: usize = 100;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("endpoints", &services())
        .watches(
            cluster.informer(&pods()),
            cluster.selecting(&services(), selector),
            None,
        )
        .watches(cluster.informer(&endpoint_slices()), of_service(), None)
        .watches(cluster.informer(&endpoints()), same_name(), None);
    cluster.run(controller, reconcile)
}

/// Deletes the endpoints of deleted services. Those that never had a service stay.
pub(crate) fn run_cleanup(cluster: &Cluster) -> Task {
    let options = ControllerOptions {
        predicate: Some(Arc::new(|change| matches!(change, Delta::Deleted { .. }))),
        ..Default::default()
    };
    // Services may have been deleted before this program started.
    let is_leftover = |change: &Delta| {
        matches!(
            change,
            Delta::Added {
                cause: Cause::Initial,
                ..
            }
        )
    };
    let controller = DynamicController::new("endpoints-cleanup", cluster.informer(&services()), options)
        .watches(
            cluster.informer(&endpoints()),
            same_name(),
            Some(Arc::new(is_leftover)),
        );
    cluster.run(controller, clean_up)
}

async fn clean_up(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let known = cluster.snapshot(&endpoints());
    let Some(left) = known
        .get(&request.key)
        .filter(|left| left.annotation(LEADER).is_none())
    else {
        return Ok(Action::Done);
    };
    let services = cluster.api(&services(), request.key.namespace());
    match services.get(request.key.name()).await {
        Err(error) if error.is_not_found() => cluster.delete(&endpoints(), left, None).await?,
        found => drop(found?),
    }
    Ok(Action::Done)
}

/// Maps a slice to its service.
fn of_service() -> Mapping {
    Arc::new(|slice| {
        let service = slice.label(SERVICE);
        let key = service.map(|service| ObjectKey::new(slice.namespace(), &service));
        key.into_iter().collect()
    })
}

/// Maps endpoints to their service, and back.
fn same_name() -> Mapping {
    Arc::new(|object| vec![object.key()])
}

/// The pod selector of a service; one without a selector gets its endpoints from elsewhere.
fn selector(service: &Item) -> Option<LabelSelector> {
    let labels = service.at("/spec/selector").as_object()?;
    let labels = labels
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_str()?)));
    LabelSelector::from_labels(labels).ok()
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(service) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let Some(selector) = selector(&service).filter(|_| service.text("/spec/type") != "ExternalName") else {
        return Ok(Action::Done);
    };
    let known = cluster.snapshot(&pods());
    let own = known
        .in_namespace(service.namespace())
        .filter(|pod| selector.matches(&pod.header()));
    let mut targets: Vec<Target> = own
        .map(Item::read)
        .filter_map(|pod| Target::of(&service, pod))
        .collect();
    targets.sort_by_cached_key(|target| target.pod.name().to_owned());
    let family = Family {
        owner: &service,
        manager: MANAGER,
        labels: inherited_labels(&service),
        annotations: None,
        notes: json!({LAST_CHANGE: last_change(&service, &targets)}),
        most: MAX_ENDPOINTS,
    };
    family
        .keep(&cluster, groups(&cluster, &service, &targets))
        .await?;
    subsets::keep(&cluster, &service, &targets).await?;
    Ok(Action::Done)
}

/// The labels of a service that its slices and endpoints copy.
fn inherited_labels(service: &Item) -> serde_json::Map<String, Value> {
    let labels = service["metadata"]["labels"].as_object();
    let mut labels = labels.cloned().unwrap_or_default();
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    labels
}

/// The time of the last change: of the service itself, or of its pods' readiness.
fn last_change(service: &Item, targets: &[Target]) -> String {
    let readiness = |target: &Target| {
        let mut conditions = target.pod.list("/status/conditions").iter();
        let ready = conditions.find(|condition| condition["type"] == "Ready")?;
        ready["lastTransitionTime"].as_str().map(str::to_owned)
    };
    let created = service.text("/metadata/creationTimestamp").to_owned();
    targets.iter().filter_map(readiness).fold(created, Ord::max)
}

/// All endpoints by their ports. A service without pods has one empty slice.
fn groups(cluster: &Cluster, service: &Item, targets: &[Target]) -> Vec<Group> {
    let mut by_ports: BTreeMap<String, Group> = BTreeMap::new();
    let group = |ports| Group {
        address_type: "IPv4",
        ports,
        endpoints: Vec::new(),
    };
    for target in targets {
        let ports = named(&target.ports);
        let entry = by_ports.entry(json!(ports).to_string());
        let endpoint = endpoint(cluster, service, target);
        entry.or_insert_with(|| group(ports)).endpoints.push(endpoint);
    }
    if by_ports.is_empty() {
        return vec![group(Vec::new())];
    }
    by_ports.into_values().collect()
}

fn endpoint(cluster: &Cluster, service: &Item, target: &Target) -> Value {
    let pod = &target.pod;
    let nodes = cluster.snapshot(&nodes());
    let node = nodes.find("", pod.text("/spec/nodeName"));
    let zone = node.and_then(|node| node.label(ZONE).map(|zone| zone.into_owned()));
    without_nulls(json!({
        "addresses": [target.address],
        "conditions": {
            "ready": target.is_ready(service),
            "serving": is_ready(pod),
            "terminating": pod.is_deleting(),
        },
        "hostname": target.hostname(service),
        "nodeName": pod.text("/spec/nodeName"),
        "targetRef": target.reference(),
        "zone": zone,
    }))
}

/// A pod that is, will be or was an endpoint.
struct Target {
    pod: Item,
    address: String,
    /// The ports of the service on this pod.
    ports: Vec<Value>,
}

impl Target {
    /// Returns `None` for a pod without an address.
    fn of(service: &Item, pod: Item) -> Option<Self> {
        let address = pod.text("/status/podIP").to_owned();
        if address.is_empty() || has_ended(&pod) {
            return None;
        }
        let ports = service.list("/spec/ports").iter();
        let ports = ports.filter_map(|port| port_of(port, &pod)).collect();
        Some(Self { pod, address, ports })
    }

    /// True if traffic may be sent to it.
    fn is_ready(&self, service: &Item) -> bool {
        service.at("/spec/publishNotReadyAddresses") == true
            || (is_ready(&self.pod) && !self.pod.is_deleting())
    }

    /// The pod's host name in the service's domain, if it has one.
    fn hostname(&self, service: &Item) -> Option<&str> {
        let is_named = self.pod.text("/spec/subdomain") == service.name();
        Some(self.pod.text("/spec/hostname")).filter(|name| is_named && !name.is_empty())
    }

    fn reference(&self) -> Value {
        json!({
            "kind": "Pod",
            "namespace": self.pod.namespace(),
            "name": self.pod.name(),
            "uid": self.pod.uid(),
        })
    }
}

/// A port of a service on a pod: by number, or by the name of a container port.
fn port_of(port: &Value, pod: &Item) -> Option<Value> {
    let target = &port["targetPort"];
    let number = match (target.as_i64(), target.as_str()) {
        (Some(number), _) => number,
        (None, Some(name)) => named_port(pod, name, &port["protocol"])?,
        (None, None) => port["port"].as_i64()?,
    };
    let mut found = json!({"port": number, "protocol": port["protocol"]});
    for name in ["name", "appProtocol"] {
        if !port[name].is_null() {
            found[name] = port[name].clone();
        }
    }
    Some(found)
}

fn named_port(pod: &Item, name: &str, protocol: &Value) -> Option<i64> {
    let containers = pod.list("/spec/containers").iter();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let port = ports.find(|port| port["name"] == name && port["protocol"] == *protocol)?;
    port["containerPort"].as_i64()
}

fn is_headless(service: &Item) -> bool {
    service.text("/spec/clusterIP") == "None"
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
