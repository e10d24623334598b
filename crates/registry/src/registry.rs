//! The registry: all resources over one store.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::{User, builtin};
use watchkeeper_meta::{Collect, FieldErrors, Status};
use watchkeeper_storage::{ImportedChange, Revision, Snapshot, Store, WriteError};

use crate::admission::policies::AdmissionPolicies;
use crate::admission::webhooks::WebhookCache;
use crate::allocate::Allocator;
use crate::custom::{Settling, definition_feed, follow_definitions};
use crate::definition::Definition;
use crate::feature_gates::FeatureGates;
use crate::metrics::Metrics;
use crate::rbac::{Attributes, Authorizer, Decision, RbacCache, Rules};
use crate::reader::Reader;
use crate::webhook_client::WebhookTransport;

/// The semantics of reads, writes and watches over one store. Clones share their state.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

/// Options of a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Allows privileged containers. On by default, as in most clusters: network and storage drivers need it, and pod
    /// security can forbid it. In a bare kube-apiserver it is off.
    pub allow_privileged: bool,
    /// Adds a service account and its token to pods, and rejects pods whose account does not exist. Off by default: a
    /// controller must create the default accounts, which a server alone does not.
    pub service_accounts: bool,
    /// The store has the history of another cluster: no objects are created at start, and definitions of custom kinds
    /// are accepted as they are. Off by default.
    pub is_replay: bool,
    /// The transport to webhooks. Without one, no webhook can be called, and their failure policies apply.
    pub webhooks: Option<Arc<dyn WebhookTransport>>,
    /// The enabled features.
    pub feature_gates: FeatureGates,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            allow_privileged: true,
            service_accounts: false,
            is_replay: false,
            webhooks: None,
            feature_gates: FeatureGates::default(),
        }
    }
}

impl RegistryOptions {
    /// Opens a registry of the built-in resources, and creates the objects every cluster starts with if they do not
    /// exist.
    pub fn open(self, store: Store) -> BoxFuture<'static, Result<Registry, Status>> {
        Box::pin(self.open_here(store))
    }

    async fn open_here(self, store: Store) -> Result<Registry, Status> {
        let is_replay = self.is_replay;
        let imported = if is_replay {
            store.current_revision().get()
        } else {
            0
        };
        let registry = Registry {
            inner: Arc::new(Inner {
                imported: AtomicU64::new(imported),
                reader: Reader::new(store, self.webhooks.clone(), self.feature_gates),
                options: self,
                settling: Settling::default(),
                rbac_cache: RbacCache::default(),
                may_have_admission_configuration: AtomicBool::new(false),
                admission_policies: AdmissionPolicies::default(),
                webhook_cache: WebhookCache::default(),
                allocator: Allocator::default(),
                metrics: Metrics::default(),
            }),
        };
        if !is_replay {
            Box::pin(registry.bootstrap()).await?;
        }
        registry.look_for_admission_configuration().await?;
        // Before the definitions are read, so that no change is missed.
        let definitions = definition_feed(&registry)?;
        registry.settle_custom_kinds().await?;
        if let Some(feed) = definitions {
            tokio::spawn(follow_definitions(Arc::downgrade(&registry.inner), feed));
        }
        Ok(registry)
    }
}

pub(crate) struct Inner {
    /// Everything up to this revision was imported from another cluster.
    imported: AtomicU64,
    reader: Reader,
    options: RegistryOptions,
    settling: Settling,
    rbac_cache: RbacCache,
    may_have_admission_configuration: AtomicBool,
    admission_policies: AdmissionPolicies,
    webhook_cache: WebhookCache,
    allocator: Allocator,
    metrics: Metrics,
}

impl Registry {
    /// The registry, if it still exists.
    pub(crate) fn upgrade(inner: &Weak<Inner>) -> Option<Self> {
        inner.upgrade().map(|inner| Self { inner })
    }

