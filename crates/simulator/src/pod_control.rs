//! Creates and deletes the pods of an owner, with an Event about the owner for each.

use serde_json::Value;
use watchkeeper_client::Error;
use watchkeeper_wire::Object;

use crate::cluster::Cluster;
use crate::events::Component;
use crate::item::Item;
use crate::kinds::pods;

/// Creates a pod for its owner. No Event is recorded if the namespace is being deleted.
pub(crate) async fn create(
    cluster: &Cluster,
    who: Component,
    owner: &Item,
    pod: Value,
) -> Result<Object, Error> {
    let created = cluster.create(&pods(), owner.namespace(), pod).await;
    match &created {
        Ok(pod) => cluster.events.normal(
            who,
            owner,
            "SuccessfulCreate",
            format!("Created pod: {}", pod.name()),
        ),
        Err(error) if is_namespace_terminating(error) => {}
        Err(error) => cluster.events.warning(
            who,
            owner,
            "FailedCreate",
            format!("Error creating: {}", message(error)),
        ),
    }
    created
}

/// Deletes a pod of an owner.
pub(crate) async fn delete(cluster: &Cluster, who: Component, owner: &Item, pod: &Item) -> Result<(), Error> {
    let deleted = cluster.delete(&pods(), pod, None).await;
    match &deleted {
        Ok(()) => cluster.events.normal(
            who,
            owner,
            "SuccessfulDelete",
            format!("Deleted pod: {}", pod.name()),
        ),
        Err(error) => cluster.events.warning(
            who,
            owner,
            "FailedDelete",
            format!("Error deleting: {}", message(error)),
        ),
    }
    deleted
}

/// The server's message for a refused request.
pub(crate) fn message(error: &Error) -> String {
    match error.status() {
        Some(status) => status.message.clone(),
        None => error.to_string(),
    }
}

/// True if a create was refused because its namespace is being deleted: it will never succeed.
pub(crate) fn is_namespace_terminating(error: &Error) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    details.is_some_and(|details| {
        let mut causes = details.causes.iter();
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    })
}
