//! The fast path for a patch of only labels, annotations or finalizers: the most frequent write of controllers
//! besides status.
//!
//! The rest of the object was validated and defaulted when it was written, and its managers do not change. It is
//! neither decoded nor encoded, but copied around the new parts ([`OpenMetadata`]):
//!
//! ```text
//! stored   names, uid… │        patched fields          │ managers │ spec, status, data…
//!              ║                      ▼                                    ║
//!              ║                    patch ▶ rules                          ║
//!              ║                      ▼ ▶ managers                         ║
//! new      names, uid… │        patched fields          │ managers │ spec, status, data…
//! ```
//!
//! Validating the rest again would find nothing: no rule of these kinds depends on anything that changes while the
//! object does not, except `allow_privileged`, which disables the fast path. A store written under laxer rules may
//! contain objects that would be rejected now; Kubernetes accepts those in an update too, as far as its rules
//! ratchet. Custom objects, whose schemas change, are excluded, and roles and bindings, which only those may write who
//! have what they grant.
//!
//! [`patch_whole`](Write::patch_whole) handles all unusual cases and every rejection. This path returns only errors
//! of the store, after which the write must not be repeated.

use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::{PatchKind, Status};
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::difference::Difference;

use super::Write;
use super::open_metadata::OpenMetadata;
use super::patch::{Patch, patched};
use super::update::Failed;
use crate::metadata;
use crate::object::{METADATA_ONLY, StoredObject};
use crate::rbac::is_grant;

/// The fields that may be patched, in order.
const FIELDS: [&str; 3] = ["annotations", "finalizers", "labels"];

impl Write<'_> {
    /// Patches the object's metadata; `None` if the patch or the object is unusual. Errors are those of the store.
    pub(super) async fn patch_metadata(&self, patch: &Patch<'_>) -> Option<Result<StoredObject, Status>> {
        let (registry, definition) = (self.registry, &*self.definition);
        let (kind, patch) = (patch.kind, patch.value);
        let is_usual = self.part == Part::Object
            && !registry.has_policy()
            && !definition.is_custom()
            && !is_grant(definition);
        if !is_usual || !is_about_metadata(kind, patch) {
            return None;
        }
        // Policies and webhooks need whole objects.
        if registry.may_call_webhooks(definition, self.context)
            || !registry.bound_policies().await.ok()?.is_empty()
        {
            return None;
        }
        let key = definition.key(self.namespace, self.name);
        let stored = StoredObject::from(&registry.store().get(&key, None).await.ok()??);
        let means_something = definition.heeds()?;
        let opens = |name: &str| speaks_of(kind, patch, name);
        let open = OpenMetadata::of(&stored.bytes, opens, means_something)?;
        let value = tidied(patched(definition, kind, open.value.clone(), patch).ok()?)?;
        let changed = Difference::between(&open.value, &value);
        if has_key(&value, means_something) || !metadata::is_in_order(&value, &changed) {
            return None;
        }
        let managers = self.managers_of(&open, &value, &changed)?;
        // Changed times in managed fields alone do not make a new version.
        if changed.is_nowhere() && managers.is_same_but_for_times(&open.managers) && !self.is_stale(&stored) {
            return Some(Ok(stored));
        }
        let bytes = open.with(&value, &managers);
        match registry
            .replace(definition, &key, &stored, bytes, self.context)
            .await
        {
            Ok(replaced) => Some(Ok(replaced)),
            Err(Failed::Overtaken) => None,
            Err(Failed::For(status)) => Some(Err(status)),
        }
    }

    /// The managers after the object has changed to this value.
    fn managers_of(&self, open: &OpenMetadata<'_>, value: &Value, changed: &Difference) -> Option<Managers> {
        let definition = &*self.definition;
        let (schema, root) = (&*definition.schema, (*METADATA_ONLY)?);
        let mut managers = open.managers.clone();
        // An object without managers stays so until someone applies.
        if !managers.is_empty() {
            let now = self.registry.clock().now();
            let writer = self.context.writer(definition, Part::Object.subresource(), now);
            let states = (&open.value, value, changed);
            managers.record_update(schema, root, states, &Endpoint::default(), &writer);
        }
        Some(managers)
    }
}

