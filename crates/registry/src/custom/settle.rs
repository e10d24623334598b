//! Keeps the served custom kinds consistent with the stored CustomResourceDefinitions.
//!
//! After each write of a definition, before its response, all definitions are examined: names are accepted unless
//! another kind of the group has them; a kind with accepted names is established and served; a deleted definition
//! loses its objects, then is removed. Kubernetes does this asynchronously in controllers; here a kind is usable as
//! soon as its definition was created.
//!
//! ```text
//! created ─▶ NamesAccepted ─▶ Established, served ─▶ deleted: Terminating ─▶ objects gone ─▶ definition gone
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::watch;
use watchkeeper_kinds::{Approval, KindVersion, Part, builtin};
use watchkeeper_meta::{DeleteOptions, ListOptions, Status};
use watchkeeper_storage::{RangeRequest, ReadAt, Revision};

use crate::context::{WriteContext, timestamp};
use crate::definition::{Definition, Lifetime};
use crate::object::Live;
use crate::write::{DeleteAdmission, Deletion, Managed, Proposal, Target, Write};
use crate::{Registry, metadata};

/// The finalizer that keeps a definition until its objects are deleted.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The field manager of a definition's status.
const MANAGER: &str = "kube-apiserver";

/// The limit on repeated examinations: a removed definition may free the names of another, and so on. The rest is
/// left to the next write.
const MAX_ROUNDS: usize = 32;

/// The compiled definitions.
#[derive(Default)]
pub(crate) struct Settling {
    /// Each definition as last compiled. The lock is held while definitions are examined and updated.
    known: tokio::sync::Mutex<HashMap<String, Known>>,
    /// A task already waits to examine the definitions for cancelled writers.
    is_pending: AtomicBool,
}

/// A definition as last compiled.
struct Known {
    uid: String,
    /// The fields it was compiled from.
    source: Value,
    served_since: Revision,
    definitions: Vec<Arc<Definition>>,
}

/// The creation revisions of definitions, by name.
struct Defined {
    since: HashMap<String, Revision>,
    now: Revision,
}

impl Defined {
    /// The creation of the definition. Older objects under its prefix belong to an earlier kind of the same name.
    fn since(&self, name: &str) -> Revision {
        self.since.get(name).copied().unwrap_or(self.now)
    }
}

