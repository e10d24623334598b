//! Stored custom objects: JSON with sorted keys, as Go prints maps.
//!
//! Nearly every object was written under the current schema, in the requested version: its bytes are copied and its
//! version is inserted. An older object is decoded, pruned and defaulted first, like a request body.

use bytes::Bytes;
use serde_json::{Value, json};
use watchkeeper_kinds::custom::CustomVersion;
use watchkeeper_meta::{Header, Status};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_storage::Revision;
use watchkeeper_wire::canonical::canonicalize;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::json::{self, JsonError};
use watchkeeper_wire::schema::TypeId;

use super::{Live, StoredObject};
use crate::definition::Definition;
use crate::metadata;

/// Encodes a value without managed fields, and its managers, for the store.
pub(crate) fn encode(
    definition: &Definition,
    custom: &CustomVersion,
    value: &Value,
    managers: &Managers,
) -> Result<Bytes, Status> {
    let mut stored = value.clone();
    managers.write_to(&mut stored);
    encode_whole(definition, custom, stored)
}

/// Encodes a value with its managed fields, which may be in the stored version already.
pub(crate) fn encode_whole(
    definition: &Definition,
    custom: &CustomVersion,
    mut stored: Value,
) -> Result<Bytes, Status> {
    if let Some(id) = custom.stored_type().filter(|id| *id != definition.type_id) {
        stored = fitted(definition, id, stored)?;
    }
    metadata::of(&mut stored).remove("resourceVersion");
    stored["apiVersion"] = json!(custom.stored_api_version);
    let bytes = serde_json::to_vec(&stored).map_err(Status::internal_error)?;
    Ok(bytes.into())
}

/// The object as served, with its version.
pub(crate) fn to_value(definition: &Definition, object: &StoredObject) -> Result<Value, Status> {
    let mut value: Value =
        serde_json::from_slice(&object.bytes).map_err(|error| damaged(definition, &error))?;
    if !is_current(definition, &value, object.revision) {
        value = upgraded(definition, value)?;
    }
    if let Some(revision) = object.revision {
        metadata::of(&mut value).insert("resourceVersion".to_owned(), json!(revision.to_string()));
    }
    Ok(value)
}

/// The live object of a write. Unreadable managed fields are treated as empty.
pub(crate) fn to_live(definition: &Definition, object: &StoredObject) -> Result<Live, Status> {
    let mut value = to_value(definition, object)?;
    let managers = Managers::of(&value).unwrap_or_default();
    metadata::take_managed_fields(&mut value);
    Ok(Live { value, managers })
}

/// The object's header, without a version.
pub(crate) fn header<'o>(definition: &Definition, object: &'o StoredObject) -> Result<Header<'o>, Status> {
    json::header(&object.bytes).map_err(|error| damaged(definition, &error))
}

/// Writes the object as served.
pub(crate) fn write(definition: &Definition, object: &StoredObject, out: &mut Vec<u8>) -> Result<(), Status> {
    let is_current = definition.custom.as_ref().is_some_and(|custom| {
        custom.stored_api_version == definition.api_version
            && definition.shows(&definition.api_version, object.revision)
    });
    let is_stated = || -> Result<bool, JsonError> {
        Ok(json::header(&object.bytes)?.api_version == definition.api_version)
    };
    if is_current && is_stated().map_err(|error| damaged(definition, &error))? {
        let Some(revision) = object.revision else {
            out.extend_from_slice(&object.bytes);
            return Ok(());
        };
        return json::resource_version::copy_with(&object.bytes, &revision.to_string(), out)
            .map_err(|error| damaged(definition, &error));
    }
    let value = to_value(definition, object)?;
    serde_json::to_writer(out, &value).map_err(Status::internal_error)
}

/// True if a stored value can be served unchanged.
fn is_current(definition: &Definition, value: &Value, revision: Option<Revision>) -> bool {
    let stated = value["apiVersion"].as_str().unwrap_or_default();
    let custom = definition.custom.as_ref();
    stated == definition.api_version && custom.is_some() && definition.shows(stated, revision)
}

/// Converts an object that was stored in another version or under an older schema.
fn upgraded(definition: &Definition, mut value: Value) -> Result<Value, Status> {
    if value["apiVersion"] == *definition.api_version {
        return fitted(definition, definition.type_id, value);
    }
    // Defaults are those of the stored version. The served version only removes unknown fields.
    let stored = definition.custom.as_ref();
    let stored = stored.filter(|custom| value["apiVersion"] == *custom.stored_api_version);
    if let Some(id) = stored.and_then(|custom| custom.stored_type()) {
        value = fitted(definition, id, value)?;
    }
    let read = canonicalize(&definition.schema, definition.type_id, value);
    let mut value = read.map_err(Status::internal_error)?.value;
    value["apiVersion"] = json!(definition.api_version);
    Ok(value)
}

/// Prunes an object to the schema of one version, and applies its defaults.
fn fitted(definition: &Definition, id: TypeId, value: Value) -> Result<Value, Status> {
    let read = canonicalize(&definition.schema, id, value).map_err(Status::internal_error)?;
    let mut value = read.value;
    let filled =
        watchkeeper_kinds::fill_from_schema(&definition.schema, id, &mut value, &Difference::Everywhere);
    filled.map_err(Status::internal_error)?;
    Ok(value)
}

fn damaged(definition: &Definition, error: &dyn std::fmt::Display) -> Status {
    tracing::error!(resource = %definition.group_resource(), %error, "stored object cannot be read");
    Status::internal_error(format_args!(
        "stored {} cannot be read: {error}",
        definition.resource.kind
    ))
}
