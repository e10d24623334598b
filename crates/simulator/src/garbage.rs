//! The garbage collector: deletes objects whose owners are gone.
//!
//! An object is deleted when none of its owners exists; owners are identified by uid. The way an owner is deleted
//! decides about its dependents: with background deletion they are deleted after it, with foreground deletion it
//! waits for those that block it, and with orphaning their owner references are removed.
//!
//! ```text
//! an object changes ──────────────────▶ check it ([`collect`])
//! an owner is (being) deleted ────────▶ check its dependents, found by its uid
//! a dependent is deleted or unblocks ─▶ check the owners that may wait for it
//! ```
//!
//! Custom kinds are watched while their definition is established.

mod collect;

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use watchkeeper_meta::{ObjectKey, OwnerReference, Resource, Scope};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::controller::{ControllerOptions, DynamicController, ReconcileHandle};
use watchkeeper_runtime::delta::Delta;
use watchkeeper_runtime::informer::{Informer, Notice, SubscribeOptions};
use watchkeeper_runtime::watcher::Config;
use watchkeeper_wire::Object;
use watchkeeper_wire::schema::resources;

use crate::cluster::{Cluster, Task};
use crate::kinds::custom_resource_definitions;

/// The index of objects by the uids of their owners.
const BY_OWNER: &str = "owner-uid";

/// Events are numerous and have no owners.
const IGNORED: &[&str] = &["events"];

/// Runs the controller.
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

/// The object that a change deletes, or marks for deletion. After a gap in the watch, a recreated object looks like
/// an update.
fn leaving(change: &Delta) -> Option<&Object> {
    match change {
        Delta::Deleted { last, .. } => Some(last),
        Delta::Updated { old, new, .. } if old.uid() != new.uid() => Some(old),
        change => Some(change.object()).filter(|object| object.is_deleting()),
    }
}

/// The owners that an object no longer blocks after a change.
fn unblocked(change: &Delta) -> Vec<OwnerReference<'_>> {
    let (old, new) = match change {
        Delta::Added { .. } => return Vec::new(),
        Delta::Deleted { old, .. } => (old, None),
        Delta::Updated { old, new, .. } if old.uid() != new.uid() => (old, None),
        Delta::Updated { old, new, .. } => (old, Some(new)),
    };
    let still = new.map(Object::owner_references).unwrap_or_default();
    let blocks = |owner: &OwnerReference<'_>| {
        still
            .iter()
            .any(|other| other.uid == owner.uid && other.block_owner_deletion)
    };
    let mut owners = old.owner_references();
    owners.retain(|owner| owner.block_owner_deletion && !blocks(owner));
    owners
}

/// The resource of an established definition.
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

/// A kind, its informer, and a handle to check its objects.
struct Kind {
    resource: Resource,
    informer: Informer,
    trigger: ReconcileHandle,
    /// Cancelled when the kind is removed or the simulation ends.
    stop: CancellationToken,
}

struct Collector {
    cluster: Cluster,
    kinds: RwLock<Vec<Arc<Kind>>>,
    /// Every custom kind that exists or existed: owners of a removed kind are gone too.
    defined: RwLock<Vec<Resource>>,
}

impl Collector {
    /// Starts watching a kind.
    fn add(self: &Arc<Self>, resource: Resource, informer: Informer, tasks: &mut JoinSet<()>) {
        // The informer is new: the index cannot exist yet.
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

    /// Watches custom kinds while they are defined.
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
        // A separate informer: those of the factory are for kinds that stay.
        let api = self.cluster.client.dynamic(resource.clone());
        let informer = Informer::start(Arc::new(ApiSource::new(api)), Config::default().into());
        self.add(resource, informer, tasks);
    }

    /// Stops watching the kind of a deleted definition. Its objects produce no more events, so the owners and
    /// dependents of the known ones are checked now.
    async fn remove(&self, definition: &Object) {
        let is_its = |kind: &Arc<Kind>| definition.name() == kind.resource.group_resource().to_string();
        let gone: Vec<Arc<Kind>> = self.kinds.write().extract_if(.., |kind| is_its(kind)).collect();
        for kind in gone {
            kind.stop.cancel();
            for object in kind.informer.store().snapshot().iter() {
                self.trigger_dependents(object);
                for owner in object.owner_references() {
                    self.trigger_owner(object, &owner);
                }
            }
        }
    }

