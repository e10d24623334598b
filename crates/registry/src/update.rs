//! Changing an object: read, change, check, compare-and-swap, and again if someone was faster.
//!
//! PUT and all kinds of PATCH share this. They differ in how the new state comes from the live one
//! ([`Proposal`]), and in whether a conflict is the client's to resolve: a client that names a version wants to
//! know, one that does not is content with whatever is there.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use watchkeeper_kinds::{Generation, Part, builtin};
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, Status};
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_storage::WriteError;
use watchkeeper_wire::difference::Difference;

use crate::admission::quota;
use crate::body::Body;
use crate::create::recanonicalized_changed;
use crate::custom::writing::Writing;
use crate::definition::Definition;
use crate::metadata::Repeated;
use crate::object::{Live, StoredObject};
use crate::read_version::parse_number;
use crate::subresources::scale::with_replicas_of;
use crate::write::{WriteContext, accept, not_stored, timestamp};
use crate::{Registry, allocate, metadata};

/// How often a write without a version is tried again when others are faster.
const MAX_TRIES: usize = 100;

/// An object that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its new state.
    pub object: StoredObject,
    /// Whether it was not there before.
    pub created: bool,
}

impl Written {
    /// What came of writing an object that was not there. `None` if somebody else has created it meanwhile: it is there
    /// to be changed.
    pub(crate) fn as_new(stored: Result<StoredObject, Status>) -> Result<Option<Self>, Status> {
        match stored {
            Err(status) if status.is_already_exists() => Ok(None),
            stored => Ok(Some(Self {
                object: stored?,
                created: true,
            })),
        }
    }
}

/// What a write wants an object to become.
pub(crate) struct Proposal {
    /// The new state.
    pub(crate) object: Value,
    /// Who will manage its fields.
    pub(crate) managed: Managed,
}

/// Who manages the fields of an object after a write.
pub(crate) enum Managed {
    /// Whoever did, and the writer what it changed.
    ByChange,
    /// Whoever did: what is written is nobody's word.
    AsBefore,
    /// Those whom the write has worked out.
    By(Managers),
}

/// The new state of an object, ready to be stored.
pub(crate) struct Complete {
    pub(crate) value: Value,
    pub(crate) managers: Managers,
    /// Where it differs from what is stored; everywhere if that is not known.
    pub(crate) difference: Difference,
}

impl Registry {
    /// Replaces an object, or one part of it.
    pub async fn update(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        part: Part,
        body: Body<'_>,
        context: &WriteContext,
    ) -> Result<Written, Status> {
        let (definition, mut writing) = self.begin_write(definition).await?;
        let definition = &definition;
        let read = || -> Result<Value, Status> {
            let mut object = body.read(definition, context)?;
            metadata::match_namespace(definition, &mut object, namespace)?;
            metadata::match_name(&object, name)?;
            metadata::drop_repeated_owners(&mut object, Repeated::InRequest, &context.warnings);
            Ok(object)
        };
        let mut first = Some(read()?);
        let creates = definition.kind.creates_on_update && part == Part::Object;
        if creates && self.find(definition, namespace, name).await?.is_none() {
            let mut object = first.take().map_or_else(read, Ok)?;
            // The version of an object that is not there says nothing.
            metadata::of(&mut object).remove("resourceVersion");
            let stored = self
                .create_object(&mut writing, definition, namespace, object, context)
                .await;
            if let Some(written) = Written::as_new(stored)? {
                return Ok(written);
            }
        }
        // Few are overtaken: they read the body again, and nobody else pays for a copy.
        let propose = |live: &Live| {
            let mut object = first.take().map_or_else(read, Ok)?;
            let difference = Difference::between(live.canonical(definition), &object);
            let now = timestamp(self.clock().now());
            definition.default(&mut object, &difference, &now);
            Ok(Proposal {
                object,
                managed: Managed::ByChange,
            })
        };
        let changed = self
            .change(&mut writing, definition, namespace, name, part, context, propose)
            .await?;
        writing.end().await?;
        Ok(Written {
            object: changed,
            created: false,
        })
    }