    /// Opens a registry with the default [`RegistryOptions`].
    pub fn open(store: Store) -> BoxFuture<'static, Result<Self, Status>> {
        RegistryOptions::default().open(store)
    }

    /// Restores the objects of a snapshot with ordinary writes, which watches deliver. Returns the number of objects
    /// written.
    pub fn restore<'a>(&'a self, snapshot: &'a Snapshot) -> BoxFuture<'a, Result<usize, Status>> {
        Box::pin(async move {
            let restored = self.store().restore(snapshot).await;
            let restored = restored.map_err(Status::internal_error)?;
            // The snapshot may contain policies or webhooks.
            self.note_admission_configuration();
            self.settle_custom_kinds().await?;
            Ok(restored)
        })
    }

    /// Imports further changes of another cluster's history at their own revisions. Fails with [`WriteError::Past`]
    /// after the first write to this registry, which starts a history of its own.
    pub async fn import(&self, changes: Vec<ImportedChange>) -> Result<Revision, WriteError> {
        let definitions = self.builtin(&builtin::CUSTOM_RESOURCE_DEFINITION);
        let prefix = definitions.map(|definitions| definitions.prefix(""));
        let defines = prefix.is_ok_and(|prefix| changes.iter().any(|it| it.key.starts_with(&*prefix)));
        let revision = self.store().import(changes).await?;
        self.inner.imported.fetch_max(revision.get(), Ordering::AcqRel);
        self.note_admission_configuration();
        if defines && let Err(status) = self.settle_custom_kinds().await {
            tracing::warn!("custom kinds are not up to date: {}", status.message);
        }
        Ok(revision)
    }

    /// Everything up to this revision was imported from another cluster.
    pub(crate) fn imported(&self) -> Revision {
        Revision::new(self.inner.imported.load(Ordering::Acquire))
    }

    /// The validation errors that depend on this cluster's options.
    pub(crate) fn policy_errors(&self, definition: &Definition, object: &Value) -> FieldErrors {
        match self.inner.options.allow_privileged {
            true => FieldErrors::new(),
            false => definition.privileged_errors(object),
        }
    }

    /// True if the validity of objects depends on the options.
    pub(crate) fn has_policy(&self) -> bool {
        !self.inner.options.allow_privileged
    }

    /// True if pods get service accounts.
    pub(crate) fn has_service_accounts(&self) -> bool {
        self.inner.options.service_accounts
    }

    /// False if no admission policy or webhook was ever written, so that none need to be looked up.
    pub(crate) fn may_have_admission_configuration(&self) -> bool {
        self.inner
            .may_have_admission_configuration
            .load(Ordering::Acquire)
    }

    /// Records that an admission policy or webhook is written.
    pub(crate) fn note_admission_configuration(&self) {
        self.inner
            .may_have_admission_configuration
            .store(true, Ordering::Release);
    }

    /// The compiled admission policies.
    pub(crate) fn admission_policies(&self) -> &AdmissionPolicies {
        &self.inner.admission_policies
    }

    /// The compiled webhook configurations.
    pub(crate) fn webhook_cache(&self) -> &WebhookCache {
        &self.inner.webhook_cache
    }

    /// The durations of admission and of writes to the store.
    pub(crate) fn durations(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The durations of admission and of writes to the store, for `/metrics`.
    pub fn metrics(&self) -> &dyn Collect {
        &self.inner.metrics
    }

    /// The allocator of service addresses and node ports.
    pub(crate) fn allocator(&self) -> &Allocator {
        &self.inner.allocator
    }

    /// The compiled definitions of custom kinds.
    pub(crate) fn settling(&self) -> &Settling {
        &self.inner.settling
    }

    /// The RBAC authorizer.
    pub(crate) fn authorizer(&self) -> Authorizer<'_> {
        Authorizer::new(self, &self.inner.rbac_cache)
    }

    /// Decides whether a user may perform an action.
    pub async fn may(&self, user: &User, action: Attributes<'_>) -> Result<Decision, Status> {
        self.authorizer().may(user, action).await
    }

    /// All RBAC rules of a user in a namespace.
    pub fn rules_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Rules, Status>> {
        Box::pin(async move { self.authorizer().rules_of(user, namespace).await })
    }
}

/// Reads go through the [`Reader`].
impl Deref for Registry {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.inner.reader
    }
}
