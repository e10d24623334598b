//! Deleted namespaces: deletes their pods, then everything else in them, then the namespaces.
//!
//! Pods are deleted first, so that they keep what they use while they stop. What delays a namespace is reported in
//! its conditions, with Kubernetes' texts ([`findings`]).

mod findings;

use std::time::Duration;

use serde_json::json;
use watchkeeper_client::{DynamicApi, Error};
use watchkeeper_meta::{DeleteOptions, ListOptions, PropagationPolicy, Resource, Scope};
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_wire::Object;

use self::findings::Findings;
use crate::cluster::{Cluster, Task, ignore_gone};
use crate::item::Item;
use crate::kinds::{namespaces, pods};
use crate::time;

/// The delay before the next check of a namespace whose content was just deleted.
const SHORT_WAIT: Duration = Duration::from_millis(200);
/// The delay if something remains: a finalizer, or a pod that stops slowly.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// The finalizer of a namespace that is not empty.
const FINALIZER: &str = "kubernetes";

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    cluster.run(cluster.controller("namespaces", &namespaces()), terminate)
}

async fn terminate(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let namespace = request.object.as_ref().map(Item::read);
    let Some(namespace) = namespace.filter(|namespace| namespace.is_deleting() && is_kept(namespace)) else {
        return Ok(Action::Done);
    };
    let findings = empty(&cluster, namespace.name()).await;
    let conditions = findings.conditions(namespace.list("/status/conditions"));
    cluster
        .report(&namespaces(), &namespace, json!({"conditions": conditions}))
        .await?;
    if !findings.is_empty() {
        return Ok(Action::After(patience(&namespace)));
    }
    match finalize(&cluster, &namespace).await {
        Err(error) if error.is_conflict() => Ok(Action::After(SHORT_WAIT)),
        finalized => finalized.map(|()| Action::Done),
    }
}

fn is_kept(namespace: &Item) -> bool {
    namespace
        .list("/spec/finalizers")
        .iter()
        .any(|name| name == FINALIZER)
}

fn patience(namespace: &Object) -> Duration {
    let since = namespace.deletion_timestamp().unwrap_or_else(time::now);
    match time::left(since, 5) {
        Some(_) => SHORT_WAIT,
        None => LONG_WAIT,
    }
}

/// Removes this controller's finalizer from a namespace.
async fn finalize(cluster: &Cluster, namespace: &Item) -> Result<(), Error> {
    let known = cluster.snapshot(&namespaces());
    let Some(known) = known
        .find("", namespace.name())
        .filter(|known| known.uid() == namespace.uid())
    else {
        return Ok(());
    };
    let mut value = Item::read(known).value().clone();
    if let Some(finalizers) = value["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|name| name != FINALIZER);
    }
    let finalize = cluster.api(&namespaces(), "").subresource("finalize");
    ignore_gone(finalize.update(namespace.name(), &value).await.map(drop))
}

/// Deletes everything in a namespace: pods, and when none is left the rest.
async fn empty(cluster: &Cluster, namespace: &str) -> Findings {
    let mut findings = Findings::default();
    let first = Deletable {
        resource: pods(),
        at_once: true,
    };
    delete_all(cluster, namespace, &first, &mut findings).await;
    if findings.is_empty() {
        for kind in deletable(cluster, &mut findings).await {
            delete_all(cluster, namespace, &kind, &mut findings).await;
        }
    }
    findings
}

/// A resource whose objects can be deleted.
struct Deletable {
    resource: Resource,
    /// True if they can be deleted as a collection.
    at_once: bool,
}

/// All other namespaced resources, custom kinds included.
async fn deletable(cluster: &Cluster, findings: &mut Findings) -> Vec<Deletable> {
    let served = match cluster.client.discover().await {
        Ok(served) => served,
        Err(error) => {
            findings.undiscovered(error.to_string());
            return Vec::new();
        }
    };
    findings.undiscovered_groups(&served.failures);
    let namespaced = served.preferred_resources().filter(|known| {
        let verbs = ["delete", "list"].iter().all(|verb| known.has_verb(verb));
        known.resource.scope == Scope::Namespaced && verbs
    });
    let others = namespaced.filter(|known| known.resource != pods());
    let deletable = others.map(|known| Deletable {
        resource: known.resource.clone(),
        at_once: known.has_verb("deletecollection"),
    });
    deletable.collect()
}

/// Deletes all objects of a resource, and records the remaining ones.
async fn delete_all(cluster: &Cluster, namespace: &str, kind: &Deletable, findings: &mut Findings) {
    let api = cluster.api(&kind.resource, namespace);
    match delete_in(&api, kind.at_once).await {
        Ok(left) => findings.remaining(&kind.resource, &left),
        // A kind that is no longer served has nothing to delete.
        Err(error) if error.is_not_found() => {}
        Err(error) => findings.failed(error.to_string()),
    }
}

/// Deletes the objects that are not being deleted yet, and returns the remaining ones.
async fn delete_in(api: &DynamicApi, at_once: bool) -> Result<Vec<Object>, Error> {
    let found = api.list().await?.items;
    if found.iter().all(Object::is_deleting) {
        return Ok(found);
    }
    let options = DeleteOptions {
        propagation_policy: Some(PropagationPolicy::Background),
        ..Default::default()
    };
    if at_once {
        api.delete_collection(&ListOptions::default())
            .with(&options)
            .await?;
    } else {
        for object in &found {
            ignore_gone(api.delete(object.name()).with(&options).await.map(drop))?;
        }
    }
    Ok(api.list().await?.items)
}
