//! A write: everything that happens between a request and the store, for create, update, patch, apply and delete.
//!
//! A [`Write`] says what is written, by whom, and what is held for it. It takes a [`Proposal`], which is what the request
//! wants the object to become, through one list of phases ([`Write::complete`]). The verbs differ in how they come by
//! the proposal and in how they store the result:
//!
//! | verb | proposal | stored by |
//! |---|---|---|
//! | create | the body, with defaults ([`create`]) | create if absent; a generated name that is taken is made again |
//! | update | the body, with defaults ([`update`]) | compare-and-swap; read and proposed again if someone was faster |
//! | patch | the live object, patched ([`patch`]) | the same |
//! | apply | the live object and what the manager wants ([`apply`]) | the same; create if absent |
//! | delete | the live object, marked ([`delete`]) | the same; removed if nothing keeps it |
//!
//! A patch of labels, annotations or finalizers alone has a short cut that gives the same result ([`metadata_patch`]).

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
use watchkeeper_kinds::{Part, builtin};
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

/// Which object, or which part of it, is written.
#[derive(Clone, Copy)]
pub(crate) struct Target<'r> {
    pub(crate) definition: &'r Arc<Definition>,
    pub(crate) namespace: &'r str,
    /// Empty for a new object, which says its name itself.
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

/// A write under way.
pub(crate) struct Write<'r> {
    pub(crate) registry: &'r Registry,
    /// The resource as it is served now.
    pub(crate) definition: Arc<Definition>,
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    pub(crate) part: Part,
    pub(crate) context: &'r WriteContext,
    /// What is held until the object is stored.
    pub(crate) guard: Guard<'r>,
    /// Where a webhook converts: what it has converted for managed fields.
    ledger: Option<Arc<Ledger>>,
}

impl<'r> Write<'r> {
    /// Begins a write. The resource may be served by a later definition than the one that the request was understood by.
    /// Whoever holds one of these must not begin another, nor settle definitions.
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

    /// A write that nothing is held for, and after which nothing is to be done: of a built-in kind, by the server.
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

    /// The object as it is stored, if it is there.
    async fn find(&self) -> Result<Option<StoredObject>, Status> {
        self.registry
            .find_stored(&self.definition, self.namespace, self.name, ReadAt::Latest)
            .await
    }

    async fn is_there(&self) -> Result<bool, Status> {
        self.find().await.map(|found| found.is_some())
    }

    /// The object as it is stored; an error if it is not there.
    async fn stored(&self) -> Result<StoredObject, Status> {
        let found = self.find().await?;
        found.ok_or_else(|| Status::not_found(&self.definition.group_resource(), self.name))
    }

    /// A stored object in the version that is written. The guard is released while a webhook converts it.
    async fn served(&mut self, stored: &StoredObject) -> Result<StoredObject, Status> {
        if self.definition.converter.is_none() {
            return Ok(stored.clone());
        }
        let definition = self.definition.clone();
        self.guard.let_go();
        // In a box: hardly any write waits for one.
        let served = Box::pin(self.registry.one_in_served_version(&definition, stored.clone())).await?;
        self.guard.take_again(&definition).await?;
        Ok(served)
    }

    /// Converts what was asked for while a manager's fields were worked out. Whether they have to be worked out again.
    /// The guard is released meanwhile.
    async fn complete_ledger(&mut self) -> Result<bool, Status> {
        let Some(ledger) = self.ledger.clone().filter(|ledger| ledger.has_missing()) else {
            return Ok(false);
        };
        let definition = self.definition.clone();
        self.guard.let_go();
        Box::pin(ledger.complete(self.registry)).await;
        self.guard.take_again(&definition).await?;
        Ok(true)
    }

    /// What is stored of an object of the version that is written. The guard is released while a webhook converts it.
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
        self.guard.let_go();
        let wanted = &custom.stored_api_version;
        let converted = Box::pin(self.registry.convert(&definition, vec![whole], wanted)).await?;
        self.guard.take_again(&definition).await?;
        let converted = converted.into_iter().next().unwrap_or_default();
        object::custom::encode_whole(&definition, custom, converted)
    }

    /// Takes a proposal through every phase between request and store, in order. A new object has no live state.
    ///
    /// The future is boxed, so that the phases are compiled once and not again with every caller.
    pub(crate) fn complete<'s, 'l: 's>(
        &'s mut self,
        live: Option<&'l Live>,
        proposal: Proposal,
    ) -> BoxFuture<'s, Result<Draft<'l>, Status>> {
        Box::pin(async move {
            let mut draft = self.draft(live, proposal);
            // The parts this request does not write, and server-owned metadata, keep their live values.
            self.keep_the_rest(&mut draft);
            // Managed fields are recorded before admission: what the server fills in belongs to nobody.
            self.record_managers_in_versions(&mut draft).await?;
            // Mutating admission plugins complete the object from its cluster, or refuse it.
            self.admit(&mut draft).await?;
            // Mutating webhooks see what the plugins completed. The guard is released while they are called.
            self.call_mutating_webhooks(&mut draft).await?;
            // Server-owned fields come after everyone who could have changed them.
            self.prepare(&mut draft);
            // Addresses are allocated late: from here until the write is stored, other allocations wait.
            self.allocate(&mut draft).await?;
            // Hooks and webhooks leave objects in any form; validation and storage need the canonical one.
            self.canonicalize(&mut draft)?;
            self.count_generation(&mut draft);
            // Validation sees exactly what would be stored.
            self.admit_resize(&draft).await?;
            self.validate(&draft)?;
            // Validating plugins, policies and webhooks see only valid objects.
            self.admit_valid(&draft).await?;
            // Quota comes last: a refused request is not charged.
            self.charge_quota(&draft).await?;
            self.definition.warn(
                &draft.object,
                draft.live.map(|live| &live.value),
                &self.context.warnings,
            );
            Ok(draft)
        })
    }

    /// Does what follows at once from a state of the object that is stored.
    async fn follow(&self, before: Option<&Value>, after: Option<&Value>) {
        if self.definition.is(&builtin::SERVICE) && !self.context.dry_run {
            // In a box: no other write makes room for it.
            Box::pin(self.registry.follow_service(before, after)).await;
        }
    }

    /// Releases the guard after the object is stored. What follows from a changed CustomResourceDefinition, flow schema or
    /// priority level is done before the writer is answered.
    pub(crate) async fn end(self) -> Result<(), Status> {
        self.guard.release().await?;
        match flow_schemas::are_affected_by(&self.definition) && !self.context.dry_run {
            // Rare and long: no other write makes room for it.
            true => Box::pin(self.registry.settle_flow_schemas()).await,
            false => Ok(()),
        }
    }
}
