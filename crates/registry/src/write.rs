//! The write path: everything between a request and the store, for create, update, patch, apply and delete.
//!
//! A [`Write`] holds the target, the context and the guard. It takes a [`Proposal`], the state requested for the
//! object, through one list of phases ([`Write::complete`]). The verbs differ in how they make the proposal and how
//! they store the result:
//!
//! | verb | proposal | stored by |
//! |---|---|---|
//! | create | the body, with defaults ([`create`]) | create if absent; a taken generated name is generated again |
//! | update | the body, with defaults ([`update`]) | compare-and-swap; on conflict, read and proposed again |
//! | patch | the live object, patched ([`patch`]) | the same |
//! | apply | the live object merged with the configuration ([`apply`]) | the same; create if absent |
//! | delete | the live object, marked for deletion ([`delete`]) | the same; removed if it has no finalizers or grace period |
//!
//! A patch of only labels, annotations or finalizers has a fast path with the same result ([`metadata_patch`]).

mod apply;
mod create;
mod delete;
mod draft;
mod flow_schemas;
mod guard;
mod ip_addresses;
mod metadata_patch;
mod open_metadata;
mod parts;
mod patch;
mod phases;
mod update;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::Status;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_storage::ReadAt;

use crate::Registry;
use crate::context::WriteContext;
use crate::conversion::ledger::Ledger;
use crate::definition::Definition;
use crate::object::{self, Live, StoredObject};

pub(crate) use self::apply::{Configuration, other_kind, read_configuration};
pub use self::delete::Deletion;
pub(crate) use self::delete::{DeleteAdmission, check_preconditions};
pub(crate) use self::draft::{Draft, Managed, Proposal};
pub(crate) use self::guard::Guard;
pub(crate) use self::patch::{check_shape, patched};
pub use self::update::Written;
pub(crate) use self::update::check_stored_identity;

/// The object, or the part of it, that is written.
#[derive(Clone, Copy)]
pub(crate) struct Target<'r> {
    pub(crate) definition: &'r Arc<Definition>,
    pub(crate) namespace: &'r str,
    /// Empty for a new object, whose body states the name.
    pub(crate) name: &'r str,
    pub(crate) part: Part,
}

impl<'r> Target<'r> {
    pub(crate) fn new(
        definition: &'r Arc<Definition>,
        namespace: &'r str,
        name: &'r str,
        part: Part,
    ) -> Self {
        Self {
            definition,
            namespace,
            name,
            part,
        }
    }
}

/// A write in progress.
pub(crate) struct Write<'r> {
    pub(crate) registry: &'r Registry,
    /// The current definition of the resource.
    pub(crate) definition: Arc<Definition>,
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    pub(crate) part: Part,
    pub(crate) context: &'r WriteContext,
    /// Held until the object is stored.
    pub(crate) guard: Guard<'r>,
    /// The conversions needed for managed fields, if the kind has a conversion webhook.
    ledger: Option<Arc<Ledger>>,
}

impl<'r> Write<'r> {
    /// Begins a write. The definition may be newer than the one the request was routed with. While holding a write,
    /// do not begin another, and do not settle definitions.
    pub(crate) async fn begin(
        registry: &'r Registry,
        target: Target<'r>,
        context: &'r WriteContext,
    ) -> Result<Self, Status> {
        let (definition, guard) = Guard::take(registry, target.definition).await?;
        Ok(Self {
            ledger: Ledger::of(&definition),
            definition,
            guard,
            ..Self::unguarded(registry, target, context)
        })
    }

    /// A write without a guard and without follow-up work: the server's own writes of built-in kinds.
    pub(crate) fn unguarded(registry: &'r Registry, target: Target<'r>, context: &'r WriteContext) -> Self {
        Self {
            registry,
            definition: target.definition.clone(),
            namespace: target.namespace,
            name: target.name,
            part: target.part,
            context,
            guard: Guard::nothing(registry),
            ledger: Ledger::of(target.definition),
        }
    }

    /// The stored object, if it exists.
    async fn find(&self) -> Result<Option<StoredObject>, Status> {
        self.registry
            .find_stored(&self.definition, self.namespace, self.name, ReadAt::Latest)
            .await
    }

    async fn is_there(&self) -> Result<bool, Status> {
        self.find().await.map(|found| found.is_some())
    }

    /// The stored object; an error if it does not exist.
    async fn stored(&self) -> Result<StoredObject, Status> {
        let found = self.find().await?;
        found.ok_or_else(|| Status::not_found(&self.definition.group_resource(), self.name))
    }

