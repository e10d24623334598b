//! Garbage: what becomes of objects whose owner goes.
//!
//! An object with owners goes when none of them is left. How an owner is deleted decides about its dependents:
//! in the background they go after it, in the foreground it waits for them, and orphans are set free.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use watchkeeper_client::Error;
use watchkeeper_meta::{GetOptions, ObjectKey, OwnerReference, Resource, Scope};
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_runtime::informer::Informer;
use watchkeeper_wire::Object;
use watchkeeper_wire::schema::resources;

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::kinds::resource;

/// The index of objects by the uid of any of their owners.
const BY_OWNER: &str = "owner-uid";

/// Kinds whose objects own or are owned in a cluster without custom resources.
const KINDS: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "services"),
    ("", "endpoints"),
    ("", "replicationcontrollers"),
    ("", "persistentvolumeclaims"),
    ("apps", "replicasets"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("apps", "controllerrevisions"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
];

/// Removes garbage.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let kinds = KINDS.iter().map(|(group, plural)| resource(group, plural));
    let informers: Vec<(Resource, Informer)> = kinds
        .map(|kind| (kind.clone(), cluster.informer(&kind)))
        .collect();
    for (_, informer) in &informers {
        let owners = |object: &Object| -> Vec<String> {
            let owners = object.owner_references().into_iter();
            owners.map(|owner| owner.uid.into_owned()).collect()
        };
        // Nobody else adds this one.
        let _ = informer.store().add_index(BY_OWNER, Arc::new(owners));
    }
    let collector = Arc::new(Collector {
        cluster: cluster.clone(),
        informers,
    });
    let kinds = collector.informers.iter();
    let mut tasks: JoinSet<()> = kinds
        .map(|(kind, _)| collector.clone().collect_all(kind.clone()))
        .collect();
    Box::pin(async move { while tasks.join_next().await.is_some() {} })
}

struct Collector {
    cluster: Cluster,
    informers: Vec<(Resource, Informer)>,
}

impl Collector {
    /// Looks at the objects of a kind. Whatever happens to a possible owner matters to its dependents, so each kind
    /// is triggered by all others.
    fn collect_all(self: Arc<Self>, kind: Resource) -> Task {
        let mut controller = self.cluster.controller("garbage", &kind);
        for (_, owner) in &self.informers {
            let (dependents, own) = (self.clone(), kind.clone());
            let mapping = Arc::new(move |owner: &Object| dependents.dependent_keys(&own, owner));
            controller = controller.watches(owner.clone(), mapping, None);
        }
        let collector = self.clone();
        self.cluster.run(controller, move |_, request| {
            let (collector, kind) = (collector.clone(), kind.clone());
            async move { collector.collect(&kind, request).await }
        })
    }

    fn dependent_keys(&self, kind: &Resource, owner: &Object) -> Vec<ObjectKey> {
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
            let patch = json!({"metadata": {"ownerReferences": left}});
            ignore_gone(self.cluster.merge(&kind, &dependent, patch).await.map(drop))?;
        }
        self.cluster.drop_finalizer(kind, owner, "orphan").await?;
        Ok(Action::Done)
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
            return Ok(Action::After(Duration::from_millis(500)));
        }
        self.cluster
            .drop_finalizer(kind, owner, "foregroundDeletion")
            .await?;
        Ok(Action::Done)
    }

    /// Deletes an object none of whose owners is left.
    async fn go_with_owners(&self, kind: &Resource, object: &Object) -> Result<Action, Error> {
        for owner in object.owner_references() {
            if self.exists(object, &owner).await? {
                return Ok(Action::Done);
            }
        }
        self.cluster.delete(kind, object, None).await?;
        Ok(Action::Done)
    }

    /// Whether an owner is there. If it is not known, the server is asked: the cache may be behind.
    async fn exists(&self, dependent: &Object, owner: &OwnerReference<'_>) -> Result<bool, Error> {
        let (group, version) = match owner.api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", &*owner.api_version),
        };
        // An owner of a kind nobody here knows is left alone.
        let Some(known) = resources::by_kind(group, version, &owner.kind) else {
            return Ok(true);
        };
        let namespace = match known.resource.scope {
            Scope::Namespaced => dependent.namespace(),
            Scope::Cluster => "",
        };
        if self.is_known(
            &known.resource,
            &ObjectKey::new(namespace, &owner.name),
            &owner.uid,
        ) {
            return Ok(true);
        }
        let api = self.cluster.api(&known.resource, namespace);
        match api.get(&owner.name, &GetOptions::default()).await {
            Ok(found) => Ok(found.uid() == owner.uid),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_known(&self, kind: &Resource, key: &ObjectKey, uid: &str) -> bool {
        let mut informers = self.informers.iter();
        let informer = informers.find(|(known, _)| known == kind);
        let known = informer.and_then(|(_, informer)| informer.store().get(key));
        known.is_some_and(|known| known.uid() == uid)
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
}

fn reference(owner: &OwnerReference<'_>) -> serde_json::Value {
    json!({
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    })
}
