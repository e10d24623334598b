//! Reads of the store: get, list, watch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use watchkeeper_kinds::Kind;
use watchkeeper_meta::{GroupVersionResource, Status};
use watchkeeper_storage::{RangeRequest, ReadAt, ReadError, Store};

use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::definition::Definition;
use crate::feature_gates::FeatureGates;
use crate::values::Values;
use crate::watch_cache::{CacheReader, WatchCache};
use crate::webhook_client::WebhookTransport;

/// Reads from one store: `get` and `list` of a snapshot, `watch` from there on. Clones share their state. Code that
/// only reads takes a `Reader`, not the registry, so that it cannot depend on how objects are written.
#[derive(Clone)]
pub struct Reader(Arc<Inner>);

struct Inner {
    store: Store,
    catalog: Catalog,
    /// One history per resource that was ever watched, by storage prefix.
    watch_caches: Mutex<HashMap<String, Arc<WatchCache>>>,
    /// As they were last read.
    api_services: tokio::sync::Mutex<Values>,
    /// The transport to webhooks.
    webhooks: Option<Arc<dyn WebhookTransport>>,
    feature_gates: FeatureGates,
}

impl Reader {
    /// A reader of the built-in resources; custom resources are added with their definitions.
    pub(crate) fn new(
        store: Store,
        webhooks: Option<Arc<dyn WebhookTransport>>,
        feature_gates: FeatureGates,
    ) -> Self {
        Self(Arc::new(Inner {
            store,
            catalog: Catalog::default(),
            watch_caches: Mutex::default(),
            api_services: tokio::sync::Mutex::default(),
            webhooks,
            feature_gates,
        }))
    }

    /// The transport to webhooks; `None` if webhooks cannot be called.
    pub(crate) fn webhook_transport(&self) -> Option<&Arc<dyn WebhookTransport>> {
        self.0.webhooks.as_ref()
    }

    /// The enabled alpha features.
    pub fn feature_gates(&self) -> FeatureGates {
        self.0.feature_gates
    }

    /// APIServices as they were last read.
    pub(crate) fn known_api_services(&self) -> &tokio::sync::Mutex<Values> {
        &self.0.api_services
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        Clock
    }

    /// The catalog of resources.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The resource of that name, if it is stored here.
    pub fn definition(&self, resource: &GroupVersionResource) -> Option<Arc<Definition>> {
        self.0.catalog.find(resource)
    }

    /// All custom resources, and their generation, which changes with them.
    pub fn custom_definitions(&self) -> (u64, Vec<Arc<Definition>>) {
        self.0.catalog.custom()
    }

    /// The generation of [`Reader::custom_definitions`].
    pub fn custom_generation(&self) -> u64 {
        self.0.catalog.custom_generation()
    }

    /// Reports changes of [`Reader::custom_definitions`].
    pub fn custom_changes(&self) -> watch::Receiver<u64> {
        self.0.catalog.custom_changes()
    }

    /// A built-in kind, in its first stable version.
    pub(crate) fn builtin(&self, kind: &'static Kind) -> Result<Arc<Definition>, Status> {
        self.0.catalog.builtin(kind)
    }

    /// The number of objects of each resource: `pods`, `deployments.apps`. Versions of one resource are counted once.
    pub async fn object_counts(&self) -> Result<Vec<(String, u64)>, Status> {
        let mut counts = BTreeMap::new();
        for definition in self.0.catalog.all() {
            let name = definition.group_resource().to_string();
            if counts.contains_key(&name) {
                continue;
            }
            let prefix = definition.prefix("");
            let request = RangeRequest {
                prefix: &prefix,
                limit: Some(0),
                at: ReadAt::Visible,
                ..RangeRequest::default()
            };
            let range = self.store().range(&request).await;
            counts.insert(name, range.map_err(Status::internal_error)?.remaining as u64);
        }
        Ok(counts.into_iter().collect())
    }

    /// An object that must exist.
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

    /// Ends every watch on a custom resource that is no longer served, or has changed, after it has delivered all
    /// earlier events. Watches of its replacement use a new history.
    pub(crate) fn end_watches(&self, definition: &Definition) {
        if let Some(lifetime) = &definition.lifetime {
            lifetime.is_retired.send_replace(true);
        }
        self.0.watch_caches.lock().remove(&definition.prefix(""));
    }

    /// The resource's history, shared by its watches.
    pub(crate) fn watch_cache(&self, definition: &Definition) -> Result<CacheReader, Status> {
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
