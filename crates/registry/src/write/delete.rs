//! Delete: removes an object, or marks it for deletion.
//!
//! An object without finalizers, grace period or namespace content is removed at once. Otherwise the delete sets
//! `deletionTimestamp`, and the write that removes the last of these removes the object.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use watchkeeper_kinds::Part;
use watchkeeper_meta::{DeleteOptions, ListOptions, PropagationPolicy, Status, Time};
use watchkeeper_storage::{Revision, WriteError};

use super::{Target, Write};
use crate::admission::request::{Action, AdmissionRequest};
use crate::context::{WriteContext, not_stored, timestamp};
use crate::definition::Definition;
use crate::list::List;
use crate::metrics::{Stage, Step};
use crate::object::{Live, StoredObject};
use crate::{Registry, metadata};

/// The number of retries on conflict.
const MAX_TRIES: usize = 100;

/// The result of a delete.
#[derive(Clone, Debug)]
pub enum Deletion {
    /// Removed; this was the last state.
    Gone(StoredObject),
    /// Marked for deletion.
    Marked(StoredObject),
}

impl Deletion {
    /// The object, removed or marked.
    pub fn object(&self) -> &StoredObject {
        match self {
            Self::Gone(object) | Self::Marked(object) => object,
        }
    }
}

impl Registry {
    /// Deletes one object.
    pub fn delete<'a>(
        &'a self,
        definition: &'a Arc<Definition>,
        namespace: &'a str,
        name: &'a str,
        options: &'a DeleteOptions,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<Deletion, Status>> {
        Box::pin(async move {
            let target = Target::new(definition, namespace, name, Part::Object);
            let mut write = Write::begin(self, target, context).await?;
            let deleted = write.delete(options, DeleteAdmission::Check).await?;
            write.end().await?;
            Ok(deleted)
        })
    }

    /// Deletes all selected objects. The returned list is not a snapshot of one revision.
    pub fn delete_collection<'a>(
        &'a self,
        definition: &'a Arc<Definition>,
        namespace: &'a str,
        selection: &'a ListOptions,
        options: &'a DeleteOptions,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<List, Status>> {
        Box::pin(async move {
            warn_of_orphans(definition, options, context);
            let list = self.list(definition, namespace, selection).await?;
            for item in list.objects() {
                let header = item.header(definition)?;
                let (namespace, name) = (header.namespace.to_string(), header.name.to_string());
                match self.delete(definition, &namespace, &name, options, context).await {
                    Ok(_) => {}
                    // Deleted by another request.
                    Err(status) if status.is_not_found() => {}
                    Err(status) => return Err(status),
                }
            }
            Ok(list)
        })
    }
}

/// Controls admission of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteAdmission {
    /// Policies and webhooks review the exact state that is deleted, again if it changes.
    Check,
    /// They already admitted the request that causes this deletion, or the server deletes on its own behalf.
    Skip,
}

const DELETION: Stage = Stage {
    step: Step::Validate,
    operation: "DELETE",
};

