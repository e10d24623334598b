//! Endpoints: where the pods of a service are, as slices and in the older form.
//!
//! ```text
//! service ──selector──▶ pods with an address ──▶ one port set each ──▶ slices of up to 100 ──▶ compared with what is there
//! ```
//!
//! A slice that says what it should is left alone, so a pod that changes costs one write.

mod slices;

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::{LabelSelector, ObjectKey};
use watchkeeper_runtime::controller::{Action, Mapping, Request};

use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::{endpoint_slices, endpoints, pods, services};
use crate::pods::{has_ended, is_ready};

/// On a slice, the service it is of.
const SERVICE: &str = "kubernetes.io/service-name";
/// On a slice, who looks after it.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// On services and endpoints without an address of their own.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// 1000, as Kubernetes: the older form names no more.
const MAX_ADDRESSES: usize = 1000;

/// Keeps slices and endpoints of services.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let of_service: Mapping = Arc::new(|slice| {
        let service = slice.label(SERVICE);
        let key = service.map(|service| ObjectKey::new(slice.namespace(), &service));
        key.into_iter().collect()
    });
    let same_name: Mapping = Arc::new(|endpoints| vec![endpoints.key()]);
    let controller = cluster
        .controller("endpoints", &services())
        .watches(
            cluster.informer(&pods()),
            cluster.selecting(&services(), selector),
            None,
        )
        .watches(cluster.informer(&endpoint_slices()), of_service, None)
        .watches(cluster.informer(&endpoints()), same_name, None);
    cluster.run(controller, reconcile)
}

/// Which pods a service is for; one without a selector has its endpoints from somebody else.
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
    slices::keep(&cluster, &service, &targets).await?;
    keep_endpoints(&cluster, &service, &targets).await?;
    Ok(Action::Done)
}

/// A pod that serves, or will, or has.
struct Target {
    pod: Item,
    address: String,
    /// The ports of the service, as this pod has them.
    ports: Vec<Value>,
}

impl Target {
    /// `None` for a pod that cannot be reached.
    fn of(service: &Item, pod: Item) -> Option<Self> {
        let address = pod.text("/status/podIP").to_owned();
        if address.is_empty() || has_ended(&pod) {
            return None;
        }
        let ports = service.list("/spec/ports").iter();
        let ports = ports.filter_map(|port| port_of(port, &pod)).collect();
        Some(Self { pod, address, ports })
    }

    /// Whether it can be sent to by those who are asked to send.
    fn is_ready(&self, service: &Item) -> bool {
        service.at("/spec/publishNotReadyAddresses") == true
            || (is_ready(&self.pod) && !self.pod.is_deleting())
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

/// A port of a service, on a pod: by number, or by the name its container gives it.
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

/// The older form: all pods with the same ports are a subset.
async fn keep_endpoints(cluster: &Cluster, service: &Item, targets: &[Target]) -> Result<(), Error> {
    let mut subsets: Vec<(&[Value], Vec<Value>, Vec<Value>)> = Vec::new();
    for target in targets
        .iter()
        .filter(|target| !target.pod.is_deleting())
        .take(MAX_ADDRESSES)
    {
        let place = subsets.iter().position(|(ports, ..)| *ports == target.ports);
        let place = place.unwrap_or_else(|| {
            subsets.push((&target.ports, Vec::new(), Vec::new()));
            subsets.len() - 1
        });
        let address = json!({
            "ip": target.address,
            "nodeName": target.pod.text("/spec/nodeName"),
            "targetRef": target.reference(),
        });
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
    let subsets = json!(subsets.collect::<Vec<_>>());
    let mut labels = service["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    labels.insert(
        "endpoints.kubernetes.io/managed-by".to_owned(),
        json!("endpoint-controller"),
    );
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    let known = cluster.snapshot(&endpoints());
    let Some(known) = known.get(&service.key()).map(Item::read) else {
        let metadata = json!({"name": service.name(), "labels": labels});
        let object = json!({"metadata": metadata, "subsets": subsets});
        return cluster
            .create(&endpoints(), service.namespace(), object)
            .await
            .map(drop);
    };
    let is_same = known["subsets"] == subsets || (known["subsets"].is_null() && subsets == json!([]));
    if is_same && known["metadata"]["labels"] == json!(labels) {
        return Ok(());
    }
    let patch = json!({"metadata": {"labels": labels}, "subsets": subsets});
    cluster.merge(&endpoints(), &known, patch).await.map(drop)
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
