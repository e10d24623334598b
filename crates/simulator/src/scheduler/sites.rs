//! Nodes and their pods, kept up to date with the changes of the stores: looking costs as much as has changed, not as
//! much as there is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use watchkeeper_kinds::pod_total_with_overhead;
use watchkeeper_kinds::quota::{Usage, amounts};
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::delta::{Cause, Delta};
use watchkeeper_runtime::store::Snapshot;
use watchkeeper_wire::Object;

use super::BY_NODE;
use crate::cluster::Cluster;
use crate::item::Item;
use crate::kinds::{nodes, pods};
use crate::pods::has_ended;

/// The fields of a node that are looked at for each pod.
const KEPT: &[(&str, &str)] = &[
    ("metadata", "labels"),
    ("spec", "taints"),
    ("spec", "unschedulable"),
];

/// A node and the pods on it.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// With the [fields](KEPT) that decide about pods: there may be a hundred thousand.
    pub(super) node: Arc<Item>,
    pub(super) is_ready: bool,
    /// The resources it has for pods.
    pub(super) allocatable: Arc<Usage>,
    pub(super) pods: Vec<Arc<Tenant>>,
    /// True if a taint, a cordon or its condition keeps most pods away.
    is_closed: bool,
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
            requests: amounts(&pod_total_with_overhead(pod.value())["requests"]),
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
    fn new(node: &Object, pods: Vec<Arc<Tenant>>) -> Self {
        let node = Item::read(node);
        let is_tainted = |taint: &Value| taint["effect"] == "NoSchedule" || taint["effect"] == "NoExecute";
        let is_ready = node.holds("Ready");
        Self {
            allocatable: Arc::new(amounts(node.at("/status/allocatable"))),
            is_ready,
            is_closed: node.at("/spec/unschedulable") == true
                || !is_ready
                || node.list("/spec/taints").iter().any(is_tainted),
            node: Arc::new(node.with_only(KEPT)),
            pods,
        }
    }

    /// Its place among the sites: those with fewer pods come first.
    fn place(&self) -> Place {
        (self.pods.len(), self.name().to_owned())
    }

    fn repels(&self) -> bool {
        self.pods.iter().any(|pod| !pod.anti_affinity.is_empty())
    }

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

/// The number of pods and the name of a node.
type Place = (usize, String);

/// The scheduler's nodes and pods.
#[derive(Default)]
pub(super) struct Sites {
    known: Mutex<Known>,
    /// The pods that were tried and found no node. Inserted before a try, so that no change is missed meanwhile.
    waiting: Mutex<BTreeSet<ObjectKey>>,
}

/// The nodes and pods at the snapshots seen last.
#[derive(Default)]
struct Known {
    nodes: Arc<Snapshot>,
    pods: Arc<Snapshot>,
    sites: HashMap<String, Site>,
    /// The nodes for most pods, in order.
    open: BTreeSet<Place>,
    /// The other nodes.
    closed: BTreeSet<Place>,
    /// The nodes with pods that have anti-affinity.
    repelling: BTreeSet<String>,
    /// The node of every bound pod that has not ended.
    homes: HashMap<ObjectKey, String>,
    /// The pods without a node that were promised one.
    promised: BTreeMap<ObjectKey, Arc<Tenant>>,
}

impl Sites {
    /// All nodes with their pods, from the view of a pod: nominated pods of at least its priority count as bound.
    pub(super) fn see(&self, cluster: &Cluster, pod: &Item) -> View<'_> {
        let mut known = self.known.lock();
        known.update(cluster.snapshot(&nodes()), cluster.snapshot(&pods()));
        let priority = pod.number("/spec/priority");
        let mut crowded: HashMap<String, Site> = HashMap::new();
        let others = known.promised.iter().filter(|(key, _)| **key != pod.key());
        for (_, tenant) in others.filter(|(_, tenant)| tenant.priority >= priority) {
            let Some(site) = known.sites.get(&tenant.nominated_node) else {
                continue;
            };
            let site = crowded
                .entry(tenant.nominated_node.clone())
                .or_insert_with(|| site.clone());
            site.pods.push(tenant.clone());
        }
        View { known, crowded }
    }

    /// The pods that wait for a change.
    pub(super) fn waiting(&self) -> Vec<ObjectKey> {
        self.waiting.lock().iter().cloned().collect()
    }

    /// Notes that a pod waits, or that it no longer does.
    pub(super) fn note(&self, pod: &ObjectKey, waits: bool) {
        let mut waiting = self.waiting.lock();
        if waits {
            waiting.insert(pod.clone());
        } else {
            waiting.remove(pod);
        }
    }
}