impl Write<'_> {
    /// Deletes the object. Its dependents are left to the garbage collector.
    pub(crate) fn delete<'a>(
        &'a mut self,
        options: &'a DeleteOptions,
        admission: DeleteAdmission,
    ) -> BoxFuture<'a, Result<Deletion, Status>> {
        Box::pin(async move {
            warn_of_orphans(&self.definition, options, self.context);
            self.registry.admit_delete(&self.definition, self.name)?;
            for _ in 0..MAX_TRIES {
                let stored = self.stored().await?;
                let live = self.served(&stored).await?.to_live(&self.definition)?;
                check_preconditions(&self.definition, &live.value, options)?;
                if admission == DeleteAdmission::Check {
                    let began = Instant::now();
                    let admitted = self.admit_deletion(&live, options).await;
                    self.registry.durations().stage(DELETION, began, &admitted);
                    admitted?;
                }
                let marked = self.marked(&live.value, options)?;
                let encoded = match is_stored_again(&self.definition, &live.value, &marked) {
                    true => self.encoded(&marked, &live.managers).await?,
                    false => stored.bytes.clone(),
                };
                match self.store_deletion(&stored, &live, marked, encoded).await {
                    Ok(Deletion::Gone(gone)) => {
                        self.follow(Some(&live.value), None).await;
                        return self.served(&gone).await.map(Deletion::Gone);
                    }
                    Ok(Deletion::Marked(marked)) => return self.served(&marked).await.map(Deletion::Marked),
                    Err(WriteError::Conflict { .. }) => {}
                    Err(error) => return Err(not_stored(error)),
                }
            }
            Err(Status::modified(&self.definition.group_resource(), self.name))
        })
    }

    /// Rejects a deletion that a policy or a webhook denies.
    async fn admit_deletion(&mut self, live: &Live, options: &DeleteOptions) -> Result<(), Status> {
        self.registry
            .check_policies(AdmissionRequest {
                action: Action::delete(&self.definition),
                object: None,
                old: Some(&live.value),
                context: self.context,
            })
            .await?;
        match self.registry.may_call_webhooks(&self.definition, self.context) {
            // Boxed: few deletes need it.
            true => self.call_webhooks_of_deletion(live, options).await,
            false => Ok(()),
        }
    }

    /// The object with its deletion mark.
    fn marked(&self, live: &Value, options: &DeleteOptions) -> Result<Value, Status> {
        let (definition, now) = (&*self.definition, self.registry.clock().now());
        if let Some(mark) = definition.kind.deletion_mark {
            return definition.recanonicalized(mark(live, &timestamp(now)));
        }
        if let Some(pending) = Pending::of(live) {
            return pending.shortened(definition, live, options);
        }
        let mut new = live.clone();
        set_propagation(definition, &mut new, options);
        let fields = metadata::of(&mut new);
        if live["metadata"]["deletionTimestamp"].is_null() {
            set_end(fields, now, grace_seconds(definition, live, options));
            if let Some(generation) = fields.get("generation").and_then(Value::as_i64) {
                fields.insert("generation".to_owned(), json!(generation + 1));
            }
        }
        definition.on_deletion(&mut new);
        definition.recanonicalized(new)
    }

    /// Removes the object if nothing holds it, else stores the mark.
    async fn store_deletion(
        &self,
        stored: &StoredObject,
        live: &Live,
        marked: Value,
        encoded: Bytes,
    ) -> Result<Deletion, WriteError> {
        let (definition, store) = (&*self.definition, self.registry.store());
        let key = definition.key(self.namespace, self.name);
        let Some(expected) = stored.revision else {
            return Ok(Deletion::Gone(stored.clone()));
        };
        let object = |bytes, revision| StoredObject {
            bytes,
            revision: Some(revision),
        };
        let live = &live.value;
        if definition.is_ready_to_go(&marked) {
            // The last event of a pod shows its marked state, of other kinds the live one.
            let bytes = encoded;
            if self.context.dry_run {
                return Ok(Deletion::Gone(object(bytes, expected)));
            }
            // A pod gets a MODIFIED event with its mark before DELETED, even if it is not scheduled.
            let is_marked_first = definition.kind.graceful && marked != *live;
            let expected = match is_marked_first {
                true => self.update_mark(&key, &bytes, expected).await?,
                false => expected,
            };
            let delete = store.delete(&key, expected);
            let durations = self.registry.durations();
            let revision = durations.store("delete", definition, delete).await?;
            return Ok(Deletion::Gone(object(bytes, revision)));
        }
        if marked == *live {
            return Ok(Deletion::Marked(stored.clone()));
        }
        let bytes = encoded;
        let revision = match self.context.dry_run {
            true => expected,
            false => self.update_mark(&key, &bytes, expected).await?,
        };
        Ok(Deletion::Marked(object(bytes, revision)))
    }

    /// Stores the marked state.
    async fn update_mark(
        &self,
        key: &str,
        bytes: &Bytes,
        expected: Revision,
    ) -> Result<Revision, WriteError> {
        let (definition, registry) = (&*self.definition, self.registry);
        let update = registry
            .store()
            .update(key, bytes.clone(), expected, definition.kind.ttl);
        registry.durations().store("update", definition, update).await
    }
}

/// True if the delete stores another state of the object, even briefly.
fn is_stored_again(definition: &Definition, live: &Value, marked: &Value) -> bool {
    match definition.is_ready_to_go(marked) {
        true => definition.kind.graceful,
        false => marked != live,
    }
}

/// A pod marked for deletion, within its grace period.
struct Pending {
    /// The end of the grace period.
    end: Time,
    grace: i64,
}

impl Pending {
    fn of(live: &Value) -> Option<Self> {
        let end = metadata::text(live, "deletionTimestamp").parse().ok()?;
        let grace = live["metadata"]["deletionGracePeriodSeconds"].as_i64()?;
        (grace > 0).then_some(Self { end, grace })
    }

    /// The pod after another delete, which can only shorten the grace period, counted from the first.
    fn shortened(
        &self,
        definition: &Definition,
        live: &Value,
        options: &DeleteOptions,
    ) -> Result<Value, Status> {
        let asked = options.grace_period_seconds.map(at_least_a_second);
        let Some(grace) = asked.filter(|grace| *grace < self.grace) else {
            return Ok(live.clone());
        };
        let mut new = live.clone();
        let start = Time {
            seconds: self.end.seconds.saturating_sub(self.grace),
            nanos: self.end.nanos,
        };
        set_end(metadata::of(&mut new), start, grace);
        definition.recanonicalized(new)
    }
}

/// Sets the end of the grace period, counted from `start`.
fn set_end(fields: &mut Map<String, Value>, start: Time, grace: i64) {
    let end = Time {
        seconds: start.seconds.saturating_add(grace),
        nanos: start.nanos,
    };
    fields.insert("deletionTimestamp".to_owned(), json!(timestamp(end)));
    fields.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
}

