//! PATCH in its four kinds, on top of the same change that PUT makes.

use std::sync::Arc;

use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::{
    FieldError, FieldPath, FieldValidation, GroupKind, Status, StatusCause, StatusReason,
};
use watchkeeper_patch::apply::{self, ApplyError};
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::go_text::go_value;
use watchkeeper_patch::json_patch::{self, JsonPatchError};
use watchkeeper_patch::managed_fields::{Managers, empty_object};
use watchkeeper_patch::{last_applied, merge_patch, quoted, strategic};
use watchkeeper_wire::canonical::{Body, canonicalize_changed, json_type, read_body};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::yaml::{self, YamlError};

use crate::body::{unknown_conversion, unknown_kind};
use crate::custom::writing::Writing;
use crate::definition::Definition;
use crate::object::{Live, StoredObject};
use crate::update::{Managed, Proposal, Written};
use crate::write::{WriteContext, accept, timestamp};
use crate::{Registry, metadata};

/// What a patch says, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml`.
    Apply {
        /// Take fields from other managers.
        force: bool,
    },
}

impl Registry {
    /// Patches an object, or one part of it.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    pub async fn patch(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        part: Part,
        kind: PatchKind,
        patch: &[u8],
        context: &WriteContext,
    ) -> Result<Written, Status> {
        let (definition, mut writing) = self.begin_write(definition).await?;
        let definition = &definition;
        if let PatchKind::Apply { force } = kind {
            let config = read_configuration(patch)?;
            check_configuration(definition, &config.value)?;
            let applied = self.apply(
                &mut writing,
                definition,
                namespace,
                name,
                part,
                config.value,
                force,
                context,
            );
            let applied = Box::pin(applied).await?;
            writing.end().await?;
            if !config.is_tidy {
                complain_of_repeated_keys(patch, context)?;
            }
            return Ok(applied);
        }
        let patch = read_body(patch).map_err(|_| Status::bad_request("invalid JSON patch"))?;
        check_shape(kind, &patch.value)?;
        let (patch, complaints) = (&patch.value, complaints(kind, &patch));
        if complaints.is_empty()
            && let Some(patched) = self
                .patch_metadata(definition, namespace, name, part, kind, patch, context)
                .await
        {
            let object = patched?;
            writing.end().await?;
            return Ok(Written {
                object,
                created: false,
            });
        }
        // In a box, as an apply: the small patch does not carry the room that they take.
        let object = Box::pin(self.patch_whole(
            &mut writing,
            definition,
            namespace,
            name,
            part,
            kind,
            patch,
            &complaints,
            context,
        ))
        .await?;
        writing.end().await?;
        Ok(Written {
            object,
            created: false,
        })
    }

    /// Patches an object in a way that is right for every patch but an apply.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(crate) async fn patch_whole(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        part: Part,
        kind: PatchKind,
        patch: &Value,
        complaints: &[String],
        context: &WriteContext,
    ) -> Result<StoredObject, Status> {
        let changed = self.change(writing, definition, namespace, name, part, context, |live| {
            let start = match speaks_of_managed_fields(kind, patch) {
                true => live.whole(),
                false => live.value.clone(),
            };
            let result = patched(definition, kind, start, patch)?;
            let quoting = Quoting { kind, live, patch };
            let object = self.read_patched(
                definition,
                namespace,
                name,
                result,
                live,
                None,
                complaints,
                Some(quoting),
                context,
            )?;
            same_uid(definition, &live.value, &object)?;
            Ok(Proposal {
                object,
                managed: Managed::ByChange,
            })
        });
        changed.await
    }

    /// Takes what a patch has made for an object again. Where it differs from the live object may be known.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn read_patched(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
        mut patched: Value,
        live: &Live,
        difference: Option<Difference>,
        complaints: &[String],
        quoting: Option<Quoting<'_>>,
        context: &WriteContext,
    ) -> Result<Value, Status> {
        let unfit = |why: String| {
            let shown = quoting
                .map(|quoting| quoting.text(definition))
                .unwrap_or_default();
            let fault = FieldError::invalid(&FieldPath::new("patch"), shown, why);
            Status::invalid(&GroupKind::new("", ""), "", &fault.into())
        };
        let is_strategic = quoting.is_some_and(|quoting| quoting.kind == PatchKind::Strategic);
        let mut complaints = complaints.to_vec();
        if quoting.is_some() && !is_strategic && !definition.is_custom() {
            complaints.extend(unversioned(&mut patched));
        }
        if !is_strategic {
            same_kind(definition, &patched).map_err(unfit)?;
        }
        let difference = match live.canonical(definition) {
            Value::Null => Difference::Everywhere,
            canonical => difference.unwrap_or_else(|| Difference::between(canonical, &patched)),
        };
        let read = canonicalize_changed(&definition.schema, definition.type_id, patched, &difference);
        let read = read.map_err(|error| {
            unfit(if is_strategic {
                error.into_conversion()
            } else {
                error.message
            })
        })?;
        complaints.extend(read.unknown.iter().map(ToString::to_string));
        match context.field_validation {
            FieldValidation::Strict if !complaints.is_empty() => {
                return Err(unfit(format!("strict decoding error: {}", complaints.join(", "))));
            }
            FieldValidation::Warn => complaints.iter().for_each(|text| context.warnings.add(text)),
            _ => {}
        }
        let mut object = read.value;
        metadata::match_namespace(definition, &mut object, namespace)?;
        metadata::match_name(&object, name)?;
        object["apiVersion"] = definition.api_version.as_str().into();
        object["kind"] = definition.resource.kind.as_ref().into();
        let now = timestamp(self.clock().now());
        definition.default(&mut object, &difference, &now);
        Ok(object)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(crate) async fn apply(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        part: Part,
        mut config: Value,
        force: bool,
        context: &WriteContext,
    ) -> Result<Written, Status> {
        let stated = (context.manager == last_applied::INHERITOR).then(|| config.clone());
        metadata::match_namespace(definition, &mut config, namespace)?;
        if metadata::text(&config, "name").is_empty() {
            metadata::of(&mut config).insert("name".to_owned(), name.into());
        }
        let writer = context.writer(definition, part.subresource(), self.clock().now());
        let (schema, root) = (&*definition.schema, definition.type_id);
        let endpoint = Endpoint {
            reset: definition.reset_fields(part),
            versions: definition.versions(),
        };
        let apply_to = |live: &Live| -> Result<(Value, Managers), Status> {
            let managers = live.managers.clone();
            let live_value = &live.value;
            let applied = apply::apply(
                schema, root, live_value, managers, &config, &endpoint, &writer, force,
            );
            let mut applied = applied.map_err(|error| refused(definition, name, error))?;
            let difference = match &stated {
                None => Some(applied.difference),
                Some(stated) => {
                    last_applied::refresh(&mut applied.object, stated);
                    None
                }
            };
            let object = self.read_patched(
                definition,
                namespace,
                name,
                applied.object,
                live,
                difference,
                &[],
                None,
                context,
            )?;
            Ok((object, applied.managers))
        };
        let missing = self.find(definition, namespace, name).await?.is_none();
        if missing && part == Part::Object {
            if !metadata::text(&config, "uid").is_empty() {
                return Err(uid_of_nothing(definition, name, metadata::text(&config, "uid")));
            }
            let nothing = Live {
                value: empty_object(schema, root),
                managers: Managers::new(),
            };
            let (object, managers) = apply_to(&nothing)?;
            let stored = self
                .store_new(writing, definition, namespace, object, managers, context)
                .await;
            if let Some(written) = Written::as_new(stored)? {
                return Ok(written);
            }
        }
        let propose = |live: &Live| {
            let (object, managers) = apply_to(live)?;
            Ok(Proposal {
                object,
                managed: Managed::By(managers),
            })
        };
        let object = self
            .change(writing, definition, namespace, name, part, context, propose)
            .await?;
        Ok(Written {
            object,
            created: false,
        })
    }
}

