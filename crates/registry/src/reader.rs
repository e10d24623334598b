//! Reading: what is stored of which resources, now and as it changes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use watchkeeper_kinds::Kind;
use watchkeeper_meta::{GroupVersionResource, Status};
use watchkeeper_storage::{ReadError, Store};

use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::definition::Definition;
use crate::watch_cache::{WatchCache, Watcher};
use crate::webhook_client::WebhookTransport;

/// Reads from one store: `get` and `list` of one moment, `watch` from there on. Clones share all they have. Everything that only reads takes this
/// and not the registry, so that it cannot depend on how objects are written.
#[derive(Clone)]
pub struct Reader(Arc<Inner>);

struct Inner {
    store: Store,
    catalog: Catalog,
    /// One history per resource that has ever been watched, by its prefix in the store.
    watch_caches: Mutex<HashMap<String, Arc<WatchCache>>>,
    /// The way to conversion webhooks, and to all others.
    webhooks: Option<Arc<dyn WebhookTransport>>,
}

impl Reader {
    /// Reads the built-in resources of a store; custom ones come into force with their definitions.
    pub(crate) fn new(store: Store, webhooks: Option<Arc<dyn WebhookTransport>>) -> Self {
        Self(Arc::new(Inner {
            store,
            catalog: Catalog::default(),
            watch_caches: Mutex::default(),
            webhooks,
        }))
    }

    /// The way to webhooks; without one, none can be asked.
    pub(crate) fn webhook_transport(&self) -> Option<&Arc<dyn WebhookTransport>> {
        self.0.webhooks.as_ref()
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// What time it is.
    pub fn clock(&self) -> Clock {
        Clock
    }

    /// The resources there are.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The resource of that name, if it is stored here.
    pub fn definition(&self, resource: &GroupVersionResource) -> Option<Arc<Definition>> {
        self.0.catalog.find(resource)
    }

    /// Every custom resource, with a number that is another whenever they are others.
    pub fn custom_definitions(&self) -> (u64, Vec<Arc<Definition>>) {
        self.0.catalog.custom()
    }

    /// The number of [`Reader::custom_definitions`].
    pub fn custom_generation(&self) -> u64 {
        self.0.catalog.custom_generation()
    }

    /// Tells when [`Reader::custom_definitions`] are others.
    pub fn custom_changes(&self) -> watch::Receiver<u64> {
        self.0.catalog.custom_changes()
    }

    /// A built-in kind, in its first stable version.
    pub(crate) fn builtin(&self, kind: &'static Kind) -> Result<Arc<Definition>, Status> {
        self.0.catalog.builtin(kind)
    }

    /// An object that must be there.
    pub(crate) async fn present(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Status> {
        let found = self.find(definition, namespace, name).await?;
        let missing = || Status::not_found(&definition.group_resource(), name);
        found.ok_or_else(missing)?.to_value(definition)
    }

    /// Ends every watch on a custom resource that is served no longer, or otherwise, when it has told what happened.
    /// Whoever watches what takes its place shares nothing with them.
    pub(crate) fn end_watches(&self, definition: &Definition) {
        if let Some(life) = &definition.life {
            life.is_retired.send_replace(true);
        }
        self.0.watch_caches.lock().remove(&definition.prefix(""));
    }

    /// The resource's history, shared by its watches.
    pub(crate) fn watch_cache(&self, definition: &Definition) -> Result<Watcher, Status> {
        let prefix = definition.prefix("");
        let mut caches = self.0.watch_caches.lock();
        if let Some(cache) = caches.get(&prefix) {
            return Ok(cache.clone().enter());
        }
        let closed = |_: ReadError| Status::service_unavailable("the server is shutting down");
        let cache = Arc::new(WatchCache::open(self.store(), &prefix).map_err(closed)?);
        caches.insert(prefix, cache.clone());
        Ok(cache.enter())
    }
}