/// True if a patch concerns only labels, annotations and finalizers.
fn is_about_metadata(kind: PatchKind, patch: &Value) -> bool {
    match kind {
        PatchKind::Merge | PatchKind::Strategic => {
            let members = patch.as_object().filter(|members| members.len() == 1);
            let metadata = members.and_then(|members| members.get("metadata")?.as_object());
            metadata.is_some_and(|metadata| metadata.keys().all(|name| FIELDS.contains(&name.as_str())))
        }
        PatchKind::Json => {
            let mut operations = patch.as_array().into_iter().flatten();
            operations.all(|operation| {
                let is_below = |path: &Value| path.as_str().is_some_and(is_below_fields);
                is_below(&operation["path"]) && operation.get("from").is_none_or(is_below)
            })
        }
        PatchKind::Apply => false,
    }
}

/// True if a path is one of the [`FIELDS`], or inside one.
fn is_below_fields(path: &str) -> bool {
    field_of(path).is_some_and(|field| FIELDS.contains(&field))
}

/// The metadata field of a path.
fn field_of(path: &str) -> Option<&str> {
    let mut steps = path.split('/').skip(1);
    steps.next().filter(|step| *step == "metadata")?;
    steps.next()
}

/// True if a metadata patch concerns this field.
fn speaks_of(kind: PatchKind, patch: &Value, name: &str) -> bool {
    if kind != PatchKind::Json {
        return patch["metadata"].get(name).is_some();
    }
    let operations = patch.as_array().into_iter().flatten();
    let mut paths = operations.flat_map(|operation| [&operation["path"], &operation["from"]]);
    paths.any(|path| path.as_str().and_then(field_of) == Some(name))
}

/// The metadata in canonical form, without empty fields. `None` if a field has a wrong type, which the general path
/// reports.
fn tidied(mut object: Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let is_fine = |(name, field): (&String, &Value)| match field {
        Value::Null => true,
        Value::Array(items) => name == "finalizers" && items.iter().all(Value::is_string),
        Value::Object(entries) => name != "finalizers" && entries.values().all(Value::is_string),
        _ => false,
    };
    if !metadata.iter().all(is_fine) {
        return None;
    }
    metadata.retain(|_, field| match field {
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => false,
    });
    Some(object)
}