    /// Changes an object that is there.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(crate) async fn change(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        part: Part,
        context: &WriteContext,
        mut propose: impl FnMut(&Live) -> Result<Proposal, Status>,
    ) -> Result<StoredObject, Status> {
        let resource = definition.group_resource();
        for _ in 0..MAX_TRIES {
            let stored = self.find(definition, namespace, name).await?;
            let stored = stored.ok_or_else(|| Status::not_found(&resource, name))?;
            let live = stored.to_live(definition)?;
            let proposal = propose(&live)?;
            check_identity(definition, &live.value, &proposal.object)?;
            let new = self
                .completed(writing, definition, part, &live, proposal, context)
                .await?;
            let attempt = self.store_changed(definition, &stored, &live, new, context);
            let is_unknown = |failed: &Failed| matches!(failed, Failed::For(status) if status.is_timeout());
            match allocate::store(&mut writing.allocating, attempt, is_unknown).await {
                Ok(stored) => return Ok(stored),
                // A proposal that names a version no longer fits what is there now; one made of the live object does.
                Err(Failed::Overtaken) => {}
                Err(Failed::For(status)) => return Err(status),
            }
        }
        Err(Status::modified(&resource, name))
    }

    /// The proposal as it would be stored.
    async fn completed(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        part: Part,
        live: &Live,
        proposal: Proposal,
        context: &WriteContext,
    ) -> Result<Complete, Status> {
        let now = self.clock().now();
        let (schema, root) = (&*definition.schema, definition.type_id);
        let Proposal {
            object: mut new,
            managed,
        } = proposal;
        let given = metadata::take_managed_fields(&mut new);
        let given = given.filter(|_| matches!(part, Part::Object | Part::Finalize | Part::Whole));
        let (mut managers, recorded) = match managed {
            Managed::By(managers) => (managers, true),
            Managed::AsBefore => (live.managers.clone(), true),
            Managed::ByChange => (live.managers.clone(), false),
        };
        if let (false, Some(given)) = (recorded, &given) {
            managers = managers.replaced_by(given);
        }
        let known = live.canonical(definition);
        let stored = live;
        let live = &live.value;
        // Of a resize, Kubernetes notes who wanted what, whether it can be resized or not.
        if part != Part::Resize {
            restrict(definition, part, &mut new, live);
        }
        metadata::keep(&mut new, live);
        // An object that nobody was said to manage stays so until someone applies.
        if !recorded && !managers.is_empty() {
            let writer = context.writer(definition, part.subresource(), now);
            let endpoint = Endpoint {
                versions: definition.versions(),
                ..Default::default()
            };
            let states = (live, &new, &Difference::between(live, &new));
            managers.record_update(schema, root, states, &endpoint, &writer);
        }
        if part == Part::Resize {
            restrict(definition, part, &mut new, live);
        }
        self.admit_update(definition, live, &new, context).await?;
        let may_call_webhooks = part != Part::Whole && self.may_call_webhooks(definition, context);
        if may_call_webhooks {
            // In a box, as below: no other write makes room for it.
            let mutated = self.mutate_changed(
                writing,
                definition,
                part,
                stored,
                &mut new,
                &mut managers,
                context,
            );
            if Box::pin(mutated).await? {
                restrict(definition, part, &mut new, live);
                metadata::keep(&mut new, live);
            }
        }
        metadata::drop_repeated_owners(&mut new, Repeated::AfterAdmission, &context.warnings);
        definition.prepare_for_update(part, &mut new, live, &timestamp(now));
        if definition.is(&builtin::SERVICE) && part == Part::Object {
            writing.begin_allocation(definition).await;
            self.allocate_service(definition, &mut new, Some(live)).await?;
        }
        let difference = Difference::between(known, &new);
        new = recanonicalized_changed(definition, new, &difference)?;
        if part == Part::Resize {
            self.admit_resize(definition, &new, live).await?;
        }
        if part != Part::Whole {
            count_generation(definition, &mut new, live, &difference);
        }
        let mut faults = metadata::update_faults(definition, &new, live);
        if given.is_some() {
            faults.append(metadata::manager_faults(&managers));
        }
        faults.append(definition.update_faults(part, &new, live, &context.warnings));
        faults.append(self.policy_faults(definition, &new));
        accept(definition, &new, &faults)?;
        self.admit_updated(definition, part, live, &new, context).await?;
        if may_call_webhooks {
            let asked = self.ask_about_changed(writing, definition, part, stored, (&new, &managers), context);
            if Box::pin(asked).await? && part == Part::Object {
                self.confirm_allocation(writing, definition, &new, Some(live))
                    .await?;
            }
        }
        if quota::can_grow(definition, part) {
            self.charge(definition, Some(live), &new, context).await?;
        }
        definition.warn(&new, Some(live), &context.warnings);
        Ok(Complete {
            value: new,
            managers,
            difference,
        })
    }

    /// Stores the new state, or removes the object if nothing keeps it any longer.
    pub(crate) async fn store_changed(
        &self,
        definition: &Definition,
        stored: &StoredObject,
        live: &Live,
        new: Complete,
        context: &WriteContext,
    ) -> Result<StoredObject, Failed> {
        let Complete {
            value: new,
            managers,
            difference,
        } = new;
        // The times of managed fields alone are not worth a version.
        let is_same = || is_same_but_for_version(&live.value, &new, &difference);
        if managers.is_same_but_for_times(&live.managers) && is_same() {
            return Ok(stored.clone());
        }
        let bytes = StoredObject::encode(definition, &new, &managers).map_err(Failed::For)?;
        if bytes == stored.bytes {
            return Ok(stored.clone());
        }
        let key = definition.key(metadata::text(&new, "namespace"), metadata::text(&new, "name"));
        if let Some(expected) = stored.revision
            && !context.dry_run
            && definition.is_ready_to_go(&new)
        {
            let removed = self.store().delete(&key, expected).await;
            return removed
                .map(|_| StoredObject {
                    bytes,
                    revision: Some(expected),
                })
                .map_err(Failed::from);
        }
        self.replace(definition, &key, stored, bytes, context).await
    }

    /// Stores other bytes in the place of an object's.
    pub(crate) async fn replace(
        &self,
        definition: &Definition,
        key: &str,
        stored: &StoredObject,
        bytes: Bytes,
        context: &WriteContext,
    ) -> Result<StoredObject, Failed> {
        let Some(expected) = stored.revision else {
            return Ok(stored.clone());
        };
        let mut revision = expected;
        if !context.dry_run {
            let update = self
                .store()
                .update(key, bytes.clone(), expected, definition.kind.ttl);
            revision = update.await?;
        }
        Ok(StoredObject {
            bytes,
            revision: Some(revision),
        })
    }
}

