//! Deleting: at once, later, or not until others let go.
//!
//! An object goes at once if nothing keeps it. Finalizers keep it, and so do a pod's grace period and a
//! namespace's content; then the delete only marks it, and the write that removes the last thing that keeps it
//! removes the object.

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_meta::{DeleteOptions, ListOptions, PropagationPolicy, Status, Time};
use watchkeeper_storage::WriteError;

use crate::create::recanonicalized;
use crate::definition::Definition;
use crate::list::List;
use crate::object::{Live, StoredObject};
use crate::write::{WriteContext, not_stored, timestamp};
use crate::{Registry, kinds, metadata};

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
    pub async fn delete(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        context: &WriteContext,
    ) -> Result<Deletion, Status> {
        warn_of_orphans(definition, options, context);
        self.admit_delete(definition, name)?;
        let resource = definition.group_resource();
        for _ in 0..MAX_TRIES {
            let stored = self.find(definition, namespace, name).await?;
            let stored = stored.ok_or_else(|| Status::not_found(&resource, name))?;
            let live = stored.to_live(definition)?;
            check_preconditions(definition, &live.value, options)?;
            let marked = self.marked(definition, &live.value, options)?;
            match self
                .store_deletion(definition, namespace, name, &stored, &live, marked, context)
                .await
            {
                Ok(deletion) => return Ok(deletion),
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(not_stored(error)),
            }
        }
        Err(Status::modified(&resource, name))
    }

    /// Deletes every object of a selection. The answer lists what was deleted; it is not one moment's state.
    pub async fn delete_collection(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        selection: &ListOptions,
        options: &DeleteOptions,
        context: &WriteContext,
    ) -> Result<List, Status> {
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
    }

    /// The object as the delete leaves it, if something keeps it.
    fn marked(
        &self,
        definition: &Definition,
        live: &Value,
        options: &DeleteOptions,
    ) -> Result<Value, Status> {
        let mut new = live.clone();
        set_propagation(definition, &mut new, options);
        let grace = grace_seconds(definition, live, options);
        let now = self.clock().now();
        let first = live["metadata"]["deletionTimestamp"].is_null();
        let is_namespace = kinds::is_namespace(definition);
        let fields = metadata::of(&mut new);
        let shorter = fields
            .get("deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_none_or(|old| grace < old);
        if first || (shorter && !is_namespace) {
            let at = Time {
                seconds: now.seconds + grace,
                nanos: now.nanos,
            };
            fields.insert("deletionTimestamp".to_owned(), json!(timestamp(at)));
            fields.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
        }
        if let (true, Some(generation)) = (first, fields.get("generation").and_then(Value::as_i64)) {
            fields.insert("generation".to_owned(), json!(generation + 1));
        }
        if is_namespace {
            // It ends when it is empty, however long that takes.
            fields.remove("deletionGracePeriodSeconds");
            new["status"]["phase"] = json!("Terminating");
        }
        recanonicalized(definition, new)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of one loop, named for reading"
    )]
    async fn store_deletion(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
        stored: &StoredObject,
        live: &Live,
        marked: Value,
        context: &WriteContext,
    ) -> Result<Deletion, WriteError> {
        let key = definition.key(namespace, name);
        let Some(expected) = stored.revision else {
            return Ok(Deletion::Gone(stored.clone()));
        };
        let encode = |value: &Value| {
            let encoded = StoredObject::encode(definition, value, &live.managers);
            encoded.unwrap_or_else(|_| stored.bytes.clone())
        };
        let live = &live.value;
        if kinds::is_ready_to_go(definition, &marked) {
            // Pods are shown as they end, all others as they were.
            let bytes = if kinds::is_graceful(definition) {
                encode(&marked)
            } else {
                stored.bytes.clone()
            };
            if context.dry_run {
                return Ok(Deletion::Gone(StoredObject {
                    bytes,
                    revision: Some(expected),
                }));
            }
            // A pod that runs somewhere is told to end before it is gone.
            let is_told = kinds::is_graceful(definition) && runs_somewhere(live) && marked != *live;
            let expected = match is_told {
                true => {
                    self.store()
                        .update(&key, bytes.clone(), expected, definition.strategy.ttl)
                        .await?
                }
                false => expected,
            };
            let revision = self.store().delete(&key, expected).await?;
            return Ok(Deletion::Gone(StoredObject {
                bytes,
                revision: Some(revision),
            }));
        }
        if marked == *live {
            return Ok(Deletion::Marked(stored.clone()));
        }
        let bytes = encode(&marked);
        let revision = match context.dry_run {
            true => expected,
            false => {
                self.store()
                    .update(&key, bytes.clone(), expected, definition.strategy.ttl)
                    .await?
            }
        };
        Ok(Deletion::Marked(StoredObject {
            bytes,
            revision: Some(revision),
        }))
    }
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
            Some(wanted) if wanted != found && field == "uid" && kinds::is_namespace(definition) => {
                let why = format!(
                    "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
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

/// Whoever deletes a job without a word about its pods may not expect them to stay.
fn warn_of_orphans(definition: &Definition, options: &DeleteOptions, context: &WriteContext) {
    let says_nothing = options.propagation_policy.is_none() && options.orphan_dependents.is_none();
    if says_nothing && definition.resource.plural == "jobs" {
        context.warnings.add(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning",
        );
    }
}

/// Turns a propagation policy into the finalizer that carries it out.
fn set_propagation(definition: &Definition, object: &mut Value, options: &DeleteOptions) {
    if !definition.strategy.garbage_collected {
        return;
    }
    let policy = match (options.propagation_policy, options.orphan_dependents) {
        (Some(policy), _) => Some(policy),
        (None, Some(true)) => Some(PropagationPolicy::Orphan),
        (None, Some(false)) => Some(PropagationPolicy::Background),
        (None, None) if definition.strategy.orphans_by_default => Some(PropagationPolicy::Orphan),
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
    if !kinds::is_graceful(definition) {
        return 0;
    }
    if !runs_somewhere(live) {
        return 0;
    }
    let asked = options.grace_period_seconds;
    let seconds = asked
        .or(live["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or_default();
    // Kubernetes takes "less than nothing" for "as soon as can be", which is not the same as by force.
    if seconds < 0 { 1 } else { seconds }
}

/// Whether a pod is on a node and has not ended.
fn runs_somewhere(pod: &Value) -> bool {
    let is_bound = !pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    is_bound && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}