    /// Converts a stored object to the request's version. The guard is released during a webhook call.
    async fn served(&mut self, stored: &StoredObject) -> Result<StoredObject, Status> {
        if self.definition.converter.is_none() {
            return Ok(stored.clone());
        }
        let definition = self.definition.clone();
        self.guard.release_locks();
        // Boxed: few writes need a webhook.
        let served = self
            .registry
            .one_in_served_version(&definition, stored.clone())
            .await?;
        self.guard.retake(&definition).await?;
        Ok(served)
    }

    /// Performs the conversions that managed fields required. Returns true if managed fields must be computed again.
    /// The guard is released during a webhook call.
    async fn complete_ledger(&mut self) -> Result<bool, Status> {
        let Some(ledger) = self.ledger.clone().filter(|ledger| ledger.has_missing()) else {
            return Ok(false);
        };
        let definition = self.definition.clone();
        self.guard.release_locks();
        Box::pin(ledger.complete(self.registry)).await;
        self.guard.retake(&definition).await?;
        Ok(true)
    }

    /// Encodes an object of the request's version for the store. The guard is released during a webhook call.
    async fn encoded(&mut self, object: &Value, managers: &Managers) -> Result<Bytes, Status> {
        let definition = self.definition.clone();
        let custom = definition.custom.as_ref().filter(|custom| {
            definition.converter.is_some() && custom.stored_api_version != definition.api_version
        });
        let Some(custom) = custom else {
            return StoredObject::encode(&definition, object, managers);
        };
        let mut whole = object.clone();
        managers.write_to(&mut whole);
        self.guard.release_locks();
        let wanted = &custom.stored_api_version;
        let converted = self.registry.convert(&definition, vec![whole], wanted).await?;
        self.guard.retake(&definition).await?;
        let converted = converted.into_iter().next().unwrap_or_default();
        object::custom::encode_whole(&definition, custom, converted)
    }

    /// Takes a proposal through all phases between request and store, in order. A new object has no live state.
    ///
    /// Boxed, so that the phases are compiled once, not with every caller.
    pub(crate) fn complete<'s, 'l: 's>(
        &'s mut self,
        live: Option<&'l Live>,
        proposal: Proposal,
    ) -> BoxFuture<'s, Result<Draft<'l>, Status>> {
        Box::pin(async move {
            let mut draft = self.draft(live, proposal);
            // The parts this request does not write, and server-owned metadata, keep their live values.
            self.keep_the_rest(&mut draft);
            // Managed fields are recorded before admission: nobody owns fields that the server sets.
            self.record_managers_in_versions(&mut draft).await?;
            // Mutating admission: plugins fill in values from the cluster, policies and webhooks see them; each may
            // reject the object.
            self.mutate(&mut draft).await?;
            // Nobody grants more than they have, not even in an invalid role.
            self.check_grant(&draft).await?;
            // Server-owned fields are set after everything that could have changed them.
            self.prepare(&mut draft);
            // Addresses are allocated late: other allocations wait until this write is stored.
            self.allocate(&mut draft).await?;
            // Hooks and webhooks may leave any form; validation and storage need the canonical one.
            self.canonicalize(&mut draft)?;
            self.count_generation(&mut draft);
            // Validation sees exactly what would be stored.
            self.admit_resize(&draft).await?;
            self.validate(&draft)?;
            // Validating admission sees only valid objects.
            self.check(&draft).await?;
            self.definition.warn(
                self.part,
                &draft.object,
                draft.live.map(|live| &live.value),
                &self.context.warnings,
            );
            Ok(draft)
        })
    }

    /// Performs the immediate consequences of a stored state.
    async fn follow(&self, before: Option<&Value>, after: Option<&Value>) {
        if self.definition.kind.allocates_addresses && !self.context.dry_run {
            // Boxed: other writes need no space for it.
            self.registry.follow_service(before, after).await;
        }
    }

    /// Releases the guard after the object is stored. The consequences of a changed CustomResourceDefinition, flow
    /// schema or priority level are completed before the response.
    pub(crate) async fn end(self) -> Result<(), Status> {
        self.guard.release().await?;
        match flow_schemas::are_affected_by(&self.definition) && !self.context.dry_run {
            // Boxed: rare and large.
            true => self.registry.settle_flow_schemas().await,
            false => Ok(()),
        }
    }
}
