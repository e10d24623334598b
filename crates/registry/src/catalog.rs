//! The catalog of resources, built-in and custom.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard, watch};
use watchkeeper_kinds::Kind;
use watchkeeper_meta::{GroupVersionResource, Status};

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
    custom: RwLock<Arc<Custom>>,
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
    /// In the order of groups, each kind's preferred version first.
    definitions: Vec<Arc<Definition>>,
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

    /// All custom resources, and their generation.
    pub(crate) fn custom(&self) -> (u64, Vec<Arc<Definition>>) {
        let custom = self.custom.read().clone();
        (custom.generation, custom.definitions.clone())
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
            true => self.custom().1.into_iter().filter(is_beside).collect(),
            false => BUILTIN.values().filter(|it| is_beside(it)).cloned().collect(),
        }
    }

    /// The resource of a kind, built-in or custom.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Definition>> {
        let is_wanted = |it: &&Arc<Definition>| it.api_version == api_version && it.resource.kind == kind;
        let builtin = BUILTIN.values().find(is_wanted).cloned();
        builtin.or_else(|| self.custom().1.iter().find(is_wanted).cloned())
    }

    /// Prevents changes of custom kinds until the write is stored.
    pub(crate) async fn lock_definitions(&self) -> RwLockReadGuard<'_, ()> {
        self.definitions_lock.read().await
    }

    /// Waits for writes of custom objects in progress, and blocks new ones.
    pub(crate) async fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.definitions_lock.write().await
    }

    /// Replaces the custom resources.
    pub(crate) fn serve(&self, definitions: Vec<Arc<Definition>>) {
        let named = definitions.iter();
        let by_resource = named.map(|it| (it.resource.group_version_resource(), it.clone()));
        let mut custom = self.custom.write();
        let generation = custom.generation + 1;
        *custom = Arc::new(Custom {
            generation,
            by_resource: by_resource.collect(),
            definitions,
        });
        self.generation.store(generation, Ordering::Release);
        self.changed.send_replace(generation);
    }
}
