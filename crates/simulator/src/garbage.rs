//! Garbage: what becomes of objects whose owner goes.
//!
//! An object with owners goes when none of them is left. How an owner is deleted decides about its dependents:
//! in the background they go after it, in the foreground it waits for them, and orphans are set free.

//!
//! ```text
//! an object changes ──────────────▶ it is looked at: has it owners, must it wait, or set others free?
//! an object goes, or is about to ──▶ so are its dependents, found by its uid
//! ```
//!
//! Custom kinds are followed from when their definition is established until it goes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_meta::{ObjectKey, OwnerReference, Resource, Scope};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::controller::{
    Action, ControllerOptions, DynamicController, ReconcileHandle, Request,
};
use watchkeeper_runtime::delta::Delta;
use watchkeeper_runtime::informer::{Informer, Notice, SubscribeOptions};
use watchkeeper_runtime::watcher::Config;
use watchkeeper_wire::Object;
use watchkeeper_wire::schema::resources;

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::kinds::custom_resource_definitions;

/// The index of objects by the uid of any of their owners.
const BY_OWNER: &str = "owner-uid";

/// Events are many, and belong to nobody.
const IGNORED: &[&str] = &["events"];

/// Removes garbage of all kinds.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let collector = Arc::new(Collector {
        cluster: cluster.clone(),
        kinds: RwLock::default(),
        defined: RwLock::default(),
    });
    let mut tasks = JoinSet::new();
    for resource in collectable() {
        let informer = cluster.informer(&resource);
        collector.add(resource, informer, &mut tasks);
    }
    let definitions = cluster.informer(&custom_resource_definitions());
    Box::pin(async move {
        collector.follow_definitions(definitions, &mut tasks).await;
        while tasks.join_next().await.is_some() {}
    })
}

/// All kinds that can be deleted and watched, each in one version.
pub(crate) fn collectable() -> Vec<Resource> {
    let mut found: Vec<Resource> = Vec::new();
    for known in resources::all() {
        let is_stored = known.has_verb("delete") && known.has_verb("watch");
        let is_known = found
            .iter()
            .any(|other| other.group == known.resource.group && other.plural == known.resource.plural);
        if is_stored && !is_known && !IGNORED.contains(&&*known.resource.plural) {
            found.push(known.resource.clone());
        }
    }
    found
}

/// The object that goes with a change, or is about to. After a gap in the watch, one that was deleted and created anew
/// looks as if it had been changed.
fn leaving(change: &Delta) -> Option<&Object> {
    match change {
        Delta::Deleted { last, .. } => Some(last),
        Delta::Updated { old, new, .. } if old.uid() != new.uid() => Some(old),
        change => Some(change.object()).filter(|object| object.is_deleting()),
    }
}

/// The resource of a definition that is served.
pub(crate) fn established(definition: &Object) -> Option<Resource> {
    let definition = definition.to_value().ok()?;
    let mut conditions = definition["status"]["conditions"].as_array()?.iter();
    conditions.find(|it| it["type"] == "Established" && it["status"] == "True")?;
    let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
    let mut versions = spec["versions"].as_array()?.iter();
    let version = versions.find(|version| version["served"] == true)?;
    let text = |value: &serde_json::Value| value.as_str().map(|text| text.to_owned().into());
    Some(Resource {
        group: text(&spec["group"])?,
        version: text(&version["name"])?,
        kind: text(&names["kind"])?,
        plural: text(&names["plural"])?,
        scope: match spec["scope"] == "Cluster" {
            true => Scope::Cluster,
            false => Scope::Namespaced,
        },
    })
}

fn owner_uids(object: &Object) -> Vec<String> {
    let owners = object.owner_references().into_iter();
    owners.map(|owner| owner.uid.into_owned()).collect()
}

/// A kind, what is known of it, and a way to have one of its objects looked at.
struct Kind {
    resource: Resource,
    informer: Informer,
    trigger: ReconcileHandle,
    /// Says when the kind goes, or the simulation ends.
    stop: CancellationToken,
}

struct Collector {
    cluster: Cluster,
    kinds: RwLock<Vec<Arc<Kind>>>,
    /// Every custom kind that there is or was: owners of a kind that has gone are gone too.
    defined: RwLock<Vec<Resource>>,
}

impl Collector {
    /// Begins to follow a kind.
    fn add(self: &Arc<Self>, resource: Resource, informer: Informer, tasks: &mut JoinSet<()>) {
        // Nobody else adds this one.
        let _ = informer.store().add_index(BY_OWNER, owner_uids);
        // There are many kinds, and little to do for most.
        let options = ControllerOptions {
            workers: 1,
            ..Default::default()
        };
        let controller = DynamicController::new("garbage", informer.clone(), options);
        let kind = Arc::new(Kind {
            resource,
            informer,
            trigger: controller.handle(),
            stop: self.cluster.stop.child_token(),
        });
        self.kinds.write().push(kind.clone());
        tasks.spawn(self.clone().follow(kind.clone()));
        let (collector, stop) = (self.clone(), kind.stop.clone());
        tasks.spawn(self.cluster.run_until(stop, controller, move |_, request| {
            let (collector, kind) = (collector.clone(), kind.clone());
            async move { collector.collect(&kind.resource, request).await }
        }));
    }

