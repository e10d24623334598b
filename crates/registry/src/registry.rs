//! The registry: every resource over one store.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::User;
use watchkeeper_meta::{FieldErrors, Status};
use watchkeeper_storage::{ImportedChange, Revision, Snapshot, Store, WriteError};

use crate::admission::policies::PolicyBook;
use crate::admission::webhooks::WebhookBook;
use crate::allocate::Allocator;
use crate::custom::{Settling, definition_feed, follow_definitions};
use crate::definition::Definition;
use crate::import::is_definition;
use crate::rbac::{Action, Authorizer, Decision, PolicyCache, Rules};
use crate::reader::Reader;
use crate::webhook_client::WebhookTransport;

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
    /// The store has the past of another cluster: nothing is created at the start, and definitions of custom kinds are
    /// taken as they are. No unless told otherwise.
    pub is_replay: bool,
    /// The way to webhooks. Without one, none can be asked, and their failure policies decide.
    pub webhooks: Option<Arc<dyn WebhookTransport>>,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            allow_privileged: true,
            service_accounts: false,
            is_replay: false,
            webhooks: None,
        }
    }
}

impl RegistryOptions {
    /// A registry of the built-in resources. What every cluster has, default namespaces and the like, is created if
    /// it is not there.
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
                reader: Reader::new(store, self.webhooks.clone()),
                options: self,
                settling: Settling::default(),
                policy_cache: PolicyCache::default(),
                may_have_judges: AtomicBool::new(false),
                policy_book: PolicyBook::default(),
                webhook_book: WebhookBook::default(),
                allocator: Allocator::default(),
            }),
        };
        if !is_replay {
            Box::pin(registry.bootstrap()).await?;
        }
        registry.look_for_judges().await?;
        // Before the look at what is stored, so that nothing falls between.
        let definitions = definition_feed(&registry)?;
        registry.settle_custom_kinds().await?;
        if let Some(feed) = definitions {
            tokio::spawn(follow_definitions(Arc::downgrade(&registry.inner), feed));
        }
        Ok(registry)
    }
}

pub(crate) struct Inner {
    /// Everything up to this revision comes from another cluster.
    imported: AtomicU64,
    reader: Reader,
    options: RegistryOptions,
    settling: Settling,
    policy_cache: PolicyCache,
    may_have_judges: AtomicBool,
    policy_book: PolicyBook,
    webhook_book: WebhookBook,
    allocator: Allocator,
}

impl Registry {
    /// The registry again, if somebody still has it.
    pub(crate) fn upgrade(inner: &Weak<Inner>) -> Option<Self> {
        inner.upgrade().map(|inner| Self { inner })
    }

    /// Opens a registry as [`RegistryOptions`] do by default.
    pub fn open(store: Store) -> BoxFuture<'static, Result<Self, Status>> {
        RegistryOptions::default().open(store)
    }

    /// Makes the store hold what a snapshot of it holds, by writes that watches tell of. Returns how many objects were
    /// written.
    pub fn restore<'a>(&'a self, snapshot: &'a Snapshot) -> BoxFuture<'a, Result<usize, Status>> {
        Box::pin(async move {
            let restored = self.store().restore(snapshot).await;
            let restored = restored.map_err(Status::internal_error)?;
            // What may have come or gone with it.
            self.notice_judge();
            self.settle_custom_kinds().await?;
            Ok(restored)
        })
    }

    /// Takes further changes of another cluster's history, at their own revisions. Fails with [`WriteError::Past`] once
    /// anybody has written to this registry: from there on it has a history of its own.
    pub async fn import(&self, changes: Vec<ImportedChange>) -> Result<Revision, WriteError> {
        let defines = changes.iter().any(|change| is_definition(&change.key));
        let revision = self.store().import(changes).await?;
        self.inner.imported.fetch_max(revision.get(), Ordering::AcqRel);
        self.notice_judge();
        if defines && let Err(status) = self.settle_custom_kinds().await {
            tracing::warn!("custom kinds are not up to date: {}", status.message);
        }
        Ok(revision)
    }

    /// Everything up to this revision comes from another cluster.
    pub(crate) fn imported(&self) -> Revision {
        Revision::new(self.inner.imported.load(Ordering::Acquire))
    }

    /// What is wrong with an object in this cluster, and would not be in another.
    pub(crate) fn policy_errors(&self, definition: &Definition, object: &Value) -> FieldErrors {
        match self.inner.options.allow_privileged {
            true => FieldErrors::new(),
            false => definition.privileged_errors(object),
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

    /// Who gives out addresses and ports to services.
    pub(crate) fn allocator(&self) -> &Allocator {
        &self.inner.allocator
    }

    /// What is known of custom kinds besides what is served of them.
    pub(crate) fn settling(&self) -> &Settling {
        &self.inner.settling
    }

    /// Who decides what users may do.
    pub(crate) fn authorizer(&self) -> Authorizer<'_> {
        Authorizer::new(self, &self.inner.policy_cache)
    }

    /// Whether a user may do something.
    pub async fn may(&self, user: &User, action: Action<'_>) -> Result<Decision, Status> {
        self.authorizer().may(user, action).await
    }

    /// Everything a user may do in a namespace.
    pub fn rules_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Rules, Status>> {
        Box::pin(async move { self.authorizer().rules_of(user, namespace).await })
    }
}

/// A registry reads what it writes.
impl Deref for Registry {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.inner.reader
    }
}