/// A patch whose result may have to be shown to its author.
#[derive(Clone, Copy)]
struct Quoting<'a> {
    kind: PatchKind,
    live: &'a Live,
    patch: &'a Value,
}

impl Quoting<'_> {
    /// The result, or what Kubernetes shows instead. It is worked out anew: nearly all patches are fit.
    fn text(&self, definition: &Definition) -> String {
        let (schema, root) = (&*definition.schema, definition.type_id);
        let result = || patched(definition, self.kind, self.live.whole(), self.patch).unwrap_or_default();
        match self.kind {
            PatchKind::Json => quoted::patched(schema, root, &result(), self.patch),
            PatchKind::Strategic => go_value(self.patch),
            PatchKind::Merge | PatchKind::Apply { .. } => quoted::merged(schema, root, &result(), self.patch),
        }
    }
}

/// Whether a patch changes managed fields, or asks for them. They are added to the object only for those that do.
fn speaks_of_managed_fields(kind: PatchKind, patch: &Value) -> bool {
    const NAME: &str = "managedFields";
    if kind != PatchKind::Json {
        // Directives of a strategic patch have the name in theirs.
        let mut fields = patch["metadata"].as_object().into_iter().flatten();
        return fields.any(|(name, _)| name.ends_with(NAME));
    }
    let operations = patch.as_array().into_iter().flatten();
    let paths = operations.flat_map(|operation| [&operation["path"], &operation["from"]]);
    let mut paths = paths.filter_map(Value::as_str);
    paths.any(|path| {
        let mut steps = path.split('/').skip(1);
        steps.next().is_none_or(|step| step == "metadata") && steps.next().is_none_or(|step| step == NAME)
    })
}

