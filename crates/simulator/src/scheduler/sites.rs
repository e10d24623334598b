//! Nodes and their pods. Each version of a pod or node is decoded once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use watchkeeper_kinds::pod_total;
use watchkeeper_kinds::quota::{Usage, amounts};
use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::Object;

use super::BY_NODE;
use crate::cluster::Cluster;
use crate::item::Item;
use crate::kinds::{nodes, pods};
use crate::pods::has_ended;

/// A node and the pods on it.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) node: Arc<Item>,
    pub(super) pods: Vec<Arc<Tenant>>,
}

/// The facts about a bound pod that matter for scheduling others.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) key: ObjectKey,
    pub(super) labels: Value,
    pub(super) requests: Usage,
    pub(super) host_ports: Vec<HostPort>,
    pub(super) priority: i64,
    /// Its anti-affinity terms.
    pub(super) anti_affinity: Vec<Value>,
    pub(super) is_deleting: bool,
    has_ended: bool,
    nominated_node: String,
}

/// A host port of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    address: String,
    protocol: String,
    port: i64,
}

impl HostPort {
    /// True if two host ports conflict.
    pub(super) fn collides(&self, other: &Self) -> bool {
        let is_any = |port: &Self| matches!(port.address.as_str(), "" | "0.0.0.0" | "::");
        let shares_address = is_any(self) || is_any(other) || self.address == other.address;
        shares_address && self.protocol == other.protocol && self.port == other.port
    }
}

impl Tenant {
    pub(super) fn read(pod: &Item) -> Self {
        let anti_affinity =
            pod.list("/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution");
        Self {
            key: pod.key(),
            labels: pod.at("/metadata/labels").clone(),
            requests: amounts(&pod_total(pod.value())["requests"]),
            host_ports: host_ports(pod),
            priority: pod.number("/spec/priority"),
            anti_affinity: anti_affinity.to_vec(),
            is_deleting: pod.is_deleting(),
            has_ended: has_ended(pod),
            nominated_node: pod.text("/status/nominatedNodeName").to_owned(),
        }
    }
}

fn host_ports(pod: &Item) -> Vec<HostPort> {
    let containers = pod.list("/spec/containers").iter();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let taken = ports.filter_map(|port| {
        Some(HostPort {
            address: text(&port["hostIP"]),
            protocol: text(&port["protocol"]),
            port: port["hostPort"].as_i64().filter(|port| *port != 0)?,
        })
    });
    taken.collect()
}

impl Site {
    pub(super) fn name(&self) -> &str {
        self.node.name()
    }

    /// The site without some of its pods.
    pub(super) fn without(&self, gone: &[ObjectKey]) -> Self {
        let mut left = self.clone();
        left.pods.retain(|pod| !gone.contains(&pod.key));
        left
    }
}

/// Decoded objects by uid: the version, and the facts.
type Read<T> = Mutex<HashMap<String, (String, Arc<T>)>>;

/// The cache of decoded nodes and pods.
#[derive(Default)]
pub(super) struct Sites {
    nodes: Read<Item>,
    tenants: Read<Tenant>,
}

impl Sites {
    /// All nodes with their pods, from the view of a pod: nominated pods of at least its priority count as bound.
    pub(super) fn see(&self, cluster: &Cluster, pod: &Item) -> Vec<Site> {
        let (known, pods) = (cluster.snapshot(&nodes()), cluster.snapshot(&pods()));
        let tenant = |pod: &Object| read(&self.tenants, pod, Tenant::read);
        let waiting = pods.by_index(BY_NODE, "").into_iter().flatten();
        let priority = pod.number("/spec/priority");
        let promised: Vec<Arc<Tenant>> = waiting
            .map(tenant)
            .filter(|other| !other.nominated_node.is_empty() && other.key != pod.key())
            .filter(|other| other.priority >= priority)
            .collect();
        let site = |node: &Object| {
            let there = pods.by_index(BY_NODE, node.name()).into_iter().flatten();
            let there = there.map(tenant).filter(|tenant| !tenant.has_ended);
            let kept = promised
                .iter()
                .filter(|other| other.nominated_node == node.name());
            Site {
                node: read(&self.nodes, node, Item::clone),
                pods: there.chain(kept.cloned()).collect(),
            }
        };
        let sites = known.iter().map(site).collect();
        forget(&self.nodes, known.len());
        forget(&self.tenants, pods.len());
        sites
    }
}

fn read<T>(known: &Read<T>, object: &Object, parse: fn(&Item) -> T) -> Arc<T> {
    let mut known = known.lock();
    if let Some((version, parsed)) = known.get(object.uid())
        && *version == object.resource_version()
    {
        return parsed.clone();
    }
    let parsed = Arc::new(parse(&Item::read(object)));
    let version = object.resource_version().to_owned();
    known.insert(object.uid().to_owned(), (version, parsed.clone()));
    parsed
}

/// Drops cached objects once most of them are gone.
fn forget<T>(known: &Read<T>, there_are: usize) {
    let mut known = known.lock();
    if known.len() > 2 * there_are + 100 {
        known.clear();
    }
}