impl Known {
    fn update(&mut self, nodes: Arc<Snapshot>, pods: Arc<Snapshot>) {
        let new_nodes = nodes.changes_since(&self.nodes, Cause::Watch);
        let new_pods = pods.changes_since(&self.pods, Cause::Watch);
        (self.nodes, self.pods) = (nodes, pods);
        for change in new_nodes {
            self.take_node(&change);
        }
        for change in new_pods {
            self.take_pod(&change);
        }
    }

    fn take_node(&mut self, change: &Delta) {
        let node = change.object();
        let before = self.remove(node.name());
        if !matches!(change, Delta::Deleted { .. }) {
            let pods = match before {
                Some(site) => site.pods,
                None => self.pods_on(node.name()),
            };
            self.insert(Site::new(node, pods));
        }
    }

    /// The pods of a new node, which may be older than it.
    fn pods_on(&self, node: &str) -> Vec<Arc<Tenant>> {
        let there = self.pods.by_index(BY_NODE, node).into_iter().flatten();
        let there = there.map(|pod| Arc::new(Tenant::read(&Item::read(pod))));
        there.filter(|tenant| !tenant.has_ended).collect()
    }

    fn take_pod(&mut self, change: &Delta) {
        let key = change.key();
        self.promised.remove(&key);
        if let Some(home) = self.homes.remove(&key) {
            self.change(&home, |pods| pods.retain(|pod| pod.key != key));
        }
        if matches!(change, Delta::Deleted { .. }) {
            return;
        }
        let pod = Item::read(change.object());
        let (node, tenant) = (pod.text("/spec/nodeName"), Arc::new(Tenant::read(&pod)));
        if node.is_empty() && !tenant.nominated_node.is_empty() {
            self.promised.insert(key, tenant);
        } else if !node.is_empty() && !tenant.has_ended {
            self.homes.insert(key.clone(), node.to_owned());
            self.change(node, |pods| {
                pods.retain(|pod| pod.key != key);
                pods.push(tenant);
            });
        }
    }

    /// Changes the pods of a node, if it is known.
    fn change(&mut self, node: &str, change: impl FnOnce(&mut Vec<Arc<Tenant>>)) {
        if let Some(mut site) = self.remove(node) {
            change(&mut site.pods);
            self.insert(site);
        }
    }

    fn insert(&mut self, site: Site) {
        let order = if site.is_closed {
            &mut self.closed
        } else {
            &mut self.open
        };
        order.insert(site.place());
        if site.repels() {
            self.repelling.insert(site.name().to_owned());
        }
        self.sites.insert(site.name().to_owned(), site);
    }

    fn remove(&mut self, node: &str) -> Option<Site> {
        let site = self.sites.remove(node)?;
        let place = site.place();
        self.open.remove(&place);
        self.closed.remove(&place);
        self.repelling.remove(node);
        Some(site)
    }
}

/// The sites at one moment, from the view of one pod.
pub(super) struct View<'a> {
    known: MutexGuard<'a, Known>,
    /// The sites that others were promised, with those.
    crowded: HashMap<String, Site>,
}

impl View<'_> {
    pub(super) fn len(&self) -> usize {
        self.known.sites.len()
    }

    pub(super) fn get(&self, node: &str) -> Option<&Site> {
        self.crowded.get(node).or_else(|| self.known.sites.get(node))
    }

    /// All sites, those with the fewest pods first. For a pod that tolerates no taints, closed ones come last.
    pub(super) fn in_order(&self, tolerates: bool) -> Box<dyn Iterator<Item = &Site> + '_> {
        let (open, closed) = (&self.known.open, &self.known.closed);
        let places: Box<dyn Iterator<Item = &Place>> = if tolerates {
            Box::new(open.union(closed))
        } else {
            Box::new(open.iter().chain(closed))
        };
        Box::new(places.filter_map(|(_, node)| self.get(node)))
    }

    /// All sites.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Site> {
        self.in_order(true)
    }

    /// The sites with pods that have anti-affinity.
    pub(super) fn repelling(&self) -> impl Iterator<Item = &Site> {
        let known = self.known.repelling.iter().filter_map(|node| self.get(node));
        let crowded = self.crowded.values().filter(|site| site.repels());
        known.chain(crowded)
    }
}
