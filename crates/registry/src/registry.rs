//! The registry: every resource over one store.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use serde_json::Value;
use watchkeeper_kinds::User;
use watchkeeper_meta::{FieldErrors, Status};
use watchkeeper_storage::{Snapshot, Store};

use crate::admission::policies::PolicyBook;
use crate::admission::webhooks::WebhookBook;
use crate::allocate::Allocator;
use crate::custom::{Settling, definition_feed, follow_definitions};
use crate::definition::Definition;
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
        // In a box: done once, and larger than all that is done later.
        Box::pin(self.open_here(store)).await
    }

    async fn open_here(self, store: Store) -> Result<Registry, Status> {
        let registry = Registry {
            inner: Arc::new(Inner {
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
        Box::pin(registry.bootstrap()).await?;
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
    pub async fn open(store: Store) -> Result<Self, Status> {
        RegistryOptions::default().open(store).await
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
    pub async fn rules_of(&self, user: &User, namespace: &str) -> Result<Rules, Status> {
        self.authorizer().rules_of(user, namespace).await
    }
}

/// A registry reads what it writes.
impl Deref for Registry {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.inner.reader
    }
}
