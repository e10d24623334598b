//! What every controller here needs: the server, shared informers, and the few calls they all make.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::{
    CreateOptions, DeleteOptions, ObjectKey, PatchKind, PatchOptions, Preconditions, PropagationPolicy,
    Resource, Time,
};
use watchkeeper_runtime::controller::{Action, Controller, ControllerOptions, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::informer::Informer;
use watchkeeper_wire::Object;
use watchkeeper_wire::schema::resources;

/// Who the simulator says it is in managed fields.
const MANAGER: &str = "watchkeeper-simulator";

/// The index of objects by the uid of their controller.
pub(crate) const BY_CONTROLLER: &str = "controller-uid";

/// The server and what is known of it.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    factory: Factory,
    /// Held here, so that an informer lives as long as the simulation and not as long as one look at it.
    informers: Arc<Mutex<HashMap<Resource, Informer>>>,
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        let factory = Factory::new(client.clone(), FactoryOptions::default());
        Self {
            client,
            factory,
            informers: Arc::default(),
        }
    }

    /// Stops all informers and waits for them.
    pub(crate) async fn stop(&self) {
        self.factory.stop().await;
        self.informers.lock().clear();
    }

    /// The shared informer of a resource.
    pub(crate) fn informer(&self, resource: &Resource) -> Informer {
        let mut informers = self.informers.lock();
        if let Some(informer) = informers.get(resource) {
            return informer.clone();
        }
        let informer = self.factory.informer(Selection::all(resource.clone()));
        informers.insert(resource.clone(), informer.clone());
        // The informer is new: nobody can have added it before.
        let _ = informer.store().add_index(
            BY_CONTROLLER,
            Arc::new(|object: &Object| {
                object
                    .controller()
                    .map(|owner| owner.uid.into_owned())
                    .into_iter()
                    .collect()
            }),
        );
        informer
    }

    /// The objects of a resource in a namespace.
    pub(crate) fn api(&self, resource: &Resource, namespace: &str) -> DynamicApi {
        match namespace {
            "" => self.client.dynamic(resource.clone()),
            namespace => self.client.dynamic(resource.clone()).namespace(namespace),
        }
    }

    pub(crate) async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: Value,
    ) -> Result<Object, Error> {
        self.api(resource, namespace)
            .create(&object, &CreateOptions::default())
            .await
    }

    /// Changes fields of an object, or of its status.
    pub(crate) async fn merge(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch: Value,
    ) -> Result<Object, Error> {
        let mut api = self.api(resource, key.namespace());
        if let Some(subresource) = subresource {
            api = api.subresource(subresource);
        }
        let options = PatchOptions {
            field_manager: Some(MANAGER.to_owned()),
            ..Default::default()
        };
        api.patch(key.name(), PatchKind::Merge, &patch, &options).await
    }

    /// Deletes exactly the object that was seen; one that is gone or has been replaced is no error.
    pub(crate) async fn delete(
        &self,
        resource: &Resource,
        object: &Object,
        grace: Option<i64>,
    ) -> Result<(), Error> {
        let options = DeleteOptions {
            grace_period_seconds: grace,
            preconditions: Preconditions {
                uid: Some(object.uid().to_owned()),
                ..Default::default()
            },
            propagation_policy: Some(PropagationPolicy::Background),
            ..Default::default()
        };
        let deleted = self
            .api(resource, object.namespace())
            .delete(object.name(), &options)
            .await;
        ignore_gone(deleted.map(drop))
    }

    /// Runs a controller of a resource until it is stopped.
    pub(crate) async fn control(
        &self,
        name: &str,
        resource: &Resource,
        owned: &[&Resource],
        reconciler: impl Reconciler,
        stop: CancellationToken,
    ) {
        self.control_with(
            ControllerOptions::default(),
            name,
            resource,
            owned,
            reconciler,
            stop,
        )
        .await;
    }

    /// The same, with other options.
    pub(crate) async fn control_with(
        &self,
        options: ControllerOptions,
        name: &str,
        resource: &Resource,
        owned: &[&Resource],
        reconciler: impl Reconciler,
        stop: CancellationToken,
    ) {
        let primary = self.informer(resource);
        let mut controller = Controller::new(name, primary, options);
        for owned in owned {
            controller = controller.owns(self.informer(owned), resource);
        }
        controller.run(reconciler, stop.cancelled_owned()).await;
    }
}

/// A reconcile function with what it needs.
pub(crate) struct Reconcile<F>(pub(crate) F);

impl<F, R> Reconciler for Reconcile<F>
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, Error>> + Send,
{
    type Error = Error;

    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Action, Error>> + Send {
        (self.0)(request)
    }
}

/// A built-in resource.
pub(crate) fn resource(group: &str, version: &str, plural: &str) -> Resource {
    match resources::by_plural(group, version, plural) {
        Some(known) => known.resource.clone(),
        // Every name here is in the table; a test asks for each.
        None => unreachable!("{plural} is a built-in resource"),
    }
}

pub(crate) fn pods() -> Resource {
    resource("", "v1", "pods")
}

pub(crate) fn nodes() -> Resource {
    resource("", "v1", "nodes")
}

pub(crate) fn namespaces() -> Resource {
    resource("", "v1", "namespaces")
}

pub(crate) fn replica_sets() -> Resource {
    resource("apps", "v1", "replicasets")
}

pub(crate) fn deployments() -> Resource {
    resource("apps", "v1", "deployments")
}

/// Someone else was faster: that is as good as done.
pub(crate) fn ignore_gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        result => result,
    }
}

/// Says that `owner` controls an object.
pub(crate) fn controller_reference(owner: &Object) -> Value {
    json!([{
        "apiVersion": owner.api_version(),
        "kind": owner.kind(),
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// The object as a value; one that cannot be read is as good as empty, and has been reported.
pub(crate) fn value(object: &Object) -> Value {
    object.to_value().unwrap_or_else(|error| {
        tracing::warn!(object = %object.key(), %error, "object cannot be read");
        json!({})
    })
}

/// Now, as objects carry it.
pub(crate) fn now() -> String {
    Time::from(jiff::Timestamp::now()).to_rfc3339()
}

/// A condition that holds or does not since now.
pub(crate) fn condition(kind: &str, holds: bool) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": kind, "status": status, "lastTransitionTime": now(), "lastProbeTime": null})
}

/// Whether an object's status says all this already; a count that is not there is none.
pub(crate) fn is_told(object: &Value, counts: &Value) -> bool {
    counts.as_object().into_iter().flatten().all(|(name, new)| {
        let told = &object["status"][name];
        told == new || (told.is_null() && *new == 0)
    })
}

/// Whether a condition of an object holds.
pub(crate) fn holds(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_in_the_table() {
        for known in [pods(), nodes(), namespaces(), replica_sets(), deployments()] {
            assert!(!known.kind.is_empty());
        }
    }
}
