//! Update: read, change, validate, compare-and-swap, and repeat on conflict.
//!
//! PUT and all kinds of PATCH share this loop. They differ in how they make the [`Proposal`], and in the treatment of
//! conflicts: a request with a version fails with 409, one without is retried.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_kinds::Part;
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, Status};
use watchkeeper_storage::WriteError;
use watchkeeper_wire::difference::Difference;

use super::draft::{Draft, Managed, Proposal};
use super::parts::is_same_but_for_version;
use super::phases::MAX_ROUNDS;
use super::{Target, Write};
use crate::body::Body;
use crate::context::{WriteContext, not_stored, timestamp};
use crate::definition::Definition;
use crate::metadata::Repeated;
use crate::object::{Live, StoredObject};
use crate::read_version::parse_number;
use crate::{Registry, allocate, metadata};

/// The prefix of all keys.
const REGISTRY: &str = "/registry/";

/// The number of retries of a write without a version.
const MAX_TRIES: usize = 100;

/// A written object.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its new state.
    pub object: StoredObject,
    /// True if it was created.
    pub created: bool,
}

impl Written {
    /// The result of a create. `None` if another request created the object meanwhile: then it is updated.
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

impl Registry {
    /// Replaces an object, or one part of it.
    pub fn update<'a>(
        &'a self,
        definition: &'a Arc<Definition>,
        namespace: &'a str,
        name: &'a str,
        part: Part,
        body: Body<'a>,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<Written, Status>> {
        Box::pin(async move {
            let target = Target::new(definition, namespace, name, part);
            let mut write = Write::begin(self, target, context).await?;
            let written = write.replace_with(body).await?;
            write.end().await?;
            Ok(written)
        })
    }
}

impl Write<'_> {
    /// Replaces the object with a body.
    async fn replace_with(&mut self, body: Body<'_>) -> Result<Written, Status> {
        let definition = self.definition.clone();
        let (registry, context) = (self.registry, self.context);
        let (namespace, name) = (self.namespace, self.name);
        let read = || -> Result<Value, Status> {
            let mut object = body.read(&definition, context)?;
            metadata::match_namespace(&definition, &mut object, namespace)?;
            metadata::match_name(&object, name)?;
            metadata::drop_repeated_owners(&mut object, Repeated::InRequest, &context.warnings);
            Ok(object)
        };
        let mut first = Some(read()?);
        let creates = definition.kind.creates_on_update && self.part == Part::Object;
        if creates && !self.is_there().await? {
            let mut object = first.take().map_or_else(read, Ok)?;
            // The version of a nonexistent object is ignored.
            metadata::of(&mut object).remove("resourceVersion");
            if let Some(written) = Written::as_new(self.create(object).await)? {
                return Ok(written);
            }
        }
        // A conflict is rare: then the body is decoded again, instead of copying it for every request.
        let propose = |live: &Live| {
            let mut object = first.take().map_or_else(read, Ok)?;
            let difference = Difference::between(live.canonical(&definition), &object);
            let now = timestamp(registry.clock().now());
            definition
                .default(&mut object, &difference, &now)
                .map_err(Status::request_entity_too_large)?;
            Ok(Proposal {
                object,
                managed: Managed::ByChange,
            })
        };
        Ok(Written {
            object: self.change(propose).await?,
            created: false,
        })
    }

    /// Changes an existing object. The proposal is made from the live object, again after a conflict.
    pub(crate) async fn change(
        &mut self,
        mut propose: impl FnMut(&Live) -> Result<Proposal, Status>,
    ) -> Result<StoredObject, Status> {
        for _ in 0..MAX_TRIES {
            let stored = self.stored().await?;
            let live = self.served(&stored).await?.to_live(&self.definition)?;
            let proposal = self.proposed(&live, &mut propose).await?;
            check_identity(&self.definition, &live.value, &proposal.object)?;
            let draft = self.complete(Some(&live), proposal).await?;
            match self.store_changed(&stored, &live, draft).await {
                Ok(stored) => return self.served(&stored).await,
                // A proposal with a version no longer applies; one made from the live object does.
                Err(Failed::Overtaken) => {}
                Err(Failed::For(status)) => return Err(status),
            }
        }
        Err(Status::modified(&self.definition.group_resource(), self.name))
    }

    /// Makes a proposal, repeated while webhook conversions are missing.
    async fn proposed(
        &mut self,
        live: &Live,
        propose: &mut impl FnMut(&Live) -> Result<Proposal, Status>,
    ) -> Result<Proposal, Status> {
        let mut proposal = propose(live);
        for _ in 0..MAX_ROUNDS {
            if !self.complete_ledger().await? {
                break;
            }
            proposal = propose(live);
        }
        proposal
    }

    /// True if the object is encrypted with an old key, or should be encrypted and is not. Then even a no-op write is
    /// stored: this is how keys are rotated.
    pub(super) fn is_stale(&self, stored: &StoredObject) -> bool {
        let key = || self.definition.key(self.namespace, self.name);
        let store = self.registry.store();
        store.has_stale()
            && stored
                .revision
                .is_some_and(|revision| store.is_stale(&key(), revision))
    }

    /// Stores the new state, or removes the object if it is marked and nothing holds it any longer.
    fn store_changed<'a>(
        &'a mut self,
        stored: &'a StoredObject,
        live: &'a Live,
        draft: Draft<'a>,
    ) -> BoxFuture<'a, Result<StoredObject, Failed>> {
        Box::pin(async move {
            // Changed times in managed fields alone do not make a new version.
            let is_same = || is_same_but_for_version(&live.value, &draft.object, &draft.difference);
            if draft.managers.is_same_but_for_times(&live.managers)
                && is_same()
                && stored.is_in_stored_version(&self.definition)
                && !self.is_stale(stored)
            {
                return Ok(stored.clone());
            }
            let encoded = self.encoded(&draft.object, &draft.managers).await;
            let bytes = encoded.map_err(Failed::For)?;
            let (definition, new) = (&self.definition, &draft.object);
            if bytes == stored.bytes && !self.is_stale(stored) {
                return Ok(stored.clone());
            }
            let (registry, context) = (self.registry, self.context);
            let key = definition.key(metadata::text(new, "namespace"), metadata::text(new, "name"));
            let attempt = async {
                if let Some(expected) = stored.revision
                    && !context.dry_run
                    && definition.is_ready_to_go(new)
                {
                    let delete = registry.store().delete(&key, expected);
                    registry.durations().store("delete", definition, delete).await?;
                    let revision = Some(expected);
                    return Ok((StoredObject { bytes, revision }, false));
                }
                let replaced = registry.replace(definition, &key, stored, bytes, context).await;
                replaced.map(|stored| (stored, true))
            };
            let is_unknown = |failed: &Failed| matches!(failed, Failed::For(status) if status.is_timeout());
            let (stored, is_there) = allocate::store(&mut self.guard.allocating, attempt, is_unknown).await?;
            self.follow(Some(&live.value), Some(&draft.object).filter(|_| is_there))
                .await;
            Ok(stored)
        })
    }
}

