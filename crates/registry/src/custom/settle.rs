//! Keeps the served custom kinds consistent with the stored CustomResourceDefinitions.
//!
//! After each write of a definition, before its response, it is examined: its names are accepted unless another kind of
//! the group has them; a kind with accepted names is established and served; a deleted definition loses its objects, then is
//! removed. Kubernetes does this asynchronously in controllers; here a kind is usable as soon as its definition was
//! created. Unchanged definitions are neither parsed nor compiled again.
//!
//! ```text
//! created ─▶ NamesAccepted ─▶ Established, served ─▶ deleted: Terminating ─▶ objects gone ─▶ definition gone
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use watchkeeper_kinds::{Approval, Condition, DEFINITION_FINALIZER, KindVersion, Part, builtin};
use watchkeeper_meta::{DeleteOptions, ListOptions, Status};
use watchkeeper_storage::{Key, Revision};

use super::names::Names;
use crate::context::{WriteContext, timestamp};
use crate::definition::{Definition, Lifetime};
use crate::object::Live;
use crate::values::{StoredValue, ValueChange, Values};
use crate::write::{DeleteAdmission, Deletion, Managed, Proposal, Target, Write};
use crate::{Registry, metadata};

/// The field manager of a definition's status.
const MANAGER: &str = "kube-apiserver";

/// The longest wait for definitions that are being examined: the objects of a deleted one may take longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The limit on repeated examinations: a removed definition may free the names of another, and so on. The rest is
/// left to the next write.
const MAX_ROUNDS: usize = 32;

/// The compiled definitions.
#[derive(Default)]
pub(crate) struct Settling {
    /// The lock is held while definitions are examined and updated.
    known: tokio::sync::Mutex<Definitions>,
    /// A task already waits to examine the definitions for cancelled writers.
    is_pending: AtomicBool,
}

/// The stored definitions, their pending work, and their compiled form. Work stays pending until it is done, even if the
/// call that does it is cancelled.
#[derive(Default)]
struct Definitions {
    stored: Values,
    names: Names,
    /// Definitions whose status may be out of date.
    unsettled: BTreeSet<Key>,
    /// Definitions whose served form may be out of date.
    unserved: BTreeSet<Key>,
    /// Deleted definitions.
    terminating: BTreeSet<Key>,
    compiled: HashMap<Key, Compiled>,
}

/// A definition as last compiled.
struct Compiled {
    /// The definition it was compiled from.
    source: Arc<Value>,
    served_since: Revision,
    definitions: Vec<Arc<Definition>>,
}

impl Definitions {
    /// Reads the definitions that changed, and records the work they need.
    async fn refresh(&mut self, registry: &Registry, defining: &Definition) -> Result<(), Status> {
        for change in self.stored.refresh(registry, defining).await? {
            self.note(change);
        }
        Ok(())
    }

    fn note(&mut self, ValueChange { key, before, now }: ValueChange) {
        let concerned = self.names.follow(&key, before.as_deref(), now.as_deref());
        self.unsettled.extend(concerned);
        match now.as_deref().is_some_and(is_deleting) {
            true => self.terminating.insert(key.clone()),
            false => self.terminating.remove(&key),
        };
        self.unsettled.insert(key.clone());
        self.unserved.insert(key);
    }

    /// A definition with the status it should have; `None` if it has it, or if the definition is gone.
    fn settled_status(&self, key: &Key, imported: Revision, now: &str) -> Option<(Arc<Value>, Value)> {
        let definition = &self.stored.get(key)?.value;
        let version = metadata::text(definition, "resourceVersion").parse();
        // The status of imported definitions is final.
        if version.is_ok_and(|version: u64| version <= imported.get()) {
            return None;
        }
        let status = settled_status(key, definition, &self.names, now)?;
        Some((definition.clone(), status))
    }

    /// The definition under a key, if it is established.
    fn established(&self, key: &Key) -> Option<&StoredValue> {
        let stored = self.stored.get(key)?;
        is_true(&stored.value, "Established").then_some(stored)
    }

    /// True if the served form of a definition is out of date.
    fn is_outdated(&self, key: &Key) -> bool {
        match (self.compiled.get(key), self.established(key)) {
            (Some(compiled), Some(stored)) => !is_same_source(&compiled.source, &stored.value),
            (compiled, stored) => compiled.is_some() || stored.is_some(),
        }
    }
}

