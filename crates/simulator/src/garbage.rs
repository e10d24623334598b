//! Garbage: what becomes of objects whose owner goes.
//!
//! An object with owners goes when none of them is left. How an owner is deleted decides about its dependents:
//! in the background they go after it, in the foreground it waits for them, and orphans are set free.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_meta::{GetOptions, Resource, Scope};
use watchkeeper_runtime::controller::{Action, Controller, ControllerOptions, Request};
use watchkeeper_runtime::informer::Informer;
use watchkeeper_wire::Object;
use watchkeeper_wire::schema::resources;

use crate::cluster::{Cluster, Reconcile, ignore_gone, resource};
use crate::futures::Task;

/// The index of objects by the uid of any of their owners.
const BY_OWNER: &str = "owner-uid";

/// Kinds whose objects own or are owned in a cluster without custom resources.
const KINDS: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "services"),
    ("", "persistentvolumeclaims"),
    ("apps", "replicasets"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("apps", "controllerrevisions"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("discovery.k8s.io", "endpointslices"),
];

/// Removes garbage.
pub(crate) fn run(cluster: Cluster, stop: CancellationToken) -> Task {
    Box::pin(async move {
        let kinds: Vec<Resource> = KINDS
            .iter()
            .map(|(group, plural)| resource(group, "v1", plural))
            .collect();
        let informers: Vec<(Resource, Informer)> = kinds
            .iter()
            .map(|kind| {
                let informer = cluster.informer(kind);
                let _ = informer.store().add_index(
                    BY_OWNER,
                    Arc::new(|object: &Object| {
                        object
                            .owner_references()
                            .into_iter()
                            .map(|owner| owner.uid.into_owned())
                            .collect()
                    }),
                );
                (kind.clone(), informer)
            })
            .collect();
        let collector = Arc::new(Collector { cluster, informers });
        let mut tasks = tokio::task::JoinSet::new();
        for (kind, informer) in collector.informers.clone() {
            // Whatever happens to a possible owner matters to its dependents, so every kind triggers all others.
            let mut controller = Controller::new("garbage", informer, ControllerOptions::default());
            for (_, owner) in &collector.informers {
                let dependents = collector.clone();
                let own = kind.clone();
                let mapping = Arc::new(move |owner: &Object| dependents.dependent_keys(&own, owner));
                controller = controller.watches(owner.clone(), mapping, None);
            }
            let collector = collector.clone();
            let reconcile = Reconcile(move |request: Request| {
                let (collector, kind) = (collector.clone(), kind.clone());
                async move { collector.collect(&kind, request).await }
            });
            let stop = stop.clone();
            tasks.spawn(async move { controller.run(reconcile, stop.cancelled_owned()).await });
        }
        while tasks.join_next().await.is_some() {}
    })
}

struct Collector {
    cluster: Cluster,
    informers: Vec<(Resource, Informer)>,
}

impl Collector {
    fn dependent_keys(&self, kind: &Resource, owner: &Object) -> Vec<watchkeeper_meta::ObjectKey> {
        let Some((_, informer)) = self.informers.iter().find(|(known, _)| known == kind) else {
            return Vec::new();
        };
        let snapshot = informer.store().snapshot();
        let Ok(dependents) = snapshot.by_index(BY_OWNER, owner.uid()) else {
            return Vec::new();
        };
        dependents.map(Object::key).collect()
    }

    async fn collect(&self, kind: &Resource, request: Request) -> Result<Action, Error> {
        let Some(object) = request.object else {
            return Ok(Action::Done);
        };
        let finalizers = object.finalizers();
        if object.is_deleting() && finalizers.iter().any(|name| name == "orphan") {
            return self.set_free(kind, &object).await;
        }
        if object.is_deleting() && finalizers.iter().any(|name| name == "foregroundDeletion") {
            return self.go_last(kind, &object).await;
        }
        if object.is_deleting() || object.owner_references().is_empty() {
            return Ok(Action::Done);
        }
        self.go_with_owners(kind, &object).await
    }

    /// Takes the owner's name off its dependents, then lets the owner go.
    async fn set_free(&self, kind: &Resource, owner: &Object) -> Result<Action, Error> {
        for (kind, dependent) in self.dependents(owner) {
            let owners: Vec<_> = dependent.owner_references();
            let left: Vec<_> = owners
                .iter()
                .filter(|other| other.uid != owner.uid())
                .map(reference)
                .collect();
            let patch = json!({"metadata": {"uid": dependent.uid(), "ownerReferences": left}});
            ignore_gone(
                self.cluster
                    .merge(&kind, &dependent.key(), None, patch)
                    .await
                    .map(drop),
            )?;
        }
        self.drop_finalizer(kind, owner, "orphan").await
    }

    /// Deletes the dependents, and lets the owner go when none is left that it must wait for.
    async fn go_last(&self, kind: &Resource, owner: &Object) -> Result<Action, Error> {
        let mut waiting = false;
        for (kind, dependent) in self.dependents(owner) {
            let owners = dependent.owner_references();
            waiting |= owners
                .iter()
                .any(|other| other.uid == owner.uid() && other.block_owner_deletion);
            if !dependent.is_deleting() {
                self.cluster.delete(&kind, &dependent, None).await?;
            }
        }
        if waiting {
            // A dependent that goes triggers this again.
            return Ok(Action::After(std::time::Duration::from_millis(500)));
        }
        self.drop_finalizer(kind, owner, "foregroundDeletion").await
    }

    /// Deletes an object none of whose owners is left.
    async fn go_with_owners(&self, kind: &Resource, object: &Object) -> Result<Action, Error> {
        for owner in object.owner_references() {
            if self
                .exists(object, &owner.api_version, &owner.kind, &owner.name, &owner.uid)
                .await?
            {
                return Ok(Action::Done);
            }
        }
        self.cluster.delete(kind, object, None).await?;
        Ok(Action::Done)
    }

    /// Whether an owner is there; the server is asked, because the cache may be behind.
    async fn exists(
        &self,
        dependent: &Object,
        api_version: &str,
        kind: &str,
        name: &str,
        uid: &str,
    ) -> Result<bool, Error> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // An owner of a kind nobody here knows is left alone.
        let Some(owner) = resources::by_kind(group, version, kind) else {
            return Ok(true);
        };
        let namespace = match owner.resource.scope {
            Scope::Namespaced => dependent.namespace(),
            Scope::Cluster => "",
        };
        match self
            .cluster
            .api(&owner.resource, namespace)
            .get(name, &GetOptions::default())
            .await
        {
            Ok(found) => Ok(found.uid() == uid),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn dependents(&self, owner: &Object) -> Vec<(Resource, Object)> {
        let mut found = Vec::new();
        for (kind, informer) in &self.informers {
            let snapshot = informer.store().snapshot();
            if let Ok(dependents) = snapshot.by_index(BY_OWNER, owner.uid()) {
                found.extend(dependents.map(|dependent| (kind.clone(), dependent.clone())));
            }
        }
        found
    }

    async fn drop_finalizer(&self, kind: &Resource, object: &Object, name: &str) -> Result<Action, Error> {
        let finalizers = object.finalizers();
        let left: Vec<_> = finalizers.iter().filter(|other| *other != name).collect();
        let patch = json!({"metadata": {"uid": object.uid(), "finalizers": left}});
        ignore_gone(
            self.cluster
                .merge(kind, &object.key(), None, patch)
                .await
                .map(drop),
        )?;
        Ok(Action::Done)
    }
}

fn reference(owner: &watchkeeper_meta::OwnerReference<'_>) -> serde_json::Value {
    json!({
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    })
}
