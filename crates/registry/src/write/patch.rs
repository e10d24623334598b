//! PATCH, based on the same change loop as PUT. For apply see [`apply`](super::apply).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::{
    FieldError, FieldPath, FieldValidation, GroupKind, PatchKind, Status, StatusReason, go_json,
};
use watchkeeper_patch::go_text::go_value;
use watchkeeper_patch::json_patch::{self, JsonPatchError};
use watchkeeper_patch::strategic::{self, StrategicError};
use watchkeeper_patch::{merge_patch, quoted};
use watchkeeper_wire::canonical::{canonicalize_changed, json_type, read_body};
use watchkeeper_wire::difference::Difference;

use super::draft::{Managed, Proposal};
use super::{Target, Write, Written};
use crate::body::{unknown_conversion, unknown_kind};
use crate::context::{WriteContext, accept, timestamp};
use crate::definition::Definition;
use crate::object::{Live, StoredObject};
use crate::{Registry, metadata};

/// A decoded patch.
pub(super) struct Patch<'a> {
    pub(super) kind: PatchKind,
    pub(super) value: &'a Value,
    /// The errors of strict decoding in the patch itself.
    pub(super) strict_errors: &'a [String],
}

impl Registry {
    /// Patches an object, or one part of it.
    pub fn patch<'a>(
        &'a self,
        definition: &'a Arc<Definition>,
        namespace: &'a str,
        name: &'a str,
        part: Part,
        (kind, patch): (PatchKind, &'a [u8]),
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<Written, Status>> {
        Box::pin(async move {
            let target = Target::new(definition, namespace, name, part);
            let mut write = Write::begin(self, target, context).await?;
            let written = match kind {
                // Boxed, like the general path below: small patches should not carry their state.
                PatchKind::Apply => write.apply_body(patch).await?,
                kind => write.patch(kind, patch).await?,
            };
            write.end().await?;
            Ok(written)
        })
    }
}

impl<'r> Write<'r> {
    /// Patches the object, on the fast path if possible.
    async fn patch(&mut self, kind: PatchKind, patch: &[u8]) -> Result<Written, Status> {
        let patch = read_body(patch).map_err(|_| Status::bad_request("invalid JSON patch"))?;
        check_shape(kind, &patch.value)?;
        let strict_errors = strict_errors(kind, &patch);
        let patch = Patch {
            kind,
            value: &patch.value,
            strict_errors: &strict_errors,
        };
        let short_cut = match strict_errors.is_empty() {
            true => self.patch_metadata(&patch).await,
            false => None,
        };
        let object = match short_cut {
            Some(patched) => patched?,
            None => self.patch_whole(&patch).await?,
        };
        Ok(Written {
            object,
            created: false,
        })
    }

    /// Patches the object on the general path, which handles every patch but an apply.
    pub(super) fn patch_whole<'a>(
        &'a mut self,
        patch: &'a Patch<'a>,
    ) -> BoxFuture<'a, Result<StoredObject, Status>> {
        Box::pin(async move {
            let reader = self.reader();
            let propose = |live: &Live| {
                let start = match speaks_of_managed_fields(patch.kind, patch.value) {
                    true => live.whole(),
                    false => live.value.clone(),
                };
                let result = patched(&reader.definition, patch.kind, start, patch.value)?;
                let object = reader.read(result, live, None, Some(patch))?;
                same_uid(&reader.definition, &live.value, &object)?;
                Ok(Proposal {
                    object,
                    managed: Managed::ByChange,
                })
            };
            self.change(propose).await
        })
    }

    /// The decoder for the result of a patch.
    pub(super) fn reader(&self) -> PatchedReader<'r> {
        PatchedReader {
            definition: self.definition.clone(),
            namespace: self.namespace,
            name: self.name,
            context: self.context,
            now: timestamp(self.registry.clock().now()),
        }
    }
}

/// Decodes the result of a patch.
pub(super) struct PatchedReader<'r> {
    pub(super) definition: Arc<Definition>,
    namespace: &'r str,
    name: &'r str,
    context: &'r WriteContext,
    now: String,
}

