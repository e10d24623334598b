//! Deletes pods from nodes with `NoExecute` taints they do not tolerate, or no longer.
//!
//! A toleration with `tolerationSeconds` counts from when the taint is first seen; if the taint is removed before,
//! the pod stays.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_client::Error;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::controller::{Action, Mapping, Request};
use watchkeeper_wire::Object;

use crate::cluster::{Cluster, Task};
use crate::conditions::{self, Condition};
use crate::events;
use crate::item::Item;
use crate::kinds::{nodes, pods};
use crate::placement::stands;
use crate::pods::has_ended;
use crate::scheduler::BY_NODE;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let since: Arc<Since> = Arc::default();
    let controller = cluster.controller("taint-eviction", &pods()).watches(
        cluster.informer(&nodes()),
        pods_on(cluster),
        None,
    );
    cluster.run(controller, move |cluster, request| {
        let since = since.clone();
        async move { reconcile(&cluster, &since, request).await }
    })
}

/// The time since which each pod tolerates its taints only temporarily, with its uid.
type Since = Mutex<HashMap<ObjectKey, (String, Instant)>>;

fn pods_on(cluster: &Cluster) -> Mapping {
    let store = cluster.informer(&pods()).store().clone();
    Arc::new(move |node| {
        let pods = store.snapshot();
        let own = pods.by_index(BY_NODE, node.name()).into_iter().flatten();
        own.map(Object::key).collect()
    })
}

/// The time a pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Forever,
    For(Duration),
}

async fn reconcile(cluster: &Cluster, since: &Since, request: Request) -> Result<Action, Error> {
    let Some(pod) = Item::living(&request).filter(|pod| !has_ended(pod)) else {
        since.lock().remove(&request.key);
        return Ok(Action::Done);
    };
    let known = cluster.snapshot(&nodes());
    let Some(node) = known.find("", pod.text("/spec/nodeName")).map(Item::read) else {
        return Ok(Action::Done);
    };
    let Stay::For(span) = stay(&node, &pod) else {
        if since.lock().remove(&request.key).is_some() {
            let words = format!("Cancelling deletion of Pod {}/{}", pod.namespace(), pod.name());
            cluster
                .events
                .normal(events::TAINT_EVICTION, &pod, "TaintManagerEviction", words);
        }
        return Ok(Action::Done);
    };
    let first_seen = {
        let mut since = since.lock();
        let entry = since
            .entry(pod.key())
            .or_insert_with(|| (pod.uid().to_owned(), Instant::now()));
        if entry.0 != pod.uid() {
            *entry = (pod.uid().to_owned(), Instant::now());
        }
        entry.1
    };
    match span.checked_sub(first_seen.elapsed()) {
        Some(left) if !left.is_zero() => Ok(Action::After(left)),
        _ => evict(cluster, &pod).await.map(|()| Action::Done),
    }
}

/// The time a pod tolerates the taints of its node.
fn stay(node: &Item, pod: &Item) -> Stay {
    let tolerations = pod.list("/spec/tolerations");
    let mut shortest: Option<Duration> = None;
    for taint in node
        .list("/spec/taints")
        .iter()
        .filter(|taint| taint["effect"] == "NoExecute")
    {
        let bearing: Vec<&Value> = tolerations.iter().filter(|one| stands(one, taint)).collect();
        let limits = bearing.iter().filter_map(|one| one["tolerationSeconds"].as_i64());
        let limit = match bearing.is_empty() {
            true => Some(Duration::ZERO),
            false => limits
                .min()
                .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default())),
        };
        shortest = [shortest, limit].into_iter().flatten().min();
    }
    shortest.map_or(Stay::Forever, Stay::For)
}

async fn evict(cluster: &Cluster, pod: &Item) -> Result<(), Error> {
    let words = format!("Marking for deletion Pod {}/{}", pod.namespace(), pod.name());
    cluster
        .events
        .normal(events::TAINT_EVICTION, pod, "TaintManagerEviction", words);
    let evicted = Condition {
        kind: "DisruptionTarget",
        holds: Some(true),
        reason: "DeletionByTaintManager",
        message: "Taint manager: deleting due to NoExecute taint",
    };
    let conditions = conditions::with(pod.list("/status/conditions"), evicted);
    cluster
        .report(&pods(), pod, json!({"conditions": conditions}))
        .await?;
    cluster.delete(&pods(), pod, None).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    #[track_caller]
    fn check(tolerations: Value, wanted: Stay) {
        let node = item(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"},
            "spec": {"taints": [
                {"key": "gone", "effect": "NoExecute"}, {"key": "gpu", "effect": "NoSchedule"},
            ]},
        }));
        let pod = item(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"tolerations": tolerations},
        }));
        assert_eq!(stay(&node, &pod), wanted);
    }

    #[test]
    fn a_pod_stays_as_long_as_it_tolerates_what_executes() {
        check(json!([]), Stay::For(Duration::ZERO));
        let bears =
            |seconds: Value| json!({"key": "gone", "operator": "Exists", "tolerationSeconds": seconds});
        check(json!([bears(Value::Null)]), Stay::Forever);
        check(json!([bears(json!(30))]), Stay::For(Duration::from_secs(30)));
        check(
            json!([bears(json!(30)), bears(json!(5))]),
            Stay::For(Duration::from_secs(5)),
        );
        check(json!([bears(json!(-1))]), Stay::For(Duration::ZERO));
    }
}