/// True if an object has a label or annotation whose key satisfies `is_such`.
fn has_key(object: &Value, is_such: fn(&str) -> bool) -> bool {
    let keys = |name: &str| object["metadata"][name].as_object().into_iter().flatten();
    let mut keys = keys("labels").chain(keys("annotations"));
    keys.any(|(key, _)| is_such(key))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::json;
    use tokio::runtime::{self, Runtime};
    use watchkeeper_storage::{Store, StoreOptions};

    use super::*;
    use watchkeeper_kinds::builtin;

    use crate::write::{Target, WriteContext};
    use crate::{Body, Definition, Format, Registry};

    const NAME: &str = "a";

    /// A paused clock, so that both paths write the same times.
    fn stopped() -> Runtime {
        let mut runtime = runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap()
    }

    /// The fields of a kind besides metadata.
    fn rest(kind: &str) -> Value {
        let containers =
            json!([{"name": "main", "image": "web:1", "resources": {"limits": {"cpu": "1.50"}}}]);
        let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}});
        match kind {
            "Pod" => json!({"spec": template["spec"]}),
            "ConfigMap" => json!({"data": {"colour": "blue"}, "immutable": true}),
            "Secret" => json!({"stringData": {"colour": "blue"}}),
            "Lease" => json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}),
            "Node" => json!({"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "4"}}}),
            _ => json!({"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}}),
        }
    }

    struct Bench {
        registry: Registry,
        definition: Arc<Definition>,
    }

    impl Bench {
        /// One for every kind with the fast path.
        async fn all() -> Vec<Self> {
            let mut all = Vec::new();
            for definition in Definition::builtin() {
                if definition.heeds().is_some() {
                    all.push(Self::start(definition, StoreOptions::default()).await);
                }
            }
            all
        }

        async fn start(definition: Arc<Definition>, options: StoreOptions) -> Self {
            let registry = Registry::open(Store::memory(options)).await.unwrap();
            let mut object = rest(&definition.resource.kind);
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": "o"});
            object["metadata"] = json!({"name": NAME, "labels": {"app": "x"}, "ownerReferences": [owner]});
            let (format, bytes) = (Format::Json, object.to_string().into_bytes());
            let body = Body {
                format,
                bytes: &bytes,
            };
            let (bench, context) = (Self { registry, definition }, writer(false));
            let made = bench
                .registry
                .create(&bench.definition, bench.namespace(), body, &context);
            made.await.unwrap();
            bench
        }

        fn namespace(&self) -> &'static str {
            match self.definition.is_namespaced() {
                true => "default",
                false => "",
            }
        }

        fn target(&self) -> Target<'_> {
            Target::new(&self.definition, self.namespace(), NAME, Part::Object)
        }

        /// Patches as a dry run on both paths and compares; returns true if the fast path applied.
        async fn compare(&self, kind: PatchKind, patch: &Value) -> bool {
            let (context, whole_context) = (writer(true), writer(true));
            let (definition, target) = (&self.definition, self.target());
            let read = Patch {
                kind,
                value: patch,
                strict_errors: &[],
            };
            let quick = Write::unguarded(&self.registry, target, &context);
            let Some(quick) = quick.patch_metadata(&read).await else {
                return false;
            };
            let quick = quick.unwrap();
            let mut whole = Write::unguarded(&self.registry, target, &whole_context);
            let whole = whole.patch_whole(&read).await;
            let whole = whole.unwrap();
            let warnings = (context.warnings.take(), whole_context.warnings.take());
            assert_eq!(warnings, Default::default(), "{patch}");
            let shown = |object: &StoredObject| object.to_value(definition).unwrap();
            assert_eq!(shown(&quick), shown(&whole), "{patch}");
            assert_eq!(quick, whole, "{patch}");
            true
        }

        async fn write(&self, kind: PatchKind, patch: &Value) {
            let (definition, bytes, context) = (&self.definition, patch.to_string(), writer(false));
            let written = self.registry.patch(
                definition,
                self.namespace(),
                NAME,
                Part::Object,
                (kind, bytes.as_bytes()),
                &context,
            );
            // Many are rejected and change nothing.
            drop(written.await);
        }
    }

    fn writer(dry_run: bool) -> WriteContext {
        WriteContext {
            manager: if dry_run { "reader" } else { "writer" }.to_owned(),
            dry_run,
            ..WriteContext::default()
        }
    }

    fn key() -> impl Strategy<Value = String> {
        let keys = [
            "app",
            "example.com/b",
            "no key!",
            "kubernetes.io/config.mirror",
            "controller.kubernetes.io/pod-deletion-cost",
            "kubernetes.io/service-account.name",
        ];
        select(keys.map(str::to_owned).to_vec())
    }

    fn text() -> impl Strategy<Value = Value> {
        select(vec![
            json!("x"),
            json!("y"),
            json!(""),
            json!("no label!"),
            json!(null),
            json!(7),
        ])
    }

    fn entries() -> impl Strategy<Value = Value> {
        let entries = prop::collection::btree_map(key(), text(), 0..3);
        prop_oneof![
            8 => entries.prop_map(|entries| json!(entries)),
            1 => select(vec![json!(null), json!("text"), json!({"$patch": "replace", "a": "b"})]),
        ]
    }

    fn finalizers() -> impl Strategy<Value = Value> {
        let names = prop::collection::vec(select(vec!["example.com/a", "example.com/b", "none"]), 0..3);
        prop_oneof![names.prop_map(|names| json!(names)), Just(json!(null))]
    }

    fn patch() -> impl Strategy<Value = (PatchKind, Value)> {
        let field = prop_oneof![
            (Just("labels"), entries()),
            (Just("annotations"), entries()),
            (Just("finalizers"), finalizers()),
        ];
        let merge = prop::collection::vec(field, 0..3).prop_map(|fields| {
            let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
            json!({"metadata": Value::Object(fields.collect())})
        });
        let word = select(vec!["add", "replace", "remove", "test"]);
        let operation = (word, select(FIELDS.to_vec()), key(), text());
        let operation = operation.prop_map(|(op, field, key, value)| {
            let path = match key.as_str() {
                "app" => format!("/metadata/{field}"),
                key => format!("/metadata/{field}/{}", key.replace('/', "~1")),
            };
            json!({"op": op, "path": path, "value": value})
        });
        prop_oneof![
            2 => merge.clone().prop_map(|patch| (PatchKind::Merge, patch)),
            2 => merge.prop_map(|patch| (PatchKind::Strategic, patch)),
            1 => prop::collection::vec(operation, 0..3).prop_map(|list| (PatchKind::Json, json!(list))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn both_paths_make_the_same_object(patches in prop::collection::vec(patch(), 1..6)) {
            stopped().block_on(async {
                for bench in Bench::all().await {
                    for (kind, patch) in &patches {
                        bench.compare(*kind, patch).await;
                        bench.write(*kind, patch).await;
                    }
                }
            });
        }
    }

    #[test]
    fn usual_patches_take_the_fast_path() {
        let patch = json!({"metadata": {"annotations": {"example.com/seen": "1"}}});
        stopped().block_on(async {
            let all = Bench::all().await;
            assert_eq!(all.len(), 7);
            for bench in all {
                assert!(bench.compare(PatchKind::Merge, &patch).await);
            }
        });
    }

    /// A failed store may have stored the write; a repetition would write twice.
    #[test]
    fn a_store_error_is_not_retried_on_the_general_path() {
        const LIMIT: usize = 64 << 10;
        let patch = json!({"metadata": {"annotations": {"example.com/seen": "x".repeat(LIMIT)}}});
        stopped().block_on(async {
            let mut definitions = Definition::builtin().into_iter();
            let pods = definitions.find(|known| known.is(&builtin::POD)).unwrap();
            let options = StoreOptions {
                max_value_bytes: LIMIT,
                ..StoreOptions::default()
            };
            let bench = Bench::start(pods, options).await;
            let context = writer(false);
            let patch = Patch {
                kind: PatchKind::Merge,
                value: &patch,
                strict_errors: &[],
            };
            let write = Write::unguarded(&bench.registry, bench.target(), &context);
            assert!(matches!(write.patch_metadata(&patch).await, Some(Err(_))));
        });
    }

    #[test]
    fn other_patches_take_the_general_path() {
        let check = |kind, patch: Value, expected| {
            assert_eq!(is_about_metadata(kind, &patch), expected, "{patch}");
        };
        let labels = json!({"labels": {"a": "b"}});
        check(PatchKind::Merge, json!({"metadata": labels}), true);
        check(PatchKind::Merge, json!({"metadata": labels, "spec": {}}), false);
        check(PatchKind::Merge, json!({"metadata": {"name": "b"}}), false);
        check(PatchKind::Merge, json!({"metadata": null}), false);
        check(PatchKind::Apply, json!({"metadata": labels}), false);
        let ordered = json!({"metadata": {"$setElementOrder/finalizers": []}});
        check(PatchKind::Strategic, ordered, false);
        let json = |operation: Value| json!([operation]);
        check(
            PatchKind::Json,
            json(json!({"op": "test", "path": "/metadata/labels/a"})),
            true,
        );
        check(
            PatchKind::Json,
            json(json!({"op": "test", "path": "/metadata"})),
            false,
        );
        let copied = json!({"op": "copy", "from": "/spec/a", "path": "/metadata/labels/a"});
        check(PatchKind::Json, json(copied), false);
    }
}