/// What strict reading finds in a patch itself.
fn complaints(kind: PatchKind, patch: &watchkeeper_wire::canonical::Body) -> Vec<String> {
    let duplicates = patch.duplicates.iter().map(ToString::to_string);
    if kind != PatchKind::Json {
        return duplicates.collect();
    }
    let unknown = json_patch::unknown_members(&patch.value).map(|path| format!("unknown field {path:?}"));
    duplicates
        .chain(unknown)
        .map(|text| format!("json patch {text}"))
        .collect()
}

/// Without a version, Go takes an object for one of its internal structs, which have no fields by these names.
fn unversioned(patched: &mut Value) -> Vec<String> {
    let Some(fields) = patched.as_object_mut() else {
        return Vec::new();
    };
    if fields.get("apiVersion").is_some_and(|version| version != "") {
        return Vec::new();
    }
    let unknown = fields
        .keys()
        .filter(|name| !matches!(name.as_str(), "apiVersion" | "kind"));
    let unknown = unknown.map(|name| format!("unknown field {name:?}")).collect();
    fields.retain(|name, _| name == "kind");
    unknown
}

/// Refuses an object that says it is of another kind.
fn same_kind(definition: &Definition, patched: &Value) -> Result<(), String> {
    let text = |name: &str| {
        patched
            .get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let kind = text("kind").unwrap_or(&definition.resource.kind);
    let api_version = text("apiVersion").unwrap_or(&definition.api_version);
    match definition.schema.kind(api_version, kind) {
        None => Err(unknown_kind(api_version, kind)),
        Some(_) if kind != definition.resource.kind => Err(unknown_conversion(definition, kind)),
        Some(_) => Ok(()),
    }
}

/// A patch cannot mean another object by a uid, as a PUT can; it would change the uid.
fn same_uid(definition: &Definition, live: &Value, patched: &Value) -> Result<(), Status> {
    let (uid, stated) = (metadata::text(live, "uid"), metadata::text(patched, "uid"));
    if stated.is_empty() || stated == uid {
        return Ok(());
    }
    let path = FieldPath::new("metadata").child("uid");
    accept(
        definition,
        live,
        &FieldError::invalid(&path, stated, "field is immutable").into(),
    )
}

/// Refuses a patch of the wrong JSON type, in Go's words.
pub(crate) fn check_shape(kind: PatchKind, patch: &Value) -> Result<(), Status> {
    let (fits, wanted) = match kind {
        PatchKind::Json => (patch.is_array(), "[]handlers.jsonPatchOp"),
        _ => (patch.is_object(), "map[string]interface {}"),
    };
    // Go reads null into anything.
    if fits || patch.is_null() {
        return Ok(());
    }
    let found = json_type(patch);
    let text = format!("error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}");
    Err(Status::bad_request(text))
}

pub(crate) fn patched(
    definition: &Definition,
    kind: PatchKind,
    live: Value,
    patch: &Value,
) -> Result<Value, Status> {
    let mut object = live;
    match kind {
        PatchKind::Json => match json_patch::apply(&mut object, patch) {
            Ok(()) => Ok(object),
            Err(error @ JsonPatchError::TooManyOperations { .. }) => {
                Err(Status::request_entity_too_large(error))
            }
            Err(error) => {
                tracing::debug!(%error, "JSON patch does not apply");
                Err(rejected())
            }
        },
        PatchKind::Strategic => {
            let (Value::Object(fields), Value::Object(patch)) = (&mut object, patch) else {
                return Ok(object);
            };
            match strategic::apply(&definition.schema, definition.type_id, fields, patch.clone()) {
                Ok(()) => Ok(object),
                Err(error) if error.is_bad_request() => Err(Status::bad_request(error.to_string())),
                Err(error) => Err(Status::unclassified(error.to_string())),
            }
        }
        _ => {
            merge_patch::apply(&mut object, patch);
            Ok(object)
        }
    }
}

/// All that Kubernetes says about a JSON patch that does not apply.
fn rejected() -> Status {
    let text = "the server rejected our request due to an error in our request";
    let mut status = Status::failure(422, StatusReason::INVALID, text);
    status.details = Some(Box::default());
    status
}

/// The body of an apply.
pub(crate) struct Configuration {
    /// What it says; of a key that stands twice the last counts.
    pub(crate) value: Value,
    /// Whether it is JSON in which no key stands twice, as nearly all are.
    pub(crate) is_tidy: bool,
}

/// Reads the body of an apply.
pub(crate) fn read_configuration(patch: &[u8]) -> Result<Configuration, Status> {
    // Most clients send JSON, which is YAML too, and much quicker to read.
    if let Ok(Body { value, duplicates }) = read_body(patch) {
        let is_tidy = duplicates.is_empty();
        return Ok(Configuration { value, is_tidy });
    }
    let document = yaml::first_document(patch, yaml::Mode::Lenient);
    let bad = |error: YamlError| Status::bad_request(format!("error decoding patch: {}", to_json(&error)));
    Ok(Configuration {
        value: document.map_err(bad)?.value,
        is_tidy: false,
    })
}

/// Refuses, or warns of, keys that stand twice. Reads the body once more: few are not [tidy](Configuration::is_tidy).
pub(crate) fn complain_of_repeated_keys(patch: &[u8], context: &WriteContext) -> Result<(), Status> {
    if context.field_validation == FieldValidation::Ignore {
        return Ok(());
    }
    let Err(error) = yaml::first_document(patch, yaml::Mode::Strict) else {
        return Ok(());
    };
    if context.field_validation == FieldValidation::Strict {
        let text = format!("error strict decoding patch: {}", to_json(&error));
        return Err(Status::bad_request(text));
    }
    let complaints = error.to_go_string();
    let (_, lines) = complaints.split_once('\n').unwrap_or(("", &complaints));
    lines.lines().for_each(|line| context.warnings.add(line.trim()));
    Ok(())
}

/// How Kubernetes says that YAML cannot be read.
fn to_json(error: &YamlError) -> String {
    format!("error converting YAML to JSON: {}", error.to_go_string())
}

/// Refuses what cannot be applied to objects of a kind.
fn check_configuration(definition: &Definition, config: &Value) -> Result<(), Status> {
    let is_other = text_of(config, "kind") != definition.resource.kind
        || text_of(config, "apiVersion") != definition.api_version;
    if !config.is_object() || is_other {
        return Err(other_kind(config));
    }
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// What a client hears who applies an object of another kind.
pub(crate) fn other_kind(config: &Value) -> Status {
    let version = text_of(config, "apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = text_of(config, "kind");
    Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}"))
}

fn text_of<'v>(config: &'v Value, field: &str) -> &'v str {
    config.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// What a client hears whose configuration is not applied.
fn refused(definition: &Definition, name: &str, error: ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let count = conflicts.entries().len();
            let noun = if count == 1 { "conflict" } else { "conflicts" };
            let causes = conflicts.entries().iter().map(|conflict| StatusCause {
                reason: "FieldManagerConflict".into(),
                message: conflict.message(),
                field: conflict.field.clone(),
            });
            let text = format!("Apply failed with {count} {noun}: {conflicts}");
            Status::apply_conflict(text, causes.collect())
        }
        ApplyError::Configuration(error) => {
            let kind = definition.resource.group_version_kind();
            let text = format!("failed to create typed patch object (/{name}; {kind}): {error}");
            Status::unclassified(text)
        }
    }
}

fn uid_of_nothing(definition: &Definition, name: &str, uid: &str) -> Status {
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Status::conflict(&definition.group_resource(), name, why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_added_for_patches_that_speak_of_them() {
        let check = |kind, patch: Value, speaks| {
            assert_eq!(speaks_of_managed_fields(kind, &patch), speaks, "{patch}");
        };
        let json = |path: &str| json!([{"op": "test", "path": path}]);
        check(PatchKind::Json, json("/spec/replicas"), false);
        check(PatchKind::Json, json("/metadata/labels/a"), false);
        check(PatchKind::Json, json(""), true);
        check(PatchKind::Json, json("/metadata"), true);
        check(PatchKind::Json, json("/metadata/managedFields/0/manager"), true);
        let copied = json!([{"op": "copy", "from": "/metadata", "path": "/data"}]);
        check(PatchKind::Json, copied, true);
        check(PatchKind::Merge, json!({"metadata": {"labels": {}}}), false);
        check(
            PatchKind::Merge,
            json!({"metadata": {"managedFields": null}}),
            true,
        );
        let ordered = json!({"metadata": {"$setElementOrder/managedFields": []}});
        check(PatchKind::Strategic, ordered, true);
    }
}
