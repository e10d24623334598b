//! The registry: every resource over one store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::{FieldErrors, GroupVersionResource, Status};
use watchkeeper_storage::{ReadError, Snapshot, Store};

use crate::admission::policies::PolicyBook;
use crate::admission::webhooks::{WebhookBook, WebhookTransport};
use crate::allocate::{Allocating, Allocations};
use crate::clock::Clock;
use crate::custom::CustomKinds;
use crate::definition::Definition;
use crate::rbac::PolicyCache;
use crate::shared;
use crate::watch_cache::{WatchCache, Watcher};

/// What a read, a write and a watch mean, over one store. Clones are cheap and lead to the same registry.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

/// What a registry allows that others may not.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Containers may run privileged. Yes unless told otherwise, as in every cluster that people set up: network and
    /// storage drivers need it, and who does not want it has pod security. A bare Kubernetes server says no.
    pub allow_privileged: bool,
    /// Pods get a service account and its token, and are refused if there is no such account. No unless told
    /// otherwise: somebody must make the default accounts first, which a server does not do by itself.
    pub service_accounts: bool,
    /// The way to webhooks. Without one, none can be asked, and their failure policies decide.
    pub webhooks: Option<Arc<dyn WebhookTransport>>,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            allow_privileged: true,
            service_accounts: false,
            webhooks: None,
        }
    }
}

impl RegistryOptions {
    /// A registry of the built-in resources. What every cluster has, default namespaces and the like, is created if
    /// it is not there.
    pub async fn open(self, store: Store) -> Result<Registry, Status> {
        let registry = Registry {
            inner: Arc::new(Inner {
                store,
                options: self,
                custom_kinds: CustomKinds::default(),
                watch_caches: Mutex::new(HashMap::new()),
                policy_cache: PolicyCache::default(),
                may_have_judges: AtomicBool::new(false),
                policy_book: PolicyBook::default(),
                webhook_book: WebhookBook::default(),
                allocation: tokio::sync::Mutex::new(()),
                allocations: Allocations::default(),
            }),
        };
        registry.bootstrap().await?;
        registry.look_for_judges().await?;
        // Before the look at what is stored, so that nothing falls between.
        let definitions = shared::definition_feed(&registry)?;
        registry.settle_custom_kinds().await?;
        if let Some(feed) = definitions {
            tokio::spawn(shared::follow_definitions(Arc::downgrade(&registry.inner), feed));
        }
        Ok(registry)
    }
}

/// The built-in resources: the same in every registry, so they are put together once.
static BUILTIN: LazyLock<HashMap<GroupVersionResource, Arc<Definition>>> = LazyLock::new(|| {
    let definitions = Definition::builtin().into_iter();
    definitions
        .map(|known| (known.resource.group_version_resource(), known))
        .collect()
});

pub(crate) struct Inner {
    store: Store,
    options: RegistryOptions,
    custom_kinds: CustomKinds,
    /// One history per resource that has ever been watched, by its prefix in the store.
    watch_caches: Mutex<HashMap<String, Arc<WatchCache>>>,
    policy_cache: PolicyCache,
    may_have_judges: AtomicBool,
    policy_book: PolicyBook,
    webhook_book: WebhookBook,
    /// Held from picking a service's address until the service is stored.
    allocation: tokio::sync::Mutex<()>,
    allocations: Allocations,
}

impl Registry {
    /// The registry again, if somebody still has it.
    pub(crate) fn upgrade(inner: &Weak<Inner>) -> Option<Self> {
        inner.upgrade().map(|inner| Self { inner })
    }

    /// Opens a registry as [`RegistryOptions`] do by default.
    pub async fn open(store: Store) -> Result<Self, Status> {
        RegistryOptions::default().open(store).await
    }

    /// The resource of that name, if it is stored here.
    pub fn definition(&self, resource: &GroupVersionResource) -> Option<Arc<Definition>> {
        match BUILTIN.get(resource) {
            Some(builtin) => Some(builtin.clone()),
            None => self.inner.custom_kinds.find(resource),
        }
    }

    /// Every custom resource, with a number that is another whenever they are others.
    pub fn custom_definitions(&self) -> (u64, Vec<Arc<Definition>>) {
        self.inner.custom_kinds.all()
    }

    /// The number of [`Registry::custom_definitions`].
    pub fn custom_generation(&self) -> u64 {
        self.inner.custom_kinds.generation()
    }

    pub(crate) fn custom_kinds(&self) -> &CustomKinds {
        &self.inner.custom_kinds
    }

