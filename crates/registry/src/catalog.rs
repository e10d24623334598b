//! The catalog: which resources there are, built-in and custom.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard, watch};
use watchkeeper_kinds::Kind;
use watchkeeper_meta::{GroupVersionResource, Status};

use crate::definition::Definition;

/// The built-in resources: the same in every registry, so they are put together once.
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

/// Which resources there are.
#[derive(Default)]
pub(crate) struct Catalog {
    custom: RwLock<Arc<Custom>>,
    /// That of the custom resources, which every request asks for.
    generation: AtomicU64,
    /// Wakes whoever waits for another generation.
    changed: watch::Sender<u64>,
    /// Held by whoever writes a custom object, and alone by whoever puts other definitions into force.
    in_force: tokio::sync::RwLock<()>,
}

/// The custom resources that are served at one moment.
#[derive(Default)]
struct Custom {
    /// How often they have changed before.
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

    /// Every custom resource, and how often that has changed.
    pub(crate) fn custom(&self) -> (u64, Vec<Arc<Definition>>) {
        let custom = self.custom.read().clone();
        (custom.generation, custom.definitions.clone())
    }

    /// How often the custom resources have changed.
    pub(crate) fn custom_generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Tells when the custom resources have changed.
    pub(crate) fn custom_changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether a version of a group belongs to built-in resources.
    pub(crate) fn is_builtin_version(&self, group: &str, version: &str) -> bool {
        let mut builtin = BUILTIN.keys();
        builtin.any(|known| known.group == group && known.version == version)
    }

    /// The other versions of a resource: those whose objects are stored in the same place.
    pub(crate) fn beside(&self, definition: &Definition) -> Vec<Arc<Definition>> {
        let prefix = definition.prefix("");
        let is_beside =
            |it: &Arc<Definition>| it.api_version != definition.api_version && it.prefix("") == prefix;
        match definition.is_custom() {
            true => self.custom().1.into_iter().filter(is_beside).collect(),
            false => BUILTIN.values().filter(|it| is_beside(it)).cloned().collect(),
        }
    }

    /// The resource of a kind, wherever it is defined.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Definition>> {
        let is_wanted = |it: &&Arc<Definition>| it.api_version == api_version && it.resource.kind == kind;
        let builtin = BUILTIN.values().find(is_wanted).cloned();
        builtin.or_else(|| self.custom().1.iter().find(is_wanted).cloned())
    }

    /// Keeps the definitions of custom kinds as they are until a write is stored.
    pub(crate) async fn keep_in_force(&self) -> RwLockReadGuard<'_, ()> {
        self.in_force.read().await
    }

    /// Waits for the writes of custom objects under way, and keeps others from beginning.
    pub(crate) async fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.in_force.write().await
    }

    /// Puts other custom resources into force.
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
