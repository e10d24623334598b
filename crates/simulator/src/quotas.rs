//! Resource quotas: the usage of a namespace.
//!
//! ```text
//! a quota is new, or limits something else ─┐
//! an object goes, or takes another amount ──┼─▶ count the objects that the quota is about ─▶ its status
//! now and then ─────────────────────────────┘
//! ```
//!
//! The server charges a write before it is stored, so new objects are counted already; counting them before they
//! exist would undo that. Only what objects release is counted here. A count may miss an object that was charged but
//! is not in the store yet, so a count that changed something is repeated soon.
//!
//! Objects of custom kinds are counted when a quota is checked; their deletion is not watched.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_kinds::quota::{Usage, amounts, is_about, resource_of, usage};
use watchkeeper_meta::{GroupResource, ListOptions, Resource, Scope};
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Predicate, Request};
use watchkeeper_runtime::delta::Delta;
use watchkeeper_wire::Object;
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use crate::cluster::{Cluster, Task};
use crate::garbage::{collectable, established};
use crate::item::Item;
use crate::kinds::{custom_resource_definitions, quotas};

/// The interval of periodic counts, as in Kubernetes.
const RECOUNT: Duration = Duration::from_secs(5 * 60);
/// Longer than a charged object takes to be stored and seen.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let options = ControllerOptions {
        predicate: Some(Arc::new(limits_anew)),
        ..ControllerOptions::default()
    };
    let mut controller = DynamicController::new("quotas", cluster.informer(&quotas()), options);
    for resource in collectable() {
        if resource.scope == Scope::Namespaced {
            let informer = cluster.informer(&resource);
            let predicate = takes_anew(cluster, resource.group_resource());
            controller = controller.watches(informer, cluster.all_of(&quotas()), Some(predicate));
        }
    }
    cluster.run(controller, reconcile)
}

/// True if a quota's limits have changed, not its usage.
fn limits_anew(change: &Delta) -> bool {
    match change {
        Delta::Added { .. } => true,
        Delta::Updated { old, new, .. } => old.uid() != new.uid() || spec(old) != spec(new),
        Delta::Deleted { .. } => false,
    }
}

fn spec(object: &Object) -> Value {
    Item::read(object)["spec"].clone()
}

/// True if the usage of an object has changed and a quota counts it.
fn takes_anew(cluster: &Cluster, resource: GroupResource) -> Predicate {
    let store = cluster.informer(&quotas()).store().clone();
    let is_measured = is_measured(&resource);
    Arc::new(move |change| {
        if store
            .snapshot()
            .in_namespace(change.object().namespace())
            .next()
            .is_none()
        {
            return false;
        }
        // An active deadline set later moves a pod from one scope to another.
        let taken = |object: &Object| {
            let object = object.to_value().unwrap_or_default();
            let usage = usage(&resource, &object);
            (usage, object["spec"]["activeDeadlineSeconds"].clone())
        };
        match change {
            Delta::Added { .. } => false,
            Delta::Updated { old, new, .. } => is_measured && taken(old) != taken(new),
            Delta::Deleted { .. } => true,
        }
    })
}

/// True if the usage of an object depends on its content. Others are only counted.
fn is_measured(resource: &GroupResource) -> bool {
    let measured = [
        ("", "persistentvolumeclaims"),
        ("", "pods"),
        ("", "services"),
        ("resource.k8s.io", "resourceclaims"),
    ];
    measured.contains(&(&*resource.group, &*resource.resource))
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(quota) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let hard = quota.at("/spec/hard");
    let used = used(&cluster, &quota, &amounts(hard)).await?;
    let used = used
        .into_iter()
        .map(|(name, amount)| (name, json!(amount.to_string())));
    let status = json!({"hard": hard, "used": Value::Object(used.collect())});
    if quota["status"] == status {
        return Ok(Action::After(RECOUNT));
    }
    cluster.replace_status(&quotas(), &quota, status).await?;
    Ok(Action::After(SECOND_LOOK))
}

/// The usage of everything a quota limits.
async fn used(cluster: &Cluster, quota: &Item, hard: &Usage) -> Result<Usage, Error> {
    let mut used: Usage = hard.keys().map(|name| (name.clone(), number(0))).collect();
    let resources: BTreeSet<GroupResource> = hard.keys().map(|name| resource_of(name)).collect();
    let builtin = collectable();
    for resource in resources {
        match builtin.iter().find(|known| known.group_resource() == resource) {
            Some(known) => measure(cluster, quota, known, &mut used),
            None => count(cluster, quota.namespace(), &resource, &mut used).await?,
        }
    }
    Ok(used)
}

/// Adds the usage of the objects of a resource.
fn measure(cluster: &Cluster, quota: &Item, resource: &Resource, used: &mut Usage) {
    let (known, name) = (cluster.snapshot(resource), resource.group_resource());
    let objects = known.in_namespace(quota.namespace());
    if !is_measured(&name) {
        let each = usage(&name, &Value::Null).into_keys();
        let all = number(objects.count() as i64);
        let all: Usage = each.map(|under| (under, all.clone())).collect();
        return add(used, &all);
    }
    for object in objects.map(Item::read) {
        if is_about(quota.value(), &name, object.value()) {
            add(used, &usage(&name, object.value()));
        }
    }
}

/// Adds the number of objects of a custom kind; zero if it is not defined.
async fn count(
    cluster: &Cluster,
    namespace: &str,
    resource: &GroupResource,
    used: &mut Usage,
) -> Result<(), Error> {
    let definitions = cluster.snapshot(&custom_resource_definitions());
    let Some(kind) = definitions.find("", &resource.to_string()).and_then(established) else {
        return Ok(());
    };
    let options = ListOptions {
        limit: Some(1),
        ..ListOptions::default()
    };
    let list = cluster.api(&kind, namespace).list().with(&options).await?;
    let count = list.items.len() as i64 + list.head.remaining_item_count.unwrap_or_default();
    let name = format!("count/{resource}");
    add(used, &Usage::from([(name, number(count))]));
    Ok(())
}

/// Adds amounts of the limited resources.
fn add(used: &mut Usage, taken: &Usage) {
    for (name, amount) in used {
        if let Some(sum) = taken.get(name).and_then(|more| amount.checked_add(more)) {
            *amount = sum;
        }
    }
}

fn number(count: i64) -> Quantity {
    Quantity::new(count, QuantityFormat::DecimalSi)
}
