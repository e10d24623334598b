//! Inter-pod affinity, anti-affinity and topology spread constraints.
//!
//! Every rule is about nodes that share the value of a label, the topology. For each rule, the values with matching
//! pods are found first; a node is then evaluated by its own value alone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use watchkeeper_meta::LabelSelector;

use super::fit::{Obstacle, text};
use super::sites::{Site, Tenant, View};
use crate::cluster::Cluster;
use crate::item::Item;
use crate::kinds::namespaces;
use crate::placement::{matches, tolerates};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The effect of existing pods on a pod to schedule.
pub(super) struct Neighbours {
    wanted: Vec<Places>,
    /// True if the pod would be the first of its affinity group, and may go anywhere.
    is_first: bool,
    unwanted: Vec<Places>,
    /// The topologies from which others exclude the pod.
    banned: BTreeSet<(String, String)>,
    spreads: Vec<Spread>,
    /// Preferences, each with its weight; negative for anti-affinity.
    preferred: Vec<(i64, Places)>,
}

/// The values of a label at which matching pods run.
struct Places {
    key: String,
    values: BTreeSet<String>,
}

/// A topology spread constraint with current counts.
struct Spread {
    key: String,
    max_skew: i64,
    counts: BTreeMap<String, i64>,
    least: i64,
    /// 1 if the pod itself counts.
    own: i64,
}

/// The pods that an affinity term selects.
struct Term<'a> {
    selector: LabelSelector,
    namespaces: BTreeSet<String>,
    key: &'a str,
}

impl<'a> Term<'a> {
    /// Parses the term of a pod in a namespace.
    fn read(cluster: &Cluster, term: &'a Value, namespace: &str, labels: &Value) -> Option<Self> {
        let mut selector = term["labelSelector"].clone();
        for key in term["matchLabelKeys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !labels[key].is_null() {
                selector["matchLabels"][key] = labels[key].clone();
            }
        }
        if selector.is_null() {
            return None;
        }
        let listed = term["namespaces"].as_array().into_iter().flatten();
        let mut namespaces: BTreeSet<String> = listed.filter_map(Value::as_str).map(str::to_owned).collect();
        let by_label = &term["namespaceSelector"];
        if namespaces.is_empty() && by_label.is_null() {
            namespaces.insert(namespace.to_owned());
        }
        if let Ok(by_label) = LabelSelector::from_json(by_label)
            && term["namespaceSelector"].is_object()
        {
            let known = cluster.snapshot(&self::namespaces());
            let selected = known.iter().filter(|one| by_label.matches(&one.header()));
            namespaces.extend(selected.map(|one| one.name().to_owned()));
        }
        Some(Self {
            selector: LabelSelector::from_json(&selector).ok()?,
            namespaces,
            key: text(&term["topologyKey"]),
        })
    }

    fn means(&self, namespace: &str, labels: &Value) -> bool {
        self.namespaces.contains(namespace) && self.selector.matches(labels)
    }

    fn places(&self, sites: &View<'_>) -> Places {
        let has = |site: &&Site| {
            let mut pods = site.pods.iter();
            pods.any(|pod| self.means(pod.key.namespace(), &pod.labels))
        };
        let values = sites
            .iter()
            .filter(has)
            .filter_map(|site| value(&site.node, self.key));
        Places {
            key: self.key.to_owned(),
            values: values.collect(),
        }
    }
}

impl Places {
    fn has(&self, node: &Item) -> bool {
        value(node, &self.key).is_some_and(|value| self.values.contains(&value))
    }
}

/// The value of a node's label.
fn value(node: &Item, key: &str) -> Option<String> {
    node.label(key).map(|value| value.into_owned())
}