/// Why a new state was not stored.
pub(crate) enum Failed {
    /// Someone else wrote first.
    Overtaken,
    For(Status),
}

impl From<WriteError> for Failed {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Conflict { .. } => Self::Overtaken,
            error => Self::For(not_stored(error)),
        }
    }
}

/// Refuses a proposal that means another object or another version.
fn check_identity(definition: &Definition, live: &Value, new: &Value) -> Result<(), Status> {
    let resource = definition.group_resource();
    let name = metadata::text(live, "name");
    let (stated_uid, uid) = (metadata::text(new, "uid"), metadata::text(live, "uid"));
    if !stated_uid.is_empty() && stated_uid != uid {
        let key = definition.key(metadata::text(live, "namespace"), name);
        return Err(Status::conflict(
            &resource,
            name,
            format_args!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {stated_uid}, UID in object meta: {uid}"
            ),
        ));
    }
    let version = metadata::text(new, "resourceVersion");
    let number = if version.is_empty() {
        0
    } else {
        parse_number(version).map_err(Status::unclassified)?
    };
    if number == 0 {
        if definition.kind.updates_unconditionally {
            return Ok(());
        }
        // Kubernetes names the resource where other refusals name the kind.
        let group = definition.resource.group.clone();
        let kind = GroupKind {
            group,
            kind: definition.resource.plural.clone(),
        };
        let path = FieldPath::new("metadata").child("resourceVersion");
        let fault = FieldError::invalid(&path, json!(0), "must be specified for an update");
        return Err(Status::invalid(&kind, name, &fault.into()));
    }
    if version != metadata::text(live, "resourceVersion") {
        return Err(Status::modified(&resource, name));
    }
    Ok(())
}