impl Registry {
    /// Updates the served kinds to match the stored definitions.
    pub(crate) fn settle_custom_kinds<'a>(&'a self) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let mut known = self.settling().known.lock().await;
            self.settle(&mut known).await
        })
    }

    /// Waits, for a short time, until the kinds of all definitions that can be read are served. The watchers of a definition
    /// see that it is established a moment before its kind is.
    pub async fn custom_kinds_served(&self) {
        let _ = tokio::time::timeout(PATIENCE, self.settling().known.lock()).await;
    }

    /// Does the same in the background, unless that is pending already.
    pub(crate) fn settle_later(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.settling().is_pending.swap(true, Ordering::AcqRel) {
            return;
        }
        let registry = self.clone();
        runtime.spawn(async move {
            let settling = registry.settling();
            let mut known = settling.known.lock().await;
            settling.is_pending.store(false, Ordering::Release);
            registry.drain_writes().await;
            if let Err(status) = registry.settle(&mut known).await {
                tracing::warn!("custom kinds are not up to date: {}", status.message);
            }
        });
    }

    async fn settle(&self, known: &mut Definitions) -> Result<(), Status> {
        for _ in 0..MAX_ROUNDS {
            if !self.settle_once(known).await? {
                break;
            }
        }
        Ok(())
    }

    /// Waits for writes that a cancelled writer may have left in the store's queue. This write follows them and
    /// changes nothing, so its result does not matter. Writes of other servers cannot be waited for.
    async fn drain_writes(&self) {
        if !self.store().is_shared() {
            let _ = self.store().compact(Revision::ZERO).await;
        }
    }

    /// Examines every unsettled definition once; returns true if a change may affect other definitions.
    fn settle_once<'a>(&'a self, known: &'a mut Definitions) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
            let defining = self.builtin(&builtin::CUSTOM_RESOURCE_DEFINITION)?;
            known.refresh(self, &defining).await?;
            let mut changed = false;
            for key in known.unsettled.clone() {
                let now = timestamp(self.clock().now());
                let Some((definition, status)) = known.settled_status(&key, self.imported(), &now) else {
                    known.unsettled.remove(&key);
                    continue;
                };
                self.write_status(&defining, &definition, status).await?;
                known.refresh(self, &defining).await?;
                changed = true;
            }
            self.serve_definitions(known).await;
            for key in known.terminating.clone() {
                changed |= self.clean_up(&defining, &key, known).await?;
            }
            Ok(changed)
        })
    }

    /// Writes the status of a definition, unless it was deleted.
    fn write_status<'a>(
        &'a self,
        defining: &'a Arc<Definition>,
        definition: &'a Value,
        status: Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let propose = |live: &Live| {
                let mut object = live.value.clone();
                object["status"] = status.clone();
                Ok(Proposal {
                    object,
                    managed: Managed::ByChange,
                })
            };
            let (name, context) = (
                metadata::text(definition, "name"),
                WriteContext::by_server(MANAGER),
            );
            let target = Target::new(defining, "", name, Part::Status);
            let mut write = Write::unguarded(self, target, &context);
            ignore_gone(write.change(propose).await.map(drop))
        })
    }

    /// Compiles changed definitions and serves the established ones. Watches of versions that are removed or changed
    /// end.
    async fn serve_definitions(&self, known: &mut Definitions) {
        let noted = std::mem::take(&mut known.unserved);
        known.unserved = noted.into_iter().filter(|key| known.is_outdated(key)).collect();
        if known.unserved.is_empty() {
            return;
        }
        let _no_writes = self.catalog().change().await;
        self.drain_writes().await;
        // No await from here on: a cancelled call has applied everything or nothing.
        let now = self.store().current_revision();
        let mut changes = Vec::new();
        for key in std::mem::take(&mut known.unserved) {
            let before = known.compiled.remove(&key);
            let Some(stored) = known.established(&key) else {
                let gone = before.iter().flat_map(|before| &before.definitions);
                gone.for_each(|it| self.end_watches(it));
                changes.push((key, Vec::new()));
                continue;
            };
            let compiled = self.compiled(stored, before, now);
            changes.push((key.clone(), self.served(&compiled)));
            known.compiled.insert(key, compiled);
        }
        self.catalog().serve(changes);
    }

    /// The versions that clients can ask for.
    fn served(&self, compiled: &Compiled) -> Vec<Arc<Definition>> {
        let is_served = |it: &&Arc<Definition>| {
            let resource = &it.resource;
            it.custom.as_ref().is_some_and(|it| it.is_served)
                && !self
                    .catalog()
                    .is_builtin_version(&resource.group, &resource.version)
        };
        compiled.definitions.iter().filter(is_served).cloned().collect()
    }

    fn compiled(&self, stored: &StoredValue, before: Option<Compiled>, now: Revision) -> Compiled {
        let definition = &*stored.value;
        let name = metadata::text(definition, "name");
        let is_same_object = |before: &Compiled| is_same_uid(&before.source, definition);
        let has_changed = definition["metadata"]["generation"].as_i64().unwrap_or(1) > 1;
        let schema_since = match (has_changed, self.store().is_shared()) {
            // Nothing can have been stored before the first schema.
            (false, _) => Revision::ZERO,
            (true, false) => now,
            // Other servers may still use the older schema, so no stored object is assumed to match this one.
            (true, true) => Revision::new(u64::MAX),
        };
        let served_since = match &before {
            Some(before) if is_same_object(before) => before.served_since,
            // Older objects under its prefix belong to an earlier kind of the same name.
            _ => stored.created,
        };
        // A kind being deleted stays as it was, so that its watches see the deletion of its objects.
        let (ended, watched) = match &before {
            Some(before)
                if is_same_object(before) && is_same_but_for_deletion(&before.source, definition) =>
            {
                (&[][..], &before.definitions[..])
            }
            Some(before) => (&before.definitions[..], &[][..]),
            None => (&[][..], &[][..]),
        };
        ended.iter().for_each(|it| self.end_watches(it));
        let is_terminating = is_deleting(definition);
        let compiled = KindVersion::compile(definition).unwrap_or_else(|error| {
            tracing::error!(name, %error, "custom resource definition cannot be served");
            Vec::new()
        });
        let definitions = compiled.into_iter().map(|version| {
            let lifetime = Lifetime {
                schema_since,
                served_since,
                is_retired: is_retired(watched, &version.api_version),
                is_terminating,
            };
            Arc::new(Definition::custom(version, lifetime))
        });
        let definitions = definitions.collect();
        Compiled {
            source: stored.value.clone(),
            served_since,
            definitions,
        }
    }

    /// Deletes the objects of a deleted kind, then the finalizer of its definition. Returns true if the definition is
    /// gone.
    async fn clean_up(
        &self,
        defining: &Arc<Definition>,
        key: &Key,
        known: &Definitions,
    ) -> Result<bool, Status> {
        let Some(definition) = known.stored.get(key).map(|stored| &*stored.value) else {
            return Ok(false);
        };
        let finalizers = definition["metadata"]["finalizers"].as_array();
        if !finalizers.is_some_and(|list| list.iter().any(|name| name == DEFINITION_FINALIZER)) {
            return Ok(false);
        }
        let name = metadata::text(definition, "name");
        // In the stored version, which needs no conversion webhook.
        let stored = |it: &&Arc<Definition>| it.stored_api_version() == it.api_version;
        let served = known.compiled.get(key).and_then(|compiled| {
            let mut definitions = compiled.definitions.iter();
            definitions.find(stored).or(compiled.definitions.first()).cloned()
        });
        if let Some(served) = served {
            let left = self.delete_all(&served).await?;
            if left > 0 {
                let condition = Condition {
                    kind: "Terminating",
                    status: "True",
                    reason: "InstanceDeletionInProgress",
                    message: "CustomResource deletion is in progress",
                };
                let status = condition.added_to(&definition["status"], &timestamp(self.clock().now()));
                if status != definition["status"] {
                    self.write_status(defining, definition, status).await?;
                }
                return Ok(false);
            }
        }
        let now = timestamp(self.clock().now());
        let propose = |live: &Live| {
            let mut object = live.value.clone();
            if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
                finalizers.retain(|name| name != DEFINITION_FINALIZER);
            }
            let condition = Condition {
                kind: "Terminating",
                status: "False",
                reason: "InstanceDeletionCompleted",
                message: "removed all instances",
            };
            object["status"] = condition.added_to(&object["status"], &now);
            Ok(Proposal {
                object,
                managed: Managed::ByChange,
            })
        };
        let context = WriteContext::by_server(MANAGER);
        let target = Target::new(defining, "", name, Part::Whole);
        let mut write = Write::unguarded(self, target, &context);
        ignore_gone(write.change(propose).await.map(drop))?;
        Ok(true)
    }

    /// Deletes every object of a kind; returns the number of objects that remain because of finalizers.
    async fn delete_all(&self, definition: &Arc<Definition>) -> Result<usize, Status> {
        let list = self.list(definition, "", &ListOptions::default()).await?;
        let mut left = 0;
        for item in list.objects() {
            let header = item.header(definition)?;
            let (namespace, name) = (header.namespace.to_string(), header.name.to_string());
            let (options, context) = (DeleteOptions::default(), WriteContext::by_server(MANAGER));
            let target = Target::new(definition, &namespace, &name, Part::Object);
            let mut write = Write::unguarded(self, target, &context);
            match write.delete(&options, DeleteAdmission::Skip).await {
                Ok(Deletion::Marked(_)) => left += 1,
                Ok(Deletion::Gone(_)) => {}
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(left)
    }
}

/// The signal that ends the watches of a version. Watches on an unchanged version in `watched` continue.
fn is_retired(watched: &[Arc<Definition>], api_version: &str) -> watch::Sender<bool> {
    let same = watched.iter().find(|it| it.api_version == api_version);
    let lifetime = same.and_then(|it| it.lifetime.as_ref());
    lifetime.map_or_else(
        || watch::Sender::new(false),
        |lifetime| lifetime.is_retired.clone(),
    )
}

fn ignore_gone(written: Result<(), Status>) -> Result<(), Status> {
    match written {
        Err(status) if status.is_not_found() => Ok(()),
        written => written,
    }
}

/// True if two states of a definition are equal in the fields that affect what is served.
fn is_same_source(one: &Value, other: &Value) -> bool {
    is_same_uid(one, other) && is_same_but_for_deletion(one, other) && is_deleting(one) == is_deleting(other)
}

fn is_same_uid(one: &Value, other: &Value) -> bool {
    one["metadata"]["uid"] == other["metadata"]["uid"]
}

fn is_same_but_for_deletion(one: &Value, other: &Value) -> bool {
    one["spec"] == other["spec"] && one["status"]["acceptedNames"] == other["status"]["acceptedNames"]
}

fn is_deleting(definition: &Value) -> bool {
    !definition["metadata"]["deletionTimestamp"].is_null()
}

/// True if a condition of a definition is `True`.
fn is_true(definition: &Value, condition: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == condition && it["status"] == "True")
}

