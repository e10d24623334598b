//! Disruption budgets: the number of pods that may be evicted now.
//!
//! An eviction uses one of `disruptionsAllowed` and records the pod. The record is kept until the pod is seen being
//! deleted, or for two minutes; until then the pod does not count as healthy.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::LabelSelector;
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_wire::values::Round;

use crate::cluster::{Cluster, Task};
use crate::conditions::{self, Condition};
use crate::item::Item;
use crate::kinds::{disruption_budgets, pods};
use crate::pods::{is_active, is_ready};
use crate::rollout::amount;
use crate::time;

/// The time a recorded eviction is kept, as in Kubernetes.
const EVICTION_SECONDS: i64 = 120;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let affected = cluster.selecting(&disruption_budgets(), selector);
    let controller = cluster
        .controller("disruption-budgets", &disruption_budgets())
        .watches(cluster.informer(&pods()), affected, None);
    cluster.run(controller, reconcile)
}

fn selector(budget: &Item) -> Option<LabelSelector> {
    LabelSelector::from_json(budget.at("/spec/selector")).ok()
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(budget) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let Some(selector) = selector(&budget) else {
        return Ok(Action::Done);
    };
    let known = cluster.snapshot(&pods());
    let own = known
        .in_namespace(budget.namespace())
        .filter(|pod| selector.matches(&pod.header()));
    let mut own: Vec<Item> = own.map(Item::read).collect();
    own.retain(is_active);
    let (status, next) = status(&budget, &own);
    cluster.report(&disruption_budgets(), &budget, status).await?;
    Ok(next.map_or(Action::Done, Action::After))
}

/// The status, and the time until the oldest recorded eviction expires.
fn status(budget: &Item, pods: &[Item]) -> (Value, Option<Duration>) {
    let notes = evictions(budget, pods);
    let healthy = pods
        .iter()
        .filter(|pod| is_ready(pod) && !notes.iter().any(|(name, ..)| *name == pod.name()));
    let (healthy, expected) = (count(healthy.count()), count(pods.len()));
    let wanted = match budget.at("/spec/maxUnavailable") {
        Value::Null => amount(budget.at("/spec/minAvailable"), expected, Round::Up).unwrap_or(1),
        most => (expected - amount(most, expected, Round::Up).unwrap_or_default()).max(0),
    };
    let allowed = (healthy - wanted).max(0);
    let (reason, holds) = match allowed {
        0 => ("InsufficientPods", false),
        _ => ("SufficientPods", true),
    };
    let allowance = Condition {
        kind: "DisruptionAllowed",
        holds: Some(holds),
        reason,
        message: "",
    };
    let mut conditions = conditions::with(budget.list("/status/conditions"), allowance);
    for condition in &mut conditions {
        condition["message"] = json!("");
        condition["observedGeneration"] = json!(budget.generation());
    }
    let gone = budget
        .at("/status/disruptedPods")
        .as_object()
        .into_iter()
        .flatten();
    let mut disrupted: serde_json::Map<String, Value> =
        gone.map(|(name, _)| (name.clone(), Value::Null)).collect();
    for (name, since, _) in &notes {
        disrupted.insert((*name).to_owned(), (*since).clone());
    }
    let status = json!({
        "observedGeneration": budget.generation(),
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "disruptedPods": disrupted,
        "conditions": conditions,
    });
    (status, notes.iter().map(|(.., left)| *left).min())
}

/// The pods that were evicted but are not being deleted yet: name, time, and remaining time.
fn evictions<'a>(budget: &'a Item, pods: &[Item]) -> Vec<(&'a str, &'a Value, Duration)> {
    let noted = budget
        .at("/status/disruptedPods")
        .as_object()
        .into_iter()
        .flatten();
    let noted = noted.filter(|(name, _)| pods.iter().any(|pod| pod.name() == *name));
    noted
        .filter_map(|(name, since)| {
            let left = time::left(time::read(since)?, EVICTION_SECONDS)?;
            Some((name.as_str(), since, left))
        })
        .collect()
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX)
}