/// Leaves everything that is not the written part as it is.
fn restrict(definition: &Definition, part: Part, new: &mut Value, live: &Value) {
    let only = |new: &mut Value, parent: &str, name: &str| {
        let taken = new[parent].get(name).cloned();
        *new = live.clone();
        match (taken, &mut new[parent]) {
            (Some(taken), fields) => fields[name] = taken,
            (None, Value::Object(fields)) => drop(fields.remove(name)),
            (None, _) => {}
        }
    };
    match part {
        Part::Scale => match with_replicas_of(definition, live, new) {
            Some(scaled) => return *new = scaled,
            None => return only(new, "spec", "replicas"),
        },
        Part::EphemeralContainers => return only(new, "spec", "ephemeralContainers"),
        Part::Approval => return only(new, "status", "conditions"),
        Part::Resize => return take_resources(new, live),
        Part::Object | Part::Status | Part::Finalize | Part::Whole => {}
    }
    if let Some(conversion) = definition.conversion {
        conversion.keep(part, new, live);
    }
    // A custom object's status is all that is written there, its labels are not.
    if part == Part::Status && definition.is_custom() {
        let status = new.get("status").cloned();
        *new = live.clone();
        return match (status, new.as_object_mut()) {
            (Some(status), _) => new["status"] = status,
            (None, Some(fields)) => drop(fields.remove("status")),
            (None, None) => {}
        };
    }
    let Some(fields) = new.as_object_mut() else { return };
    let mut keep = |name: &str| match live.get(name) {
        Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
        None => drop(fields.remove(name)),
    };
    match part {
        Part::Object if definition.has_status() => keep("status"),
        Part::Finalize => keep("status"),
        Part::Status => {
            let names: Vec<String> = live
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect();
            let is_kept = |name: &&String| match name.as_str() {
                "status" => false,
                "metadata" => definition.kind.status_keeps_metadata,
                _ => true,
            };
            for name in names.iter().filter(is_kept) {
                keep(name);
            }
        }
        _ => {}
    }
}

/// Leaves of a pod's change what its containers may use.
fn take_resources(new: &mut Value, live: &Value) {
    let wanted = std::mem::replace(new, live.clone());
    for list in ["containers", "initContainers"] {
        let Some(containers) = new["spec"].get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers {
            let mut named = wanted["spec"][list].as_array().into_iter().flatten();
            if let Some(same) = named.find(|same| same["name"] == container["name"]) {
                container["resources"] = same["resources"].clone();
            }
        }
    }
}

/// One more if anything but metadata and status changed, or a label that means as much.
fn count_generation(definition: &Definition, new: &mut Value, live: &Value, difference: &Difference) {
    if definition.kind.generation == Generation::None {
        return;
    }
    // A custom kind without a status of its own may have a field of that name.
    let has_status = !definition.is_custom() || definition.has_status();
    let is_spec = |name: &str| name != "metadata" && !(name == "status" && has_status);
    let counts_labels = definition.kind.generation == Generation::SpecAndLabels;
    let is_relabeled = || live["metadata"].get("labels") != new["metadata"].get("labels");
    if !is_same_but_for(difference, live, new, is_spec) || (counts_labels && is_relabeled()) {
        let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
        metadata::of(new).insert("generation".to_owned(), json!(generation + 1));
    }
}

/// Whether two states are the same, whatever version they have.
fn is_same_but_for_version(live: &Value, new: &Value, difference: &Difference) -> bool {
    is_same_but_for(difference, live, new, |name| name != "metadata")
        && is_same(&live["metadata"], &new["metadata"], |name| {
            name != "resourceVersion"
        })
}

/// Whether the members of two objects that count are the same, given where the objects differed.
fn is_same_but_for(
    difference: &Difference,
    live: &Value,
    new: &Value,
    counts: impl Fn(&str) -> bool,
) -> bool {
    match difference {
        Difference::Members { changed, gone: false } => {
            let mut changed = changed.iter().filter(|(name, _)| counts(name));
            !changed.any(|(name, below)| below.persists(live.get(name), new.get(name)))
        }
        _ => is_same(live, new, counts),
    }
}

/// Whether the members of two objects that count are the same.
fn is_same(one: &Value, other: &Value, counts: impl Fn(&str) -> bool) -> bool {
    let (Some(members), Some(others)) = (one.as_object(), other.as_object()) else {
        return one == other;
    };
    let counted = |(name, _): &(&String, &Value)| counts(name);
    members.iter().filter(counted).eq(others.iter().filter(counted))
}