    /// Whether a version of a group belongs to built-in resources.
    pub(crate) fn is_builtin_version(&self, group: &str, version: &str) -> bool {
        let mut builtin = BUILTIN.keys();
        builtin.any(|known| known.group == group && known.version == version)
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Makes the store hold what a snapshot of it holds, by writes that watches tell of. Returns how many objects were
    /// written.
    pub async fn restore(&self, snapshot: &Snapshot) -> Result<usize, Status> {
        let restored = self.store().restore(snapshot).await;
        let restored = restored.map_err(Status::internal_error)?;
        // What may have come or gone with it.
        self.notice_judge();
        self.settle_custom_kinds().await?;
        Ok(restored)
    }

    /// What time it is.
    pub fn clock(&self) -> Clock {
        Clock
    }

    /// What is wrong with an object in this cluster, and would not be in another.
    pub(crate) fn policy_faults(&self, definition: &Definition, object: &Value) -> FieldErrors {
        match self.inner.options.allow_privileged {
            true => FieldErrors::new(),
            false => definition.privileged_faults(object),
        }
    }

    /// Whether what an object may hold depends on more than the rules of its kind.
    pub(crate) fn has_policy(&self) -> bool {
        !self.inner.options.allow_privileged
    }

    /// Whether pods have service accounts.
    pub(crate) fn has_service_accounts(&self) -> bool {
        self.inner.options.service_accounts
    }

    /// The rules as last read.
    pub(crate) fn policy_cache(&self) -> &PolicyCache {
        &self.inner.policy_cache
    }

    /// Whether anybody may ever have written a policy or a webhook; until then nobody needs to look for them.
    pub(crate) fn may_have_judges(&self) -> bool {
        self.inner.may_have_judges.load(Ordering::Acquire)
    }

    /// Notes that somebody writes one.
    pub(crate) fn notice_judge(&self) {
        self.inner.may_have_judges.store(true, Ordering::Release);
    }

    /// The policies in force, as last read.
    pub(crate) fn policy_book(&self) -> &PolicyBook {
        &self.inner.policy_book
    }

    /// The webhooks that are configured, as last read.
    pub(crate) fn webhook_book(&self) -> &WebhookBook {
        &self.inner.webhook_book
    }

    /// The way to webhooks.
    pub(crate) fn webhook_transport(&self) -> Option<&Arc<dyn WebhookTransport>> {
        self.inner.options.webhooks.as_ref()
    }

    /// The other versions of a resource: those whose objects are stored in the same place.
    pub(crate) fn definitions_beside(&self, definition: &Definition) -> Vec<Arc<Definition>> {
        let prefix = definition.prefix("");
        let is_beside =
            |it: &Arc<Definition>| it.api_version != definition.api_version && it.prefix("") == prefix;
        match definition.is_custom() {
            true => self
                .custom_definitions()
                .1
                .into_iter()
                .filter(is_beside)
                .collect(),
            false => BUILTIN.values().filter(|it| is_beside(it)).cloned().collect(),
        }
    }

    /// The resource of a kind, wherever it is defined.
    pub(crate) fn definition_of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Definition>> {
        let is_wanted = |it: &&Arc<Definition>| it.api_version == api_version && it.resource.kind == kind;
        let builtin = BUILTIN.values().find(is_wanted).cloned();
        builtin.or_else(|| self.custom_definitions().1.iter().find(is_wanted).cloned())
    }

    /// What is given out, as last seen.
    pub(crate) fn allocations(&self) -> &Allocations {
        &self.inner.allocations
    }

    /// Keeps others from giving out addresses, for a resource that has them.
    pub(crate) async fn allocation_lock(&self, definition: &Definition) -> Option<Allocating<'_>> {
        match definition.is(&builtin::SERVICE) {
            true => Some(Allocating::new(self, self.inner.allocation.lock().await)),
            false => None,
        }
    }

    /// Ends every watch on a custom resource that is served no longer, or otherwise, when it has told what happened.
    /// Whoever watches what takes its place shares nothing with them.
    pub(crate) fn end_watches(&self, definition: &Definition) {
        if let Some(life) = &definition.life {
            life.is_retired.send_replace(true);
        }
        self.inner.watch_caches.lock().remove(&definition.prefix(""));
    }

    /// The resource's history, shared by its watches.
    pub(crate) fn watch_cache(&self, definition: &Definition) -> Result<Watcher, Status> {
        let prefix = definition.prefix("");
        let mut caches = self.inner.watch_caches.lock();
        if let Some(cache) = caches.get(&prefix) {
            return Ok(cache.clone().enter());
        }
        let closed = |_: ReadError| Status::service_unavailable("the server is shutting down");
        let cache = Arc::new(WatchCache::open(self.store(), &prefix).map_err(closed)?);
        caches.insert(prefix, cache.clone());
        Ok(cache.enter())
    }
}