    /// Triggers checks of related objects: the dependents of a deleted one, and the owners of one that no longer
    /// blocks them.
    async fn follow(self: Arc<Self>, kind: Arc<Kind>) {
        let mut changes = kind.informer.subscribe(SubscribeOptions::default());
        loop {
            let notice = tokio::select! {
                // Queued changes, such as the deletion of a kind's objects, come first.
                biased;
                notice = changes.next() => notice,
                () = kind.stop.cancelled() => return,
            };
            match notice {
                Some(Notice::Change(change)) => {
                    if let Some(owner) = leaving(&change) {
                        self.trigger_dependents(owner);
                    }
                    for owner in unblocked(&change) {
                        self.trigger_owner(change.object(), &owner);
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
                // A controller that has ended ignores it.
                kind.trigger.reconcile(dependent.key());
            }
        }
    }

    /// Triggers a check of an owner that may wait for this dependent.
    fn trigger_owner(&self, dependent: &Object, owner: &OwnerReference<'_>) {
        let Some(resource) = self.resource_of(owner) else {
            return;
        };
        let kinds = self.kinds.read().clone();
        for kind in kinds.iter().filter(|kind| kind.is_of(&resource)) {
            kind.trigger.reconcile(owner_key(&resource, dependent, owner));
        }
    }

    /// The resource of an owner. `None` for a kind that is not served, or not in this version.
    fn resource_of(&self, owner: &OwnerReference<'_>) -> Option<Resource> {
        let (group, version) = match owner.api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", &*owner.api_version),
        };
        let builtin = resources::by_kind(group, version, &owner.kind).map(|known| known.resource.clone());
        builtin.or_else(|| self.custom(group, &owner.kind))
    }

    /// The resource of a current or former custom kind, in the version it was last watched in.
    fn custom(&self, group: &str, kind: &str) -> Option<Resource> {
        let defined = self.defined.read();
        let mut latest = defined.iter().rev();
        latest.find(|it| it.group == group && it.kind == kind).cloned()
    }

    /// An object in the store, if it has this uid.
    fn known(&self, resource: &Resource, key: &ObjectKey, uid: &str) -> Option<Object> {
        let kinds = self.kinds.read();
        let kind = kinds.iter().find(|kind| kind.is_of(resource))?;
        let known = kind.informer.store().get(key);
        known.filter(|known| known.uid() == uid)
    }

    /// True if an object with an owner's uid exists in any namespace.
    fn is_anywhere(&self, owner: &OwnerReference<'_>) -> bool {
        let Some(resource) = self.resource_of(owner) else {
            return false;
        };
        let kinds = self.kinds.read();
        let kind = kinds.iter().find(|kind| kind.is_of(&resource));
        kind.is_some_and(|kind| {
            let known = kind.informer.store().snapshot();
            known.iter().any(|known| known.uid() == owner.uid)
        })
    }

    /// The objects that name this one as their owner. A namespaced owner has dependents only in its namespace.
    fn dependents(&self, owner: &Object) -> Vec<(Resource, Object)> {
        let mut found = Vec::new();
        for kind in self.kinds.read().iter() {
            let mut dependents = kind.dependents(owner);
            dependents.retain(|dependent| {
                owner.namespace().is_empty() || dependent.namespace() == owner.namespace()
            });
            found.extend(
                dependents
                    .into_iter()
                    .map(|dependent| (kind.resource.clone(), dependent)),
            );
        }
        found
    }
}

impl Kind {
    /// True if this is the kind of a resource, in any version.
    fn is_of(&self, resource: &Resource) -> bool {
        self.resource.group == resource.group && self.resource.plural == resource.plural
    }

    fn dependents(&self, owner: &Object) -> Vec<Object> {
        let snapshot = self.informer.store().snapshot();
        let dependents = snapshot.by_index(BY_OWNER, owner.uid()).into_iter();
        dependents.flatten().cloned().collect()
    }
}

/// The key of an owner: in the namespace of its dependent, or cluster-scoped.
fn owner_key(resource: &Resource, dependent: &Object, owner: &OwnerReference<'_>) -> ObjectKey {
    match resource.scope {
        Scope::Namespaced => ObjectKey::new(dependent.namespace(), &owner.name),
        Scope::Cluster => ObjectKey::new("", &owner.name),
    }
}
