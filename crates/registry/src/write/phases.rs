//! The phases of a write, in the order of [`Write::complete`]. Each states where new and changed objects differ.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_kinds::{Generation, Part};
use watchkeeper_meta::{FieldErrors, Status};
use watchkeeper_patch::endpoint::{Endpoint, Versions};
use watchkeeper_wire::difference::Difference;

use super::Write;
use super::create::managers_of_new;
use super::draft::{Draft, Managed, Proposal};
use super::parts::{is_same_but_for, restrict};
use crate::admission::quota;
use crate::context::{accept, timestamp};
use crate::metadata::{self, Repeated};
use crate::metrics::{Stage, Step};
use crate::object::Live;

/// The limit on repeated computations of managed fields because of missing conversions.
pub(super) const MAX_ROUNDS: usize = 8;

impl Write<'_> {
    /// The versions of the kind, if it has several.
    pub(super) fn versions(&self) -> Option<&dyn Versions> {
        match &self.ledger {
            Some(ledger) => Some(&**ledger),
            None => self.definition.versions(),
        }
    }

    /// The draft of a proposal.
    pub(super) fn draft<'l>(&self, live: Option<&'l Live>, proposal: Proposal) -> Draft<'l> {
        let Proposal { mut object, managed } = proposal;
        let given = metadata::take_managed_fields(&mut object);
        let may_give = matches!(self.part, Part::Object | Part::Finalize | Part::Whole);
        let before = || live.map(|live| live.managers.clone()).unwrap_or_default();
        let (managers, is_recorded) = match managed {
            Managed::By(managers) => (managers, true),
            Managed::AsBefore => (before(), true),
            Managed::ByChange => (before(), false),
        };
        Draft {
            live,
            object,
            managers,
            is_recorded,
            given_managers: given.filter(|_| may_give),
            difference: Difference::Everywhere,
            name_prefix: None,
        }
    }

    /// True for pod subresources where Kubernetes records managed fields even of fields that are then reset.
    fn records_reset_fields(&self) -> bool {
        matches!(self.part, Part::Resize | Part::EphemeralContainers)
    }

    /// Restores the parts of the live object that this request does not write.
    pub(super) fn keep_the_rest(&self, draft: &mut Draft<'_>) {
        let Some(live) = draft.live else { return };
        if !self.records_reset_fields() {
            restrict(&self.definition, self.part, &mut draft.object, &live.value);
        }
        metadata::keep(&mut draft.object, &live.value);
        // Fields that the conversion derives from a stored part belong to the writer too.
        if let Some(conversion) = self.definition.conversion {
            let object = std::mem::take(&mut draft.object);
            draft.object = conversion.to_served(conversion.to_stored(object));
        }
    }

    /// Records the writer as the manager of the fields it wrote.
    fn record_managers(&self, draft: &mut Draft<'_>) {
        if !draft.is_recorded
            && let Some(given) = &draft.given_managers
        {
            draft.managers = std::mem::take(&mut draft.managers).replaced_by(given);
        }
        match draft.live {
            _ if draft.is_recorded => {}
            None => self.record_new(draft),
            Some(live) => self.record_change(draft, live),
        }
        if let (true, Some(live)) = (self.records_reset_fields(), draft.live) {
            restrict(&self.definition, self.part, &mut draft.object, &live.value);
        }
    }

    /// Like [`Self::record_managers`], repeated while webhook conversions are missing.
    pub(super) async fn record_managers_in_versions(&mut self, draft: &mut Draft<'_>) -> Result<(), Status> {
        if self.ledger.is_none() {
            self.record_managers(draft);
            return Ok(());
        }
        let before = draft.managers.clone();
        for _ in 0..MAX_ROUNDS {
            draft.managers = before.clone();
            self.record_managers(draft);
            if !self.complete_ledger().await? {
                break;
            }
        }
        Ok(())
    }

    /// The writer of a new object manages all fields that are stored.
    fn record_new(&self, draft: &mut Draft<'_>) {
        let definition = &self.definition;
        let writer = self.context.writer(definition, "", self.registry.clock().now());
        let unmanaged = definition.unmanaged_fields();
        let object = &mut draft.object;
        let set_aside = unmanaged
            .iter()
            .filter_map(|name| object.as_object_mut()?.remove_entry(*name));
        let set_aside: Vec<(String, Value)> = set_aside.collect();
        let before = std::mem::take(&mut draft.managers);
        draft.managers = managers_of_new(&definition.schema, definition.type_id, object, before, &writer);
        if let Some(fields) = object.as_object_mut() {
            fields.extend(set_aside);
        }
    }

    /// The writer manages the changed fields. An object without managers stays so until someone applies.
    fn record_change(&self, draft: &mut Draft<'_>, live: &Live) {
        if draft.managers.is_empty() {
            return;
        }
        let definition = &self.definition;
        let now = self.registry.clock().now();
        let writer = self.context.writer(definition, self.part.subresource(), now);
        let endpoint = Endpoint {
            versions: self.versions(),
            reset: definition.reset_fields(self.part),
        };
        let difference = Difference::between(&live.value, &draft.object);
        let states = (&live.value, &draft.object, &difference);
        let (schema, root) = (&*definition.schema, definition.type_id);
        draft
            .managers
            .record_update(schema, root, states, &endpoint, &writer);
    }

    /// Runs mutating admission: plugins first, then policies and webhooks, which see the values of the plugins. The guard
    /// is released during webhook calls.
    pub(super) async fn mutate(&mut self, draft: &mut Draft<'_>) -> Result<(), Status> {
        let began = Instant::now();
        let mut admitted = self.admit(draft).await;
        if admitted.is_ok() {
            admitted = self.call_mutating_webhooks(draft).await;
        }
        self.registry
            .durations()
            .stage(stage(Step::Admit, draft), began, &admitted);
        admitted
    }

    /// Runs validating admission: plugins, policies, webhooks, and quota last, so that a rejected request is not charged.
    pub(super) async fn check(&mut self, draft: &Draft<'_>) -> Result<(), Status> {
        let began = Instant::now();
        let mut admitted = self.admit_valid(draft).await;
        if admitted.is_ok() {
            admitted = self.charge_quota(draft).await;
        }
        self.registry
            .durations()
            .stage(stage(Step::Validate, draft), began, &admitted);
        admitted
    }

    /// Runs mutating admission plugins.
    async fn admit(&self, draft: &mut Draft<'_>) -> Result<(), Status> {
        let (registry, definition) = (self.registry, &self.definition);
        match draft.live {
            None => {
                self.check_kind_is_not_terminating(&draft.object)?;
                registry
                    .admit_create(definition, self.namespace, &mut draft.object, self.context)
                    .await
            }
            Some(live) => {
                registry
                    .admit_update(self.part, &live.value, &mut draft.object)
                    .await
            }
        }
    }

    /// Rejects a new object of a kind that is being deleted.
    fn check_kind_is_not_terminating(&self, object: &Value) -> Result<(), Status> {
        if !self.definition.is_terminating() {
            return Ok(());
        }
        // The name is generated later.
        let name = match metadata::text(object, "name") {
            "" => metadata::text(object, "generateName"),
            name => name,
        };
        let why = "create not allowed while custom resource definition is terminating";
        Err(Status::forbidden(&self.definition.group_resource(), name, why))
    }

    /// True if webhooks may match the write.
    fn may_call_webhooks(&self) -> bool {
        self.part != Part::Whole && self.registry.may_call_webhooks(&self.definition, self.context)
    }

    /// Calls mutating webhooks, then removes duplicate owner references.
    async fn call_mutating_webhooks(&mut self, draft: &mut Draft<'_>) -> Result<(), Status> {
        if self.may_call_webhooks() {
            // Boxed: few writes need it.
            match draft.live {
                None => self.mutate_new(draft).await?,
                Some(live) => {
                    if self.mutate_changed(live, draft).await? {
                        restrict(&self.definition, self.part, &mut draft.object, &live.value);
                        metadata::keep(&mut draft.object, &live.value);
                    }
                }
            }
        }
        let warnings = &self.context.warnings;
        metadata::drop_repeated_owners(&mut draft.object, Repeated::AfterAdmission, warnings);
        Ok(())
    }

    /// Rejects a role or binding that grants more than its writer has.
    pub(super) async fn check_grant(&self, draft: &Draft<'_>) -> Result<(), Status> {
        let (authorizer, live) = (self.registry.authorizer(), draft.live.map(|live| &live.value));
        authorizer
            .check_grant(&self.definition, live, &draft.object, self.context)
            .await
    }

    /// Sets server-owned fields, and resets fields the client may not set or change.
    pub(super) fn prepare(&self, draft: &mut Draft<'_>) {
        let definition = &self.definition;
        let now = timestamp(self.registry.clock().now());
        let object = &mut draft.object;
        if let Some(live) = draft.live {
            return definition.prepare_for_update(self.part, object, &live.value, &now);
        }
        draft.name_prefix = metadata::begin(object, &now);
        if definition.kind.generation != Generation::None && !definition.kind.generation_begins_with_change {
            metadata::of(object).insert("generation".to_owned(), json!(1));
        }
        definition.prepare_for_create(object, &self.context.warnings);
        if let Some(conversion) = definition.conversion {
            conversion.keep(Part::Object, object, &Value::Null);
        }
    }

    /// Allocates addresses and ports.
    pub(super) async fn allocate(&mut self, draft: &mut Draft<'_>) -> Result<(), Status> {
        if !self.definition.kind.allocates_addresses || self.part != Part::Object {
            return Ok(());
        }
        let allocating = self.guard.begin_allocation().await;
        let own = draft.live.map(|live| &live.value);
        allocating
            .allocate(&self.definition, &mut draft.object, own, self.context.dry_run)
            .await
    }

    /// Restores the canonical form where the object differs from the stored one.
    pub(super) fn canonicalize(&self, draft: &mut Draft<'_>) -> Result<(), Status> {
        if let Some(live) = draft.live {
            draft.difference = Difference::between(live.canonical(&self.definition), &draft.object);
        }
        let object = std::mem::take(&mut draft.object);
        draft.object = self
            .definition
            .recanonicalized_changed(object, &draft.difference)?;
        Ok(())
    }

    /// Increments the generation if anything but metadata and status changed, or a label with the same effect.
    pub(super) fn count_generation(&self, draft: &mut Draft<'_>) {
        let (definition, counted) = (&self.definition, self.definition.kind.generation);
        let Some(live) = draft.live.map(|live| &live.value) else {
            return;
        };
        if counted == Generation::None || self.part == Part::Whole {
            return;
        }
        // A custom kind without the status subresource may have a field `status`.
        let has_status = !definition.is_custom() || definition.has_status();
        let is_spec = |name: &str| name != "metadata" && !(name == "status" && has_status);
        let new = &mut draft.object;
        let is_relabeled = || live["metadata"].get("labels") != new["metadata"].get("labels");
        if !is_same_but_for(&draft.difference, live, new, is_spec)
            || (counted == Generation::SpecAndLabels && is_relabeled())
        {
            let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
            metadata::of(new).insert("generation".to_owned(), json!(generation + 1));
        }
    }

    /// Rejects a resize if the pod's node does not exist.
    pub(super) async fn admit_resize(&self, draft: &Draft<'_>) -> Result<(), Status> {
        match (self.part, draft.live) {
            (Part::Resize, Some(live)) => {
                self.registry
                    .admit_resize(&self.definition, &draft.object, &live.value)
                    .await
            }
            _ => Ok(()),
        }
    }

    /// Validates the object; the error lists all field errors.
    pub(super) fn validate(&self, draft: &Draft<'_>) -> Result<(), Status> {
        let (definition, object) = (&self.definition, &draft.object);
        let mut errors = self.errors_of(object, draft);
        // Maps that were sent empty are shown so, if that does not change the errors.
        if !errors.is_empty()
            && let Some(shown) = self.context.emptied.shown_in(object)
        {
            let again = self.errors_of(&shown, draft);
            let fields =
                |errors: &FieldErrors| errors.iter().map(|error| error.field.clone()).collect::<Vec<_>>();
            if fields(&again) == fields(&errors) {
                errors = again;
            }
        }
        accept(definition, object, &errors)
    }

    fn errors_of(&self, object: &Value, draft: &Draft<'_>) -> FieldErrors {
        let definition = &self.definition;
        let Some(live) = draft.live else {
            let mut errors = self.registry.errors(definition, object);
            errors.append(metadata::manager_errors(&draft.managers));
            return errors;
        };
        let mut errors = metadata::update_errors(definition, object, &live.value);
        if draft.given_managers.is_some() {
            errors.append(metadata::manager_errors(&draft.managers));
        }
        let (now, warnings) = (self.registry.clock().now(), &self.context.warnings);
        errors.append(definition.update_errors(self.part, object, &live.value, now, warnings));
        errors.append(self.registry.policy_errors(definition, object));
        errors
    }

    /// Runs validating admission on a valid object: plugins, policies, webhooks. If the guard was released, the
    /// namespace and the allocation are checked again.
    pub(super) fn admit_valid<'a>(&'a mut self, draft: &'a Draft<'a>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let (registry, context) = (self.registry, self.context);
            let (object, live) = (&draft.object, draft.live.map(|live| &live.value));
            match live {
                None => {
                    let definition = &self.definition;
                    registry
                        .authorizer()
                        .check_create_permission(definition, object, context)
                        .await?;
                    registry
                        .admit_created(definition, self.namespace, object, context)
                        .await?;
                }
                Some(live) => {
                    registry
                        .admit_updated(&self.definition, self.part, live, object, context)
                        .await?;
                }
            }
            if self.may_call_webhooks() && self.call_validating_webhooks(draft).await? {
                self.confirm_allocation(draft).await?;
            }
            if live.is_none() && self.guard.was_released() && self.definition.is_namespaced() {
                let name = metadata::text(object, "name");
                registry
                    .check_namespace(&self.definition, self.namespace, name)
                    .await?;
            }
            Ok(())
        })
    }

    /// Checks that the allocated values are still free after the guard was released.
    async fn confirm_allocation(&mut self, draft: &Draft<'_>) -> Result<(), Status> {
        if !self.definition.kind.allocates_addresses || self.part != Part::Object {
            return Ok(());
        }
        let allocating = self.guard.begin_allocation().await;
        let own = draft.live.map(|live| &live.value);
        let again = allocating
            .allocate(&self.definition, &mut draft.object.clone(), own, false)
            .await;
        // A retry allocates other values.
        again.map_err(|_| Status::server_timeout(&self.definition.group_resource(), "allocate", 1))
    }

    /// Charges the object's usage to the quotas of its namespace.
    async fn charge_quota(&self, draft: &Draft<'_>) -> Result<(), Status> {
        let live = draft.live.map(|live| &live.value);
        if live.is_some() && !quota::can_grow(&self.definition, self.part) {
            return Ok(());
        }
        let operation = stage(Step::Validate, draft).operation;
        let mut laps = self.registry.durations().laps(Step::Validate, operation);
        let charged = self
            .registry
            .charge(&self.definition, live, &draft.object, self.context);
        laps.plugin("ResourceQuota", charged.await)
    }
}

fn stage(step: Step, draft: &Draft<'_>) -> Stage {
    let operation = draft.live.map_or("CREATE", |_| "UPDATE");
    Stage { step, operation }
}