impl Registry {
    /// Updates the served kinds to match the stored definitions.
    pub(crate) async fn settle_custom_kinds(&self) -> Result<(), Status> {
        let mut known = self.settling().known.lock().await;
        self.settle(&mut known).await
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

    async fn settle(&self, known: &mut HashMap<String, Known>) -> Result<(), Status> {
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

    /// Examines every definition once; returns true if a change may affect other definitions.
    async fn settle_once(&self, known: &mut HashMap<String, Known>) -> Result<bool, Status> {
        let defining = self.builtin(&builtin::CUSTOM_RESOURCE_DEFINITION)?;
        let mut definitions = self.definition_values(&defining).await?;
        let (mut granted, mut changed) = (GrantedNames::of(&definitions), false);
        for index in 0..definitions.len() {
            // The status of imported definitions is final.
            let version = metadata::text(&definitions[index], "resourceVersion").parse();
            if version.is_ok_and(|version: u64| version <= self.imported().get()) {
                continue;
            }
            let now = timestamp(self.clock().now());
            let Some(status) = settled_status(&definitions[index], index, &granted, &now) else {
                continue;
            };
            self.write_status(&defining, &definitions[index], status).await?;
            definitions = self.definition_values(&defining).await?;
            granted = GrantedNames::of(&definitions);
            changed = true;
            if index >= definitions.len() {
                break;
            }
        }
        self.serve_definitions(&defining, &definitions, known).await;
        for definition in definitions.iter().filter(|it| is_deleting(it)) {
            changed |= self.clean_up(&defining, definition, known).await?;
        }
        Ok(changed)
    }

    async fn definition_values(&self, defining: &Definition) -> Result<Vec<Value>, Status> {
        let list = self.list(defining, "", &ListOptions::default()).await?;
        list.items.iter().map(|item| item.to_value(defining)).collect()
    }

    /// Writes the status of a definition, unless it was deleted.
    async fn write_status(
        &self,
        defining: &Arc<Definition>,
        definition: &Value,
        status: Value,
    ) -> Result<(), Status> {
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
    }

    /// Compiles changed definitions and serves the established ones. Watches of versions that are removed or changed
    /// end.
    async fn serve_definitions(
        &self,
        defining: &Definition,
        definitions: &[Value],
        known: &mut HashMap<String, Known>,
    ) {
        let _no_writes = self.catalog().change().await;
        let defined = self.defined(defining).await;
        // No await from here on: a cancelled call has applied everything or nothing.
        let mut served = Vec::new();
        let (mut next, mut is_same) = (HashMap::new(), true);
        for definition in definitions.iter().filter(|it| is_true(it, "Established")) {
            let name = metadata::text(definition, "name").to_owned();
            let source = source(definition);
            let uid = metadata::text(definition, "uid");
            let entry = match known.remove(&name) {
                Some(same) if same.uid == uid && same.source == source => same,
                before => {
                    is_same = false;
                    self.compiled(definition, uid, source, before, &defined)
                }
            };
            let is_served = |it: &&Arc<Definition>| it.custom.as_ref().is_some_and(|it| it.is_served);
            served.extend(entry.definitions.iter().filter(is_served).cloned());
            next.insert(name, entry);
        }
        let gone = std::mem::replace(known, next);
        for entry in gone.values() {
            is_same = false;
            entry.definitions.iter().for_each(|it| self.end_watches(it));
        }
        if !is_same {
            served.retain(|it| {
                !self
                    .catalog()
                    .is_builtin_version(&it.resource.group, &it.resource.version)
            });
            served.sort_by(|one, other| one.resource.group.cmp(&other.resource.group));
            self.catalog().serve(served);
        }
    }

    fn compiled(
        &self,
        definition: &Value,
        uid: &str,
        source: Value,
        before: Option<Known>,
        defined: &Defined,
    ) -> Known {
        let before = before.filter(|before| before.uid == uid);
        let name = metadata::text(definition, "name");
        let has_changed = definition["metadata"]["generation"].as_i64().unwrap_or(1) > 1;
        let schema_since = match (has_changed, self.store().is_shared()) {
            // Nothing can have been stored before the first schema.
            (false, _) => Revision::ZERO,
            (true, false) => defined.now,
            // Other servers may still use the older schema, so no stored object is assumed to match this one.
            (true, true) => Revision::new(u64::MAX),
        };
        let served_since = match &before {
            Some(before) => before.served_since,
            None => defined.since(name),
        };
        // A kind being deleted stays as it was, so that its watches see the deletion of its objects.
        let (ended, watched) = match &before {
            Some(before) if is_same_but_for_deletion(&before.source, &source) => {
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
        Known {
            uid: uid.to_owned(),
            source,
            served_since,
            definitions,
        }
    }

    /// Reads the creation revisions of definitions while no custom object is being written.
    async fn defined(&self, defining: &Definition) -> Defined {
        self.drain_writes().await;
        let prefix = defining.prefix("");
        let request = RangeRequest {
            prefix: &prefix,
            at: ReadAt::Visible,
            ..RangeRequest::default()
        };
        let found = self.store().range(&request).await;
        let found = found.into_iter().flat_map(|range| range.items);
        let since = found.map(|item| (item.key[prefix.len()..].to_owned(), item.create_revision));
        Defined {
            since: since.collect(),
            now: self.store().current_revision(),
        }
    }

    /// Deletes the objects of a deleted kind, then the finalizer of its definition. Returns true if the definition is
    /// gone.
    async fn clean_up(
        &self,
        defining: &Arc<Definition>,
        definition: &Value,
        known: &mut HashMap<String, Known>,
    ) -> Result<bool, Status> {
        let finalizers = definition["metadata"]["finalizers"].as_array();
        if !finalizers.is_some_and(|list| list.iter().any(|name| name == FINALIZER)) {
            return Ok(false);
        }
        let name = metadata::text(definition, "name");
        // In the stored version, which needs no conversion webhook.
        let stored = |it: &&Arc<Definition>| it.stored_api_version() == it.api_version;
        let served = known.get(name).and_then(|known| {
            let mut definitions = known.definitions.iter();
            definitions.find(stored).or(known.definitions.first()).cloned()
        });
        if let Some(served) = served {
            let left = self.delete_all(&served).await?;
            if left > 0 {
                let status = with_condition(
                    &definition["status"],
                    "Terminating",
                    "True",
                    "InstanceDeletionInProgress",
                    "CustomResource deletion is in progress",
                    &timestamp(self.clock().now()),
                );
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
                finalizers.retain(|name| name != FINALIZER);
            }
            object["status"] = with_condition(
                &object["status"],
                "Terminating",
                "False",
                "InstanceDeletionCompleted",
                "removed all instances",
                &now,
            );
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
        for item in &list.items {
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

/// The fields of a definition that affect what is served.
fn source(definition: &Value) -> Value {
    json!({
        "spec": definition["spec"],
        "names": definition["status"]["acceptedNames"],
        "deleting": is_deleting(definition),
    })
}

fn is_same_but_for_deletion(source: &Value, other: &Value) -> bool {
    ["spec", "names"].iter().all(|part| source[part] == other[part])
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
fn settled_status(definition: &Value, index: usize, granted: &GrantedNames, now: &str) -> Option<Value> {
    if is_deleting(definition) {
        return None;
    }
    let status = &definition["status"];
    let others = granted.by_others(definition, index);
    let (accepted, conflict) =
        accepted_names(&definition["spec"]["names"], &status["acceptedNames"], &others);
    let mut new = status.clone();
    new["acceptedNames"] = accepted;
    if let Some(approval) = Approval::of(definition) {
        let (state, reason, message) = approval.condition();
        let kind = "KubernetesAPIApprovalPolicyConformant";
        new = with_condition(&new, kind, state, reason, &message, now);
    }
    let (state, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    new = with_condition(&new, "NamesAccepted", state, reason, &message, now);
    // An established definition stays established, whatever names it requests later.
    if !is_true(definition, "Established") {
        let (state, reason, message) = match conflict {
            None => (
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
            Some(_) => ("False", "NotAccepted", "not all names are accepted"),
        };
        new = with_condition(&new, "Established", state, reason, message, now);
    }
    (new != *status).then_some(new)
}

/// The accepted names of each group, indexed: every definition looks up its names, and must not scan all others.
#[derive(Default)]
struct GrantedNames(HashMap<String, HashMap<(Sort, String), Holders>>);

/// The namespace of a name: kinds and resources may have equal names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    Resource,
    Kind,
}

/// The definitions that hold a name; nearly always one.
struct Holders {
    first: usize,
    has_others: bool,
}

/// The accepted names of the group's other definitions.
struct ByOthers<'g> {
    group: Option<&'g HashMap<(Sort, String), Holders>>,
    index: usize,
}

impl GrantedNames {
    fn of(definitions: &[Value]) -> Self {
        let mut granted = Self::default();
        for (index, definition) in definitions.iter().enumerate() {
            let names = &definition["status"]["acceptedNames"];
            let group = granted
                .0
                .entry(text(&definition["spec"], "group").to_owned())
                .or_default();
            let resources =
                texts(names, "shortNames").chain([text(names, "plural"), text(names, "singular")]);
            let kinds = [text(names, "kind"), text(names, "listKind")];
            let resources = resources.map(|name| (Sort::Resource, name));
            for (sort, name) in resources.chain(kinds.map(|name| (Sort::Kind, name))) {
                let holders = group.entry((sort, name.to_owned())).or_insert(Holders {
                    first: index,
                    has_others: false,
                });
                holders.has_others |= holders.first != index;
            }
        }
        granted
    }

    fn by_others(&self, definition: &Value, index: usize) -> ByOthers<'_> {
        let group = self.0.get(text(&definition["spec"], "group"));
        ByOthers { group, index }
    }
}

impl ByOthers<'_> {
    fn have(&self, sort: Sort, name: &str) -> bool {
        let holders = self.group.and_then(|group| group.get(&(sort, name.to_owned())));
        holders.is_some_and(|holders| holders.first != self.index || holders.has_others)
    }
}

fn text<'v>(names: &'v Value, field: &str) -> &'v str {
    names[field].as_str().unwrap_or_default()
}

fn texts<'v>(names: &'v Value, field: &str) -> impl Iterator<Item = &'v str> + use<'v> {
    let list = names[field].as_array().into_iter().flatten();
    list.filter_map(Value::as_str)
}

/// The names that a kind may have, and the last conflict: its reason and message.
fn accepted_names(
    wanted: &Value,
    accepted: &Value,
    others: &ByOthers<'_>,
) -> (Value, Option<(&'static str, String)>) {
    let mut granted = accepted.clone();
    let mut conflict = None;
    for (field, word, sort) in [
        ("plural", "PluralConflict", Sort::Resource),
        ("singular", "SingularConflict", Sort::Resource),
        ("shortNames", "ShortNamesConflict", Sort::Resource),
        ("kind", "KindConflict", Sort::Kind),
        ("listKind", "ListKindConflict", Sort::Kind),
    ] {
        let names = Some(text(wanted, field)).filter(|name| !name.is_empty());
        let names = names.into_iter().chain(texts(wanted, field));
        let taken = names.filter(|name| others.have(sort, name));
        let conflicts: Vec<String> = taken.map(|name| format!("{name:?} is already in use")).collect();
        match &conflicts[..] {
            [] => set_or_remove(&mut granted, field, wanted),
            [one] => conflict = Some((word, one.clone())),
            several => conflict = Some((word, format!("[{}]", several.join(", ")))),
        }
    }
    set_or_remove(&mut granted, "categories", wanted);
    (granted, conflict)
}

fn set_or_remove(names: &mut Value, field: &str, wanted: &Value) {
    match (wanted.get(field), names.as_object_mut()) {
        (Some(value), _) => names[field] = value.clone(),
        (None, Some(names)) => drop(names.remove(field)),
        (None, None) => {}
    }
}

/// A status with a condition, whose `lastTransitionTime` changes only with its status.
pub(crate) fn with_condition(
    status: &Value,
    kind: &str,
    state: &str,
    reason: &str,
    message: &str,
    now: &str,
) -> Value {
    let mut status = status.clone();
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let condition = |time: &Value| {
        json!({
            "type": kind,
            "status": state,
            "lastTransitionTime": time,
            "reason": reason,
            "message": message,
        })
    };
    if let Value::Array(conditions) = &mut status["conditions"] {
        match conditions.iter_mut().find(|it| it["type"] == kind) {
            Some(old) if old["status"] == state => {
                let time = old["lastTransitionTime"].clone();
                let is_same = old["reason"] == reason && old["message"] == message;
                if !is_same {
                    *old = condition(&time);
                }
            }
            Some(old) => *old = condition(&json!(now)),
            None => conditions.push(condition(&json!(now))),
        }
    }
    status
}

#[cfg(test)]
mod tests {
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
            let granted = GrantedNames::of(definitions);
            let status = settled_status(&definitions[0], 0, &granted, "now").unwrap();
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

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_is_equal() {
        let once = with_condition(&json!({}), "A", "True", "R", "m", "1");
        assert_eq!(with_condition(&once, "A", "True", "R", "m", "2"), once);
        let other = with_condition(&once, "A", "True", "R", "n", "2");
        assert_eq!(other["conditions"][0]["lastTransitionTime"], "1");
        let turned = with_condition(&once, "A", "False", "R", "m", "2");
        assert_eq!(turned["conditions"][0]["lastTransitionTime"], "2");
    }
}