impl Neighbours {
    pub(super) fn of(cluster: &Cluster, pod: &Item, tenant: &Tenant, sites: &View<'_>) -> Self {
        let affinity = &pod["spec"]["affinity"];
        let term = |term| Term::read(cluster, term, pod.namespace(), &tenant.labels);
        let required = |kind: &str| -> Vec<Term<'_>> {
            let terms = affinity[kind][REQUIRED].as_array().into_iter().flatten();
            terms.filter_map(term).collect()
        };
        let (near, far) = (required("podAffinity"), required("podAntiAffinity"));
        let wanted: Vec<Places> = near.iter().map(|term| term.places(sites)).collect();
        let is_own = |term: &Term<'_>| term.means(pod.namespace(), &tenant.labels);
        let is_first = wanted.iter().all(|places| places.values.is_empty()) && near.iter().all(is_own);
        let preferred = |kind: &str, sign: i64| -> Vec<(i64, Places)> {
            let terms = affinity[kind][PREFERRED].as_array().into_iter().flatten();
            let terms = terms.filter_map(|one| Some((&one["weight"], term(&one["podAffinityTerm"])?)));
            let places =
                terms.map(|(weight, term)| (sign * weight.as_i64().unwrap_or_default(), term.places(sites)));
            places.collect()
        };
        let mut all_preferred = preferred("podAffinity", 1);
        all_preferred.extend(preferred("podAntiAffinity", -1));
        Self {
            wanted,
            is_first,
            unwanted: far.iter().map(|term| term.places(sites)).collect(),
            banned: banned(cluster, pod, tenant, sites),
            spreads: spreads(pod, tenant, sites),
            preferred: all_preferred,
        }
    }

    /// The reason a pod cannot be on a node because of others.
    pub(super) fn obstacle(&self, node: &Item) -> Option<Obstacle> {
        for spread in &self.spreads {
            let Some(value) = value(node, &spread.key) else {
                let words = "node(s) didn't match pod topology spread constraints (missing required label)";
                return Some(Obstacle {
                    is_about_others: false,
                    ..Obstacle::of_others(words)
                });
            };
            let there = spread.counts.get(&value).copied().unwrap_or_default();
            if there + spread.own - spread.least > spread.max_skew {
                let words = "node(s) didn't match pod topology spread constraints";
                return Some(Obstacle::of_others(words));
            }
        }
        let is_banned = |(key, banned): &(String, String)| value(node, key).is_some_and(|own| own == *banned);
        if self.banned.iter().any(is_banned) {
            let words = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Some(Obstacle::of_others(words));
        }
        if self.unwanted.iter().any(|places| places.has(node)) {
            let words = "node(s) didn't match pod anti-affinity rules";
            return Some(Obstacle::of_others(words));
        }
        let is_near = |places: &Places| match self.is_first {
            true => value(node, &places.key).is_some(),
            false => places.has(node),
        };
        if !self.wanted.iter().all(is_near) {
            return Some(Obstacle {
                is_about_others: false,
                ..Obstacle::of_others("node(s) didn't match pod affinity rules")
            });
        }
        None
    }

    /// The preference for a node because of the pods near it.
    pub(super) fn preference(&self, node: &Item) -> i64 {
        let met = self.preferred.iter().filter(|(_, places)| places.has(node));
        met.map(|(weight, _)| weight).sum()
    }

    /// The preference for a node that is near all wanted pods and far from all unwanted ones.
    pub(super) fn most_preferred(&self) -> i64 {
        let weights = self.preferred.iter().map(|(weight, _)| weight);
        weights.filter(|weight| **weight > 0).sum()
    }
}

/// The topologies with pods whose anti-affinity excludes this one.
fn banned(cluster: &Cluster, pod: &Item, tenant: &Tenant, sites: &View<'_>) -> BTreeSet<(String, String)> {
    let mut banned = BTreeSet::new();
    for site in sites.repelling() {
        for other in site.pods.iter().filter(|other| !other.anti_affinity.is_empty()) {
            for term in &other.anti_affinity {
                let term = Term::read(cluster, term, other.key.namespace(), &other.labels);
                let term = term.filter(|term| term.means(pod.namespace(), &tenant.labels));
                let place = term.and_then(|term| Some((term.key.to_owned(), value(&site.node, term.key)?)));
                banned.extend(place);
            }
        }
    }
    banned
}

/// The current counts of every mandatory spread constraint.
fn spreads(pod: &Item, tenant: &Tenant, sites: &View<'_>) -> Vec<Spread> {
    let rules = pod.list("/spec/topologySpreadConstraints").iter();
    let strict: Vec<&Value> = rules
        .filter(|rule| rule["whenUnsatisfiable"] == "DoNotSchedule")
        .collect();
    if strict.is_empty() {
        return Vec::new();
    }
    let keys: Vec<&str> = strict.iter().map(|rule| text(&rule["topologyKey"])).collect();
    let has_keys = |site: &&Site| keys.iter().all(|key| value(&site.node, key).is_some());
    let eligible: Vec<&Site> = sites.iter().filter(has_keys).collect();
    strict
        .iter()
        .map(|rule| spread(rule, pod, tenant, &eligible))
        .collect()
}

fn spread(rule: &Value, pod: &Item, tenant: &Tenant, eligible: &[&Site]) -> Spread {
    let mut selector = rule["labelSelector"].clone();
    for key in rule["matchLabelKeys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        selector["matchLabels"][key] = tenant.labels[key].clone();
    }
    let selector = LabelSelector::from_json(&selector).ok();
    let counts_pod = |labels: &Value| selector.as_ref().is_some_and(|selector| selector.matches(labels));
    let key = text(&rule["topologyKey"]);
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let spec = &pod["spec"];
    for site in eligible {
        let is_ignored = rule["nodeAffinityPolicy"] != "Ignore" && !matches(&site.node, spec);
        let is_tainted =
            rule["nodeTaintsPolicy"] == "Honor" && !tolerates(&site.node, spec, &["NoSchedule", "NoExecute"]);
        let Some(value) = value(&site.node, key).filter(|_| !is_ignored && !is_tainted) else {
            continue;
        };
        let there = site.pods.iter().filter(|other| {
            other.key.namespace() == pod.namespace() && !other.is_deleting && counts_pod(&other.labels)
        });
        *counts.entry(value).or_default() += there.count() as i64;
    }
    let domains = counts.len() as i64;
    let is_enough = rule["minDomains"].as_i64().is_none_or(|least| domains >= least);
    let least = counts.values().copied().min().filter(|_| is_enough);
    Spread {
        key: key.to_owned(),
        max_skew: rule["maxSkew"].as_i64().unwrap_or(1),
        least: least.unwrap_or_default(),
        own: i64::from(counts_pod(&tenant.labels)),
        counts,
    }
}