impl PatchedReader<'_> {
    /// The object in canonical form, with defaults. `difference` is that from the live object, if known. If the
    /// result is invalid, the error quotes `patch`, if given; an apply is not quoted.
    pub(super) fn read(
        &self,
        mut patched: Value,
        live: &Live,
        difference: Option<Difference>,
        patch: Option<&Patch<'_>>,
    ) -> Result<Value, Status> {
        let definition = &*self.definition;
        let unfit = |why: String| {
            let quoted = patch.map(|patch| quoted_result(definition, patch, live));
            let error = FieldError::invalid(&FieldPath::new("patch"), quoted.unwrap_or_default(), why);
            Status::invalid(&GroupKind::new("", ""), "", &error.into())
        };
        let is_strategic = patch.is_some_and(|patch| patch.kind == PatchKind::Strategic);
        let mut strict_errors = patch
            .map(|patch| patch.strict_errors.to_vec())
            .unwrap_or_default();
        if patch.is_some() && !is_strategic && !definition.is_custom() {
            strict_errors.extend(unversioned(&mut patched));
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
            unfit(match is_strategic {
                true => error.into_conversion(),
                false => error.message,
            })
        })?;
        self.context.emptied.set(read.emptied);
        strict_errors.extend(read.unknown.iter().map(ToString::to_string));
        match self.context.field_validation {
            FieldValidation::Strict if !strict_errors.is_empty() => {
                return Err(unfit(format!(
                    "strict decoding error: {}",
                    strict_errors.join(", ")
                )));
            }
            FieldValidation::Warn => strict_errors
                .iter()
                .for_each(|text| self.context.warnings.add(text)),
            _ => {}
        }
        let mut object = read.value;
        metadata::match_namespace(definition, &mut object, self.namespace)?;
        metadata::match_name(&object, self.name)?;
        object["apiVersion"] = definition.api_version.as_str().into();
        object["kind"] = definition.resource.kind.as_ref().into();
        definition
            .default(&mut object, &difference, &self.now)
            .map_err(Status::request_entity_too_large)?;
        Ok(object)
    }
}

/// The text that Kubernetes quotes for an invalid result. Computed again, because nearly all results are valid.
fn quoted_result(definition: &Definition, patch: &Patch<'_>, live: &Live) -> String {
    let (schema, root) = (&*definition.schema, definition.type_id);
    let result = || patched(definition, patch.kind, live.whole(), patch.value).unwrap_or_default();
    if definition.is_custom() && patch.kind != PatchKind::Strategic {
        // For Kubernetes custom objects are maps, sorted by name throughout.
        return go_json(&result());
    }
    match patch.kind {
        PatchKind::Json => quoted::patched(schema, root, &result(), patch.value),
        PatchKind::Strategic => go_value(patch.value),
        PatchKind::Merge | PatchKind::Apply => quoted::merged(schema, root, &result(), patch.value),
    }
}

/// True if a patch changes or tests managed fields. Only for those they are added to the object.
fn speaks_of_managed_fields(kind: PatchKind, patch: &Value) -> bool {
    const NAME: &str = "managedFields";
    if kind != PatchKind::Json {
        // The names of strategic merge directives contain that of their field.
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

/// The errors of strict decoding in a patch itself.
fn strict_errors(kind: PatchKind, patch: &watchkeeper_wire::canonical::Body) -> Vec<String> {
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

/// Without a version, Go decodes an object into an internal struct, which has no fields with these names.
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

/// Rejects an object that states another kind.
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

/// A different uid in a patch is a change of the uid; in a PUT it means another object.
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

/// Rejects a patch of the wrong JSON type, with Go's error text.
pub(crate) fn check_shape(kind: PatchKind, patch: &Value) -> Result<(), Status> {
    let (fits, wanted) = match kind {
        PatchKind::Json => (patch.is_array(), "[]handlers.jsonPatchOp"),
        _ => (patch.is_object(), "map[string]interface {}"),
    };
    // Go decodes null into any type.
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
            Err(error @ (JsonPatchError::TooManyOperations { .. } | JsonPatchError::TooManySteps)) => {
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
                Err(error @ StrategicError::TooLarge) => Err(Status::request_entity_too_large(error)),
                Err(StrategicError::ListOfLists) => Err(rejected()),
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

/// Kubernetes' error for a JSON patch that does not apply, or a list of lists to merge.
fn rejected() -> Status {
    let text = "the server rejected our request due to an error in our request";
    let mut status = Status::failure(422, StatusReason::INVALID, text);
    status.details = Some(Box::default());
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_added_for_patches_that_concern_them() {
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
