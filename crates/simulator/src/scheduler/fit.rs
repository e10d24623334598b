//! Filters: the reasons a node does not fit a pod, in the order and with the texts of Kubernetes' scheduler.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use super::neighbours::Neighbours;
use super::sites::{Site, Tenant, View};
use crate::cluster::{Cluster, neighbour};
use crate::item::Item;
use crate::kinds::claims;
use crate::placement::{is_barred, matches, most_preferred, preference, tolerates};

/// The reason a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) reasons: Vec<String>,
    /// True if preempting other pods could help.
    pub(super) is_about_others: bool,
}

impl Obstacle {
    fn of_node(reason: &str) -> Self {
        Self {
            reasons: vec![reason.to_owned()],
            is_about_others: false,
        }
    }

    pub(super) fn of_others(reason: &str) -> Self {
        Self {
            is_about_others: true,
            ..Self::of_node(reason)
        }
    }
}

/// A pod to schedule.
pub(super) struct Candidate<'a> {
    pub(super) pod: &'a Item,
    pub(super) tenant: Tenant,
    neighbours: Neighbours,
    /// A missing claim, which rules out every node.
    missing: Option<String>,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(cluster: &Cluster, pod: &'a Item, sites: &View<'_>) -> Self {
        let tenant = Tenant::read(pod);
        Self {
            pod,
            neighbours: Neighbours::of(cluster, pod, &tenant, sites),
            tenant,
            missing: missing_claim(cluster, pod),
        }
    }

    /// The reason a node does not fit, if it does not.
    pub(super) fn obstacle(&self, site: &Site) -> Option<Obstacle> {
        self.missing
            .as_deref()
            .map(Obstacle::of_node)
            .or_else(|| self.obstacle_of_node(site))
            .or_else(|| self.taken_port(site))
            .or_else(|| self.lack(site))
            .or_else(|| self.neighbours.obstacle(&site.node))
    }

    fn obstacle_of_node(&self, site: &Site) -> Option<Obstacle> {
        let (node, spec) = (&site.node, &self.pod["spec"]);
        let is_tolerated = tolerates(node, spec, &["NoSchedule", "NoExecute"]) && site.is_ready;
        if is_barred(node, spec) {
            Some(Obstacle::of_node("node(s) were unschedulable"))
        } else if !is_tolerated {
            Some(Obstacle::of_node("node(s) had untolerated taint(s)"))
        } else if !matches(node, spec) {
            let words = "node(s) didn't match Pod's node affinity/selector";
            Some(Obstacle::of_node(words))
        } else {
            None
        }
    }

    fn taken_port(&self, site: &Site) -> Option<Obstacle> {
        let mut taken = site.pods.iter().flat_map(|pod| &pod.host_ports);
        let collides = taken.any(|port| self.tenant.host_ports.iter().any(|own| own.collides(port)));
        let words = "node(s) didn't have free ports for the requested pod ports";
        collides.then(|| Obstacle::of_others(words))
    }

    /// The resources a node lacks.
    fn lack(&self, site: &Site) -> Option<Obstacle> {
        let allocatable = &site.allocatable;
        let mut reasons = Vec::new();
        let mut is_ever_enough = true;
        let places = allocatable.get("pods").and_then(|pods| pods.to_i64());
        if places.is_some_and(|places| site.pods.len() as i64 >= places) {
            reasons.push("Too many pods".to_owned());
        }
        for (name, wanted) in self
            .tenant
            .requests
            .iter()
            .filter(|(_, wanted)| !wanted.is_zero())
        {
            let mut taken = site.pods.iter().filter_map(|pod| pod.requests.get(name));
            let total = taken.try_fold(wanted.clone(), |sum, more| sum.checked_add(more));
            let room = allocatable.get(name);
            let fits = matches!((&total, room), (Some(total), Some(room)) if total <= room);
            if !fits {
                reasons.push(format!("Insufficient {name}"));
                is_ever_enough &= room.is_some_and(|room| wanted <= room);
            }
        }
        (!reasons.is_empty()).then_some(Obstacle {
            reasons,
            is_about_others: is_ever_enough,
        })
    }

    /// The fitting node that the pod prefers, of several equal ones the one with the fewest pods; or why none fits.
    pub(super) fn best<'s>(&self, sites: &'s View<'_>) -> Result<&'s Site, BTreeMap<String, Obstacle>> {
        let nominated = sites.get(self.pod.text("/status/nominatedNodeName"));
        if let Some(site) = nominated.filter(|site| self.obstacle(site).is_none()) {
            return Ok(site);
        }
        let (mut best, mut obstacles) = (None, BTreeMap::new());
        for site in sites.in_order(self.tolerates_taints()) {
            if let Some(obstacle) = self.obstacle(site) {
                obstacles.insert(site.name().to_owned(), obstacle);
                continue;
            }
            let rank = self.rank(site);
            // Nothing can be better: a pod without preferences takes the first node that fits.
            if rank == (false, Reverse(self.most_preferred())) {
                return Ok(site);
            }
            if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                best = Some((rank, site));
            }
        }
        best.map(|(_, site)| site).ok_or(obstacles)
    }

    /// The ranking of fitting nodes, the best first: whether it is avoided, and the preference.
    fn rank(&self, site: &Site) -> (bool, Reverse<i64>) {
        let spec = &self.pod["spec"];
        let is_avoided = !tolerates(&site.node, spec, &["PreferNoSchedule"]);
        let wish = preference(&site.node, spec) + self.neighbours.preference(&site.node);
        (is_avoided, Reverse(wish))
    }

    /// The preference for a node that meets all wishes.
    fn most_preferred(&self) -> i64 {
        most_preferred(&self.pod["spec"]) + self.neighbours.most_preferred()
    }

    /// True if the pod may be scheduled to some tainted nodes. Every pod tolerates that its node fails for a while.
    fn tolerates_taints(&self) -> bool {
        let mut tolerations = self.pod.list("/spec/tolerations").iter();
        tolerations.any(|toleration| toleration["effect"] != "NoExecute")
    }
}

/// The missing claim of a pod.
fn missing_claim(cluster: &Cluster, pod: &Item) -> Option<String> {
    let known = cluster.snapshot(&claims());
    let volumes = pod.list("/spec/volumes").iter();
    let mut names = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    let missing = names.find(|name| known.get(&neighbour(pod, name)).is_none())?;
    Some(format!("persistentvolumeclaim {missing:?} not found"))
}

/// The message of an unschedulable pod: each reason with its number of nodes, or the one for all nodes.
pub(super) fn words(
    candidate: &Candidate<'_>,
    obstacles: &BTreeMap<String, Obstacle>,
    nodes: usize,
) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    if let Some(missing) = &candidate.missing {
        return format!("0/{nodes} nodes are available: {missing}.");
    }
    let reasons = obstacles.values().flat_map(|obstacle| &obstacle.reasons);
    format!("0/{nodes} nodes are available: {}.", counted(reasons))
}

/// `2 Insufficient cpu, 1 node(s) were unschedulable`, sorted.
pub(super) fn counted(reasons: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason.as_ref().to_owned()).or_default() += 1;
    }
    let mut parts: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    parts.sort();
    parts.join(", ")
}

/// The text of a field; empty if missing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