impl Registry {
    /// Replaces the stored bytes of an object.
    pub(super) async fn replace(
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
            revision = self.durations().store("update", definition, update).await?;
        }
        Ok(StoredObject {
            bytes,
            revision: Some(revision),
        })
    }
}

/// The reason a new state was not stored.
pub(crate) enum Failed {
    /// Another write came first.
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

/// The etcd key of an object in Kubernetes. Custom and aggregated kinds have a directory for their group.
fn shown_key(definition: &Definition, namespace: &str, name: &str) -> String {
    let key = definition.key(namespace, name);
    match key
        .strip_prefix(REGISTRY)
        .filter(|_| definition.kind.key_has_group)
    {
        Some(rest) => format!("{REGISTRY}{}/{rest}", definition.resource.group),
        None => key,
    }
}

/// Rejects a request about an object with another uid or version, as Kubernetes' storage does.
pub(crate) fn check_stored_identity(
    definition: &Definition,
    live: &Value,
    asked: &Value,
) -> Result<(), Status> {
    check_stored(definition, live, asked, ("uid", "UID"))?;
    check_stored(definition, live, asked, ("resourceVersion", "ResourceVersion"))
}

fn check_stored(
    definition: &Definition,
    live: &Value,
    asked: &Value,
    (field, shown): (&str, &str),
) -> Result<(), Status> {
    let (stated, found) = (metadata::text(asked, field), metadata::text(live, field));
    if stated.is_empty() || stated == found {
        return Ok(());
    }
    let name = metadata::text(live, "name");
    let key = shown_key(definition, metadata::text(live, "namespace"), name);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: {shown} in precondition: {stated}, {shown} in object meta: {found}"
    );
    Err(Status::conflict(&definition.group_resource(), name, why))
}

/// Rejects a proposal with another uid or version.
fn check_identity(definition: &Definition, live: &Value, new: &Value) -> Result<(), Status> {
    let resource = definition.group_resource();
    let name = metadata::text(live, "name");
    check_stored(definition, live, new, ("uid", "UID"))?;
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
        // Here Kubernetes names the resource, where other errors name the kind.
        let group = definition.resource.group.clone();
        let kind = GroupKind {
            group,
            kind: definition.resource.plural.clone(),
        };
        let path = FieldPath::new("metadata").child("resourceVersion");
        let error = FieldError::invalid(&path, json!(0), "must be specified for an update");
        return Err(Status::invalid(&kind, name, &error.into()));
    }
    if version != metadata::text(live, "resourceVersion") {
        return Err(Status::modified(&resource, name));
    }
    Ok(())
}