pub(crate) fn check_preconditions(
    definition: &Definition,
    live: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let name = metadata::text(live, "name");
    let own_text = definition.kind.uid_precondition;
    let check = |wanted: &Option<String>, field: &str, label: &str, might: &str| {
        let found = metadata::text(live, field);
        match wanted {
            Some(wanted)
                if wanted != found
                    && field == "uid"
                    && let Some(start) = own_text =>
            {
                let why = format!("{start}: UID in precondition: {wanted}, UID in object meta: {found}");
                Err(Status::conflict(&definition.group_resource(), name, why))
            }
            Some(wanted) if wanted != found => Err(Status::conflict(
                &definition_as_kind(definition),
                name,
                format_args!(
                    "the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). \
                     The object might have been {might}"
                ),
            )),
            _ => Ok(()),
        }
    };
    check(
        &options.preconditions.uid,
        "uid",
        "UID",
        "deleted and then recreated",
    )?;
    check(
        &options.preconditions.resource_version,
        "resourceVersion",
        "ResourceVersion",
        "modified",
    )
}

/// In this conflict Kubernetes names the kind instead of the resource.
fn definition_as_kind(definition: &Definition) -> watchkeeper_meta::GroupResource {
    let kind = definition.group_kind();
    watchkeeper_meta::GroupResource {
        group: kind.group,
        resource: kind.kind,
    }
}

/// Warns of the kind's default treatment of dependents, if the options do not choose one.
fn warn_of_orphans(definition: &Definition, options: &DeleteOptions, context: &WriteContext) {
    let says_nothing = options.propagation_policy.is_none() && options.orphan_dependents.is_none();
    if let Some(warning) = definition.kind.orphan_warning.filter(|_| says_nothing) {
        context.warnings.add(warning);
    }
}

/// Sets the finalizer of a propagation policy.
fn set_propagation(definition: &Definition, object: &mut Value, options: &DeleteOptions) {
    if !definition.kind.garbage_collected {
        return;
    }
    let policy = match (options.propagation_policy, options.orphan_dependents) {
        (Some(policy), _) => Some(policy),
        (None, Some(true)) => Some(PropagationPolicy::Orphan),
        (None, Some(false)) => Some(PropagationPolicy::Background),
        (None, None) if definition.kind.orphans_by_default => Some(PropagationPolicy::Orphan),
        (None, None) => None,
    };
    let Some(policy) = policy else { return };
    let fields = metadata::of(object);
    let mut finalizers: Vec<Value> = fields
        .get("finalizers")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    finalizers.retain(|name| name != "orphan" && name != "foregroundDeletion");
    match policy {
        PropagationPolicy::Orphan => finalizers.push(json!("orphan")),
        PropagationPolicy::Foreground => finalizers.push(json!("foregroundDeletion")),
        PropagationPolicy::Background => {}
    }
    fields.insert("finalizers".to_owned(), Value::Array(finalizers));
}

/// The grace period. Only a pod that runs on a node has one.
fn grace_seconds(definition: &Definition, live: &Value, options: &DeleteOptions) -> i64 {
    if !definition.kind.graceful {
        return 0;
    }
    if !runs_somewhere(live) {
        return 0;
    }
    let asked = options.grace_period_seconds;
    let seconds = asked
        .or(live["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or_default();
    at_least_a_second(seconds)
}

/// Kubernetes treats a negative grace period as one second, not as forced deletion.
fn at_least_a_second(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// True if a pod is on a node and has not terminated.
fn runs_somewhere(pod: &Value) -> bool {
    let is_bound = !pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    is_bound && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchkeeper_meta::GroupVersionResource;

    /// The pod after another delete; the first one, at noon, had a grace period of 30 s.
    fn check(grace_period_seconds: Option<i64>, expected: &str) {
        let definitions = Definition::builtin();
        let pods = GroupVersionResource::new("", "v1", "pods");
        let mut definitions = definitions.iter();
        let pods = definitions.find(|it| it.resource.group_version_resource() == pods);
        let live = json!({"metadata": {
            "name": "p", "deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30,
        }});
        let options = DeleteOptions {
            grace_period_seconds,
            ..Default::default()
        };
        let pending = Pending::of(&live).unwrap();
        let after = pending.shortened(pods.unwrap(), &live, &options).unwrap();
        let end = metadata::text(&after, "deletionTimestamp");
        let grace = &after["metadata"]["deletionGracePeriodSeconds"];
        assert_eq!(format!("{end} {grace}"), expected, "{grace_period_seconds:?}");
    }

    #[test]
    fn another_delete_can_only_shorten_the_grace_period() {
        check(None, "2026-01-01T12:00:30Z 30");
        check(Some(60), "2026-01-01T12:00:30Z 30");
        check(Some(10), "2026-01-01T12:00:10Z 10");
        check(Some(0), "2026-01-01T12:00:00Z 0");
        check(Some(-1), "2026-01-01T12:00:01Z 1");
    }
}