/// The status a definition should have, given all others; `None` if it has it.
fn settled_status(key: &Key, definition: &Value, names: &Names, now: &str) -> Option<Value> {
    if is_deleting(definition) {
        return None;
    }
    let status = &definition["status"];
    let (accepted, conflict) = names.accepted(key, definition);
    let mut new = status.clone();
    new["acceptedNames"] = accepted;
    if let Some(approval) = Approval::of(definition) {
        let (status, reason, message) = approval.condition();
        let kind = "KubernetesAPIApprovalPolicyConformant";
        new = Condition {
            kind,
            status,
            reason,
            message: &message,
        }
        .added_to(&new, now);
    }
    let (names_status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    let accepted = Condition {
        kind: "NamesAccepted",
        status: names_status,
        reason,
        message: &message,
    };
    new = accepted.added_to(&new, now);
    // An established definition stays established, whatever names it requests later.
    if !is_true(definition, "Established") {
        let (status, reason, message) = match conflict {
            None => (
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
            Some(_) => ("False", "NotAccepted", "not all names are accepted"),
        };
        let kind = "Established";
        new = Condition {
            kind,
            status,
            reason,
            message,
        }
        .added_to(&new, now);
    }
    (new != *status).then_some(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(plural: &str, kind: &str, accepted: bool) -> Value {
        let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")});
        let status = match accepted {
            true => json!({"acceptedNames": names}),
            false => json!({"acceptedNames": {"plural": "", "kind": ""}, "conditions": null}),
        };
        json!({"metadata": {"name": format!("{plural}.a.b")}, "spec": {"group": "a.b", "names": names}, "status": status})
    }

    #[test]
    fn a_name_is_accepted_for_one_kind() {
        let conditions = |definitions: &[Value]| {
            let mut names = Names::default();
            let keys = ["0", "1"].map(Key::from);
            for (key, definition) in keys.iter().zip(definitions) {
                names.follow(key, None, Some(definition));
            }
            let status = settled_status(&keys[0], &definitions[0], &names, "now").unwrap();
            let list = status["conditions"].as_array().unwrap().clone();
            let texts = list
                .iter()
                .map(|it| format!("{} {} {}", it["type"], it["status"], it["reason"]));
            (
                texts.collect::<Vec<_>>().join(", ").replace('"', ""),
                status["acceptedNames"]["kind"].clone(),
            )
        };
        let alone = [definition("widgets", "Widget", false)];
        let expected = "NamesAccepted True NoConflicts, Established True InitialNamesAccepted";
        assert_eq!(conditions(&alone), (expected.to_owned(), json!("Widget")));
        let second = [
            definition("gadgets", "Widget", false),
            definition("widgets", "Widget", true),
        ];
        let expected = "NamesAccepted False ListKindConflict, Established False NotAccepted";
        assert_eq!(conditions(&second), (expected.to_owned(), json!("")));
    }
}