    /// Follows custom kinds while they are defined.
    async fn follow_definitions(self: &Arc<Self>, definitions: Informer, tasks: &mut JoinSet<()>) {
        let mut changes = definitions.subscribe(SubscribeOptions::default());
        loop {
            let notice = tokio::select! {
                () = self.cluster.stop.cancelled() => return,
                notice = changes.next() => notice,
            };
            match notice {
                Some(Notice::Change(Delta::Deleted { last, .. })) => self.remove(&last).await,
                Some(Notice::Change(change)) => self.define(change.object(), tasks).await,
                Some(Notice::Synced) => {}
                None => return,
            }
        }
    }

    async fn define(self: &Arc<Self>, definition: &Object, tasks: &mut JoinSet<()>) {
        let Some(resource) = established(definition) else {
            return;
        };
        let is_known = |kinds: &[Arc<Kind>]| kinds.iter().any(|kind| kind.resource == resource);
        if is_known(&self.kinds.read()) {
            return;
        }
        self.remove(definition).await;
        self.defined.write().push(resource.clone());
        // Its own: the factory's are for kinds that stay.
        let api = self.cluster.client.dynamic(resource.clone());
        let informer = Informer::start(Arc::new(ApiSource::new(api)), Config::default().into());
        self.add(resource, informer, tasks);
    }

    /// Stops following the kind that a definition defined. Of its objects nobody will be told any more, so whatever
    /// depends on those that are known is looked at now.
    async fn remove(&self, definition: &Object) {
        let is_its = |kind: &Arc<Kind>| definition.name() == kind.resource.group_resource().to_string();
        let gone: Vec<Arc<Kind>> = self.kinds.write().extract_if(.., |kind| is_its(kind)).collect();
        for kind in gone {
            kind.stop.cancel();
            for owner in kind.informer.store().snapshot().iter() {
                self.trigger_dependents(owner);
            }
        }
    }

    /// Has the dependents of every object of a kind looked at that goes or is about to.
    async fn follow(self: Arc<Self>, kind: Arc<Kind>) {
        let mut changes = kind.informer.subscribe(SubscribeOptions::default());
        loop {
            let notice = tokio::select! {
                // What is known already is told first, the end of a kind's objects for instance.
                biased;
                notice = changes.next() => notice,
                () = kind.stop.cancelled() => return,
            };
            match notice {
                Some(Notice::Change(change)) => {
                    if let Some(owner) = leaving(&change) {
                        self.trigger_dependents(owner);
                    }
                }
                Some(Notice::Synced) => {}
                None => return,
            }
        }
    }

    fn trigger_dependents(&self, owner: &Object) {
        let kinds = self.kinds.read().clone();
        for kind in kinds {
            for dependent in kind.dependents(owner) {
                // A controller that has ended needs to know nothing.
                kind.trigger.reconcile(dependent.key());
            }
        }
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
            // Looked at until none is left: nobody says when a dependent has gone.
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
        let builtin = resources::by_kind(group, version, &owner.kind).map(|known| known.resource.clone());
        // An owner of a kind nobody here knows is left alone.
        let Some(known) = builtin.or_else(|| self.custom(group, &owner.kind)) else {
            return Ok(true);
        };
        let namespace = match known.scope {
            Scope::Namespaced => dependent.namespace(),
            Scope::Cluster => "",
        };
        if self.is_known(&known, &ObjectKey::new(namespace, &owner.name), &owner.uid) {
            return Ok(true);
        }
        let api = self.cluster.api(&known, namespace);
        match api.get(&owner.name).await {
            Ok(found) => Ok(found.uid() == owner.uid),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The resource of a custom kind that there is or was, in the version it was last followed in.
    fn custom(&self, group: &str, kind: &str) -> Option<Resource> {
        let defined = self.defined.read();
        let mut latest = defined.iter().rev();
        latest.find(|it| it.group == group && it.kind == kind).cloned()
    }

    fn is_known(&self, resource: &Resource, key: &ObjectKey, uid: &str) -> bool {
        let kinds = self.kinds.read();
        let kind = kinds.iter().find(|kind| kind.resource == *resource);
        let known = kind.and_then(|kind| kind.informer.store().get(key));
        known.is_some_and(|known| known.uid() == uid)
    }

    fn dependents(&self, owner: &Object) -> Vec<(Resource, Object)> {
        let mut found = Vec::new();
        for kind in self.kinds.read().iter() {
            let dependents = kind.dependents(owner).into_iter();
            found.extend(dependents.map(|dependent| (kind.resource.clone(), dependent)));
        }
        found
    }
}

impl Kind {
    fn dependents(&self, owner: &Object) -> Vec<Object> {
        let snapshot = self.informer.store().snapshot();
        let dependents = snapshot.by_index(BY_OWNER, owner.uid()).into_iter();
        dependents.flatten().cloned().collect()
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
