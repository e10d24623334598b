//! Preemption: chooses the pods to delete for one of higher priority.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use watchkeeper_meta::ObjectKey;

use super::fit::{Candidate, Obstacle, counted};
use super::sites::{Site, Tenant, View};

/// A node, and the pods to delete from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) node: String,
    pub(super) victims: Vec<ObjectKey>,
}

/// What the scheduler's plugin of resource claims says before: it has nothing to give back for the pod.
const NO_CLAIMS: &str = " no new claims to deallocate,";

/// The node with the least loss: the lowest highest priority, then the fewest pods. The error says, with Kubernetes'
/// text, why nobody is preempted.
pub(super) fn choose(
    candidate: &Candidate<'_>,
    sites: &View<'_>,
    obstacles: &BTreeMap<String, Obstacle>,
) -> Result<Choice, String> {
    if sites.len() == 0 {
        return Err(String::new());
    }
    if candidate.pod.text("/spec/preemptionPolicy") == "Never" {
        return Err(format!(
            "{NO_CLAIMS} preemption: not eligible due to preemptionPolicy=Never."
        ));
    }
    let mut best: Option<((i64, usize), Choice)> = None;
    let mut reasons = Vec::new();
    for site in sites.iter() {
        let is_helpful = obstacles
            .get(site.name())
            .is_some_and(|obstacle| obstacle.is_about_others);
        let victims = if is_helpful {
            victims(candidate, site)
        } else {
            Vec::new()
        };
        match (is_helpful, victims.iter().map(|victim| victim.priority).max()) {
            (false, _) => reasons.push("Preemption is not helpful for scheduling"),
            (true, None) => reasons.push("No preemption victims found for incoming pod"),
            (true, Some(highest)) => {
                let cost = (highest, victims.len());
                let choice = Choice {
                    node: site.name().to_owned(),
                    victims: victims.iter().map(|victim| victim.key.clone()).collect(),
                };
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, choice));
                }
            }
        }
    }
    best.map(|(_, choice)| choice).ok_or_else(|| {
        format!(
            "{NO_CLAIMS} preemption: 0/{} nodes are available: {}.",
            sites.len(),
            counted(reasons)
        )
    })
}

/// The pods of a node, the least important first, without which the candidate fits; empty if that is not enough.
fn victims<'s>(candidate: &Candidate<'_>, site: &'s Site) -> Vec<&'s Tenant> {
    let mut lesser: Vec<&Tenant> = site.pods.iter().map(|pod| &**pod).collect();
    lesser.retain(|pod| pod.priority < candidate.tenant.priority);
    lesser.sort_by_key(|pod| (pod.priority, Reverse(pod.key.clone())));
    for count in 1..=lesser.len() {
        let gone: Vec<ObjectKey> = lesser[..count].iter().map(|pod| pod.key.clone()).collect();
        if candidate.obstacle(&site.without(&gone)).is_none() {
            lesser.truncate(count);
            return lesser;
        }
    }
    Vec::new()
}
