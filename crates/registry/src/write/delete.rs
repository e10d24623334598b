//! Deleting: at once, later, or not until others let go.
//!
//! An object goes at once if nothing keeps it. Finalizers keep it, and so do a pod's grace period and a
//! namespace's content; then the delete only marks it, and the write that removes the last thing that keeps it
//! removes the object.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{DeleteOptions, ListOptions, PropagationPolicy, Status, Time};
use watchkeeper_storage::WriteError;

use super::{Target, Write};
use crate::admission::request::{Action, AdmissionRequest};
use crate::context::{WriteContext, not_stored, timestamp};
use crate::custom::{FINALIZER, with_condition};
use crate::definition::Definition;
use crate::list::List;
use crate::object::{Live, StoredObject};
use crate::{Registry, metadata};

/// How often a delete is tried again when others change the object.
const MAX_TRIES: usize = 100;

/// What became of an object that was to be deleted.
#[derive(Clone, Debug)]
pub enum Deletion {
    /// It is gone; this was its last state.
    Gone(StoredObject),
    /// It is marked, and goes when nothing keeps it any longer.
    Marked(StoredObject),
}

impl Deletion {
    /// The object, gone or marked.
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

    /// Deletes every object of a selection. The answer lists what was deleted; it is not one moment's state.
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
            let mut list = self.list(definition, namespace, selection).await?;
            for item in &mut list.items {
                let header = item.header(definition)?;
                let (namespace, name) = (header.namespace.to_string(), header.name.to_string());
                match self.delete(definition, &namespace, &name, options, context).await {
                    Ok(_) => {}
                    // Someone else was faster.
                    Err(status) if status.is_not_found() => {}
                    Err(status) => return Err(status),
                }
            }
            Ok(list)
        })
    }
}

/// Whether policies and webhooks admit a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteAdmission {
    /// They are asked about the exact state that is deleted, again if it changes meanwhile.
    Check,
    /// They admitted the request this deletion belongs to, or the server deletes on its own behalf.
    Skip,
}

impl Write<'_> {
    /// Deletes the object, whatever depends on it.
    pub(crate) async fn delete(
        &mut self,
        options: &DeleteOptions,
        admission: DeleteAdmission,
    ) -> Result<Deletion, Status> {
        warn_of_orphans(&self.definition, options, self.context);
        self.registry.admit_delete(&self.definition, self.name)?;
        for _ in 0..MAX_TRIES {
            let stored = self.stored().await?;
            let live = self.served(&stored).await?.to_live(&self.definition)?;
            check_preconditions(&self.definition, &live.value, options)?;
            if admission == DeleteAdmission::Check {
                self.admit_deletion(&live, options).await?;
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
    }

    /// Refuses a deletion that a policy or a webhook does not allow.
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
            // In a box: every delete would keep room for it.
            true => Box::pin(self.call_webhooks_of_deletion(live, options)).await,
            false => Ok(()),
        }
    }

    /// The object as the delete leaves it, if something keeps it.
    fn marked(&self, live: &Value, options: &DeleteOptions) -> Result<Value, Status> {
        let (definition, now) = (&*self.definition, self.registry.clock().now());
        if definition.is(&builtin::CUSTOM_RESOURCE_DEFINITION) {
            return definition.recanonicalized(terminating(live, &timestamp(now)));
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
        if definition.is(&builtin::NAMESPACE) {
            // It ends when it is empty, however long that takes.
            fields.remove("deletionGracePeriodSeconds");
            new["status"]["phase"] = json!("Terminating");
        }
        definition.recanonicalized(new)
    }

    /// Removes the object if nothing keeps it, and stores the mark otherwise.
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
            // Pods are shown as they end, all others as they were.
            let bytes = encoded;
            if self.context.dry_run {
                return Ok(Deletion::Gone(object(bytes, expected)));
            }
            // A pod is told to end before it is gone, even if it runs nowhere.
            let is_told = definition.kind.graceful && marked != *live;
            let expected = match is_told {
                true => {
                    store
                        .update(&key, bytes.clone(), expected, definition.kind.ttl)
                        .await?
                }
                false => expected,
            };
            let revision = store.delete(&key, expected).await?;
            return Ok(Deletion::Gone(object(bytes, revision)));
        }
        if marked == *live {
            return Ok(Deletion::Marked(stored.clone()));
        }
        let bytes = encoded;
        let revision = match self.context.dry_run {
            true => expected,
            false => {
                store
                    .update(&key, bytes.clone(), expected, definition.kind.ttl)
                    .await?
            }
        };
        Ok(Deletion::Marked(object(bytes, revision)))
    }
}

