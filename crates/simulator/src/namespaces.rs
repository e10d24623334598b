//! Deleted namespaces: first everything in them goes, then they do.

use std::time::Duration;

use watchkeeper_client::Error;
use watchkeeper_meta::{DeleteOptions, ListOptions, PropagationPolicy, Resource, Scope};
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::kinds::namespaces;

/// How long to wait before looking again whether a namespace is empty.
const PATIENCE: Duration = Duration::from_millis(200);

/// Empties and removes deleted namespaces.
pub(crate) fn run(cluster: &Cluster) -> Task {
    cluster.run(cluster.controller("namespaces", &namespaces()), terminate)
}

async fn terminate(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(object) = request.object.filter(|namespace| namespace.is_deleting()) else {
        return Ok(Action::Done);
    };
    let mut namespace = object.to_value().unwrap_or_default();
    if !namespace["spec"]["finalizers"]
        .as_array()
        .is_some_and(|names| names.iter().any(|name| name == "kubernetes"))
    {
        return Ok(Action::Done);
    }
    if !empty(&cluster, object.name()).await? {
        return Ok(Action::After(PATIENCE));
    }
    if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|name| name != "kubernetes");
    }
    let finalize = cluster.api(&namespaces(), "").subresource("finalize");
    let finalized = finalize.update(object.name(), &namespace).await;
    match finalized {
        Err(error) if error.is_conflict() => Ok(Action::After(PATIENCE)),
        finalized => ignore_gone(finalized.map(drop)).map(|()| Action::Done),
    }
}

/// Deletes everything in a namespace. True if nothing is left.
async fn empty(cluster: &Cluster, namespace: &str) -> Result<bool, Error> {
    let mut is_empty = true;
    for resource in deletable(cluster).await? {
        let api = cluster.api(&resource, namespace);
        let some = ListOptions {
            limit: Some(1),
            ..Default::default()
        };
        if api.list().with(&some).await?.items.is_empty() {
            continue;
        }
        is_empty = false;
        let options = DeleteOptions {
            propagation_policy: Some(PropagationPolicy::Background),
            ..Default::default()
        };
        api.delete_collection(&ListOptions::default())
            .with(&options)
            .await?;
    }
    Ok(is_empty)
}

/// Everything that lives in namespaces, custom kinds too; pods first, so that nothing they use goes before them.
async fn deletable(cluster: &Cluster) -> Result<Vec<Resource>, Error> {
    let served = cluster.client.discover().await?;
    let namespaced = served.preferred_resources().filter(|known| {
        known.resource.scope == Scope::Namespaced
            && known.has_verb("deletecollection")
            && known.has_verb("list")
    });
    let mut all: Vec<Resource> = namespaced.map(|known| known.resource.clone()).collect();
    all.sort_by_key(|resource| resource.plural != "pods");
    Ok(all)
}
