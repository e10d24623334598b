//! The catalog of resources, built-in and custom.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard, watch};
use watchkeeper_kinds::Kind;
use watchkeeper_meta::{GroupVersionResource, Status};
use watchkeeper_storage::Key;

use crate::definition::Definition;

/// The built-in resources. They are the same in every registry, so they are built once.
static BUILTIN: LazyLock<HashMap<GroupVersionResource, Arc<Definition>>> = LazyLock::new(|| {
    let definitions = Definition::builtin().into_iter();
    definitions
        .map(|known| (known.resource.group_version_resource(), known))
        .collect()
});

/// The built-in resource of that name, if its objects are stored.
pub fn builtin_definition(resource: &GroupVersionResource) -> Option<&'static Arc<Definition>> {
    BUILTIN.get(resource)
}

/// The resources of a registry.
#[derive(Default)]
pub(crate) struct Catalog {
    custom: RwLock<Custom>,
    /// The generation of the custom resources, readable without the lock.
    generation: AtomicU64,
    /// Reports each new generation.
    changed: watch::Sender<u64>,
    /// Read-locked by writes of custom objects, write-locked while definitions change.
    definitions_lock: tokio::sync::RwLock<()>,
}

/// The custom resources served at one moment.
#[derive(Default)]
struct Custom {
    /// The number of earlier changes.
    generation: u64,
    /// By the stored definitions they come from, each kind's preferred version first.
    by_source: BTreeMap<Key, Vec<Arc<Definition>>>,
    by_resource: HashMap<GroupVersionResource, Arc<Definition>>,
}

impl Catalog {
    /// The resource of that name.
    pub(crate) fn find(&self, resource: &GroupVersionResource) -> Option<Arc<Definition>> {
        match builtin_definition(resource) {
            Some(builtin) => Some(builtin.clone()),
            None => self.find_custom(resource),
        }
    }

    /// The custom resource of that name.
    pub(crate) fn find_custom(&self, resource: &GroupVersionResource) -> Option<Arc<Definition>> {
        self.custom.read().by_resource.get(resource).cloned()
    }

    /// A built-in kind, in its first stable version.
    pub(crate) fn builtin(&self, kind: &'static Kind) -> Result<Arc<Definition>, Status> {
        let resource = GroupVersionResource::new(kind.group, "v1", kind.plural);
        self.find(&resource).ok_or_else(Status::path_not_found)
    }

    /// All custom resources in the order of groups, each kind's preferred version first, and their generation.
    pub(crate) fn custom(&self) -> (u64, Vec<Arc<Definition>>) {
        let custom = self.custom.read();
        let mut definitions: Vec<_> = custom.by_source.values().flatten().cloned().collect();
        definitions.sort_by(|one, other| one.resource.group.cmp(&other.resource.group));
        (custom.generation, definitions)
    }

    /// All stored resources.
    pub(crate) fn all(&self) -> Vec<Arc<Definition>> {
        let builtin = BUILTIN.values().cloned();
        builtin.chain(self.custom().1).collect()
    }

    /// The generation of the custom resources; it increases with every change.
    pub(crate) fn custom_generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Reports changes of the custom resources.
    pub(crate) fn custom_changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// True if a group version has built-in resources.
    pub(crate) fn is_builtin_version(&self, group: &str, version: &str) -> bool {
        let mut builtin = BUILTIN.keys();
        builtin.any(|known| known.group == group && known.version == version)
    }

    /// The other versions of a resource: those with the same storage prefix.
    pub(crate) fn beside(&self, definition: &Definition) -> Vec<Arc<Definition>> {
        let prefix = definition.prefix("");
        let is_beside =
            |it: &Arc<Definition>| it.api_version != definition.api_version && it.prefix("") == prefix;
        match definition.is_custom() {
            true => {
                let custom = self.custom.read();
                let definitions = custom.by_source.values().flatten();
                definitions.filter(|it| is_beside(it)).cloned().collect()
            }
            false => BUILTIN.values().filter(|it| is_beside(it)).cloned().collect(),
        }
    }

    /// The resource of a kind, built-in or custom.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Definition>> {
        let is_wanted = |it: &&Arc<Definition>| it.api_version == api_version && it.resource.kind == kind;
        let builtin = BUILTIN.values().find(is_wanted).cloned();
        builtin.or_else(|| {
            let custom = self.custom.read();
            custom.by_source.values().flatten().find(is_wanted).cloned()
        })
    }

    /// Prevents changes of custom kinds until the write is stored.
    pub(crate) async fn lock_definitions(&self) -> RwLockReadGuard<'_, ()> {
        self.definitions_lock.read().await
    }

    /// Waits for writes of custom objects in progress, and blocks new ones.
    pub(crate) async fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.definitions_lock.write().await
    }

    /// Replaces the custom resources of definitions that changed.
    pub(crate) fn serve(&self, changes: Vec<(Key, Vec<Arc<Definition>>)>) {
        let mut custom = self.custom.write();
        for (key, definitions) in changes {
            custom.replace(key, definitions);
        }
        custom.generation += 1;
        self.generation.store(custom.generation, Ordering::Release);
        self.changed.send_replace(custom.generation);
    }
}

impl Custom {
    fn replace(&mut self, key: Key, definitions: Vec<Arc<Definition>>) {
        for gone in self.by_source.remove(&key).unwrap_or_default() {
            self.by_resource.remove(&gone.resource.group_version_resource());
        }
        let named = definitions.iter();
        self.by_resource
            .extend(named.map(|it| (it.resource.group_version_resource(), it.clone())));
        if !definitions.is_empty() {
            self.by_source.insert(key, definitions);
        }
    }
}