/// Whether a delete stores another state of the object, be it for a moment.
fn is_stored_again(definition: &Definition, live: &Value, marked: &Value) -> bool {
    match definition.is_ready_to_go(marked) {
        true => definition.kind.graceful,
        false => marked != live,
    }
}

/// The definition of a kind that is to go: its objects go first.
fn terminating(live: &Value, now: &str) -> Value {
    let mut new = live.clone();
    let fields = metadata::of(&mut new);
    let finalizers = fields.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|name| name == FINALIZER)
        && live["metadata"]["deletionTimestamp"].is_null()
    {
        finalizers.push(json!(FINALIZER));
    }
    if fields.get("deletionTimestamp").is_none_or(Value::is_null) {
        fields.insert("deletionTimestamp".to_owned(), json!(now));
        new["status"] = with_condition(
            &new["status"],
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            now,
        );
    }
    new
}

/// A pod that has been told to end, and has some time left.
struct Pending {
    /// When it must have ended.
    end: Time,
    grace: i64,
}

impl Pending {
    fn of(live: &Value) -> Option<Self> {
        let end = metadata::text(live, "deletionTimestamp").parse().ok()?;
        let grace = live["metadata"]["deletionGracePeriodSeconds"].as_i64()?;
        (grace > 0).then_some(Self { end, grace })
    }

    /// The pod after another delete, which may only shorten the time it has, counted from the first.
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
        let told = Time {
            seconds: self.end.seconds.saturating_sub(self.grace),
            nanos: self.end.nanos,
        };
        set_end(metadata::of(&mut new), told, grace);
        definition.recanonicalized(new)
    }
}

/// Notes when an object must have ended that was told so at a time.
fn set_end(fields: &mut Map<String, Value>, told: Time, grace: i64) {
    let end = Time {
        seconds: told.seconds.saturating_add(grace),
        nanos: told.nanos,
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
    let check = |wanted: &Option<String>, field: &str, label: &str, might: &str| {
        let found = metadata::text(live, field);
        match wanted {
            // Namespaces have a store of their own in Kubernetes, and words of their own.
            Some(wanted) if wanted != found && field == "uid" && definition.is(&builtin::NAMESPACE) => {
                let why = format!(
                    "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
                );
                Err(Status::conflict(&definition.group_resource(), name, why))
            }
            Some(wanted)
                if wanted != found
                    && field == "uid"
                    && definition.is(&builtin::CUSTOM_RESOURCE_DEFINITION) =>
            {
                let why = format!(
                    "precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
                );
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

/// Kubernetes names the kind where other conflicts name the resource.
fn definition_as_kind(definition: &Definition) -> watchkeeper_meta::GroupResource {
    let kind = definition.group_kind();
    watchkeeper_meta::GroupResource {
        group: kind.group,
        resource: kind.kind,
    }
}

/// Whoever deletes an object without a word about its dependents may not expect them to stay.
fn warn_of_orphans(definition: &Definition, options: &DeleteOptions, context: &WriteContext) {
    let says_nothing = options.propagation_policy.is_none() && options.orphan_dependents.is_none();
    if let Some(warning) = definition.kind.orphan_warning.filter(|_| says_nothing) {
        context.warnings.add(warning);
    }
}

/// Turns a propagation policy into the finalizer that carries it out.
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

/// How long the object may take to end. Only a pod that runs somewhere takes any time.
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

/// Kubernetes takes "less than nothing" for "as soon as can be", which is not the same as by force.
fn at_least_a_second(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// Whether a pod is on a node and has not ended.
fn runs_somewhere(pod: &Value) -> bool {
    let is_bound = !pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    is_bound && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchkeeper_meta::GroupVersionResource;

    /// What another delete makes of a pod that was told at noon to end within 30 s.
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
    fn another_delete_can_only_shorten_what_is_left() {
        check(None, "2026-01-01T12:00:30Z 30");
        check(Some(60), "2026-01-01T12:00:30Z 30");
        check(Some(10), "2026-01-01T12:00:10Z 10");
        check(Some(0), "2026-01-01T12:00:00Z 0");
        check(Some(-1), "2026-01-01T12:00:01Z 1");
    }
}
