//! A stored object, and the forms it is sent in.
//!
//! Built-in objects are stored as in Kubernetes' etcd: a protobuf envelope without a resourceVersion, which is the
//! revision of the write. It is inserted while the bytes are copied out. Custom objects are stored as JSON, see
//! [`custom`].

pub(crate) mod custom;

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};
use watchkeeper_meta::{Header, Status};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_storage::{KeyValue, Revision};
use watchkeeper_wire::protobuf::primitive::{ProtobufError, field_len};
use watchkeeper_wire::protobuf::resource_version::Apart;
use watchkeeper_wire::protobuf::{Envelope, Message, encode_message, header, managed_fields};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::definition::Definition;
use crate::metadata;

/// The sent part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The whole object.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// A stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The envelope, or the JSON text of a custom object.
    pub bytes: Bytes,
    /// Its version; `None` for the result of a dry run.
    pub revision: Option<Revision>,
}

/// The live object of a write. Managed fields are kept apart from the value: they are processed as field sets, and as
/// a JSON value would be as large as the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// The object with its version, without `metadata.managedFields`.
    pub(crate) value: Value,
    pub(crate) managers: Managers,
}

/// The type of an object with only metadata. Every kind has its metadata in the same field.
pub(crate) static METADATA_ONLY: LazyLock<Option<TypeId>> =
    LazyLock::new(|| Schema::builtin().type_named("meta/v1.PartialObjectMetadata"));

impl Live {
    /// The object, if it is in canonical form, that is, read from the store and not converted since. Otherwise null.
    pub(crate) fn canonical(&self, definition: &Definition) -> &Value {
        let is_stored = !metadata::text(&self.value, "uid").is_empty();
        match is_stored && definition.conversion.is_none() {
            true => &self.value,
            false => &Value::Null,
        }
    }

    /// The object including managed fields, for a patch that changes them.
    pub(crate) fn whole(&self) -> Value {
        let mut whole = self.value.clone();
        self.managers.write_to(&mut whole);
        whole
    }
}

impl From<&KeyValue> for StoredObject {
    fn from(found: &KeyValue) -> Self {
        Self {
            bytes: found.value.bytes(),
            revision: Some(found.mod_revision),
        }
    }
}

impl StoredObject {
    /// Encodes a value without managed fields, and its managers, for the store.
    pub(crate) fn encode(
        definition: &Definition,
        value: &Value,
        managers: &Managers,
    ) -> Result<Bytes, Status> {
        if let Some(custom) = &definition.custom {
            return custom::encode(definition, custom, value, managers);
        }
        let broken = |error: &dyn std::fmt::Display| Status::internal_error(error);
        let api_version = definition.stored_api_version();
        let raw = match definition.conversion {
            None => encode_message(&definition.schema, definition.type_id, value),
            Some(conversion) => {
                let stored = conversion.to_stored(value.clone());
                let kind = definition.schema.kind(api_version, &definition.resource.kind);
                encode_message(&definition.schema, kind.unwrap_or(definition.type_id), &stored)
            }
        };
        let raw = raw.map_err(|error| broken(&error))?;
        // The store assigns the version; a value read from the store has an old one.
        let managed: Vec<Vec<u8>> = managers.to_stored().collect();
        let managed_bytes = managed.iter().map(|entry| entry.len() + 8).sum::<usize>();
        let mut unstamped = Vec::with_capacity(raw.len() + managed_bytes);
        let apart = Apart::of(&raw).map_err(|error| broken(&error))?;
        apart.write_metadata("", &managed, &mut unstamped);
        unstamped.extend_from_slice(apart.rest);
        let envelope = Envelope {
            api_version,
            kind: &definition.resource.kind,
            raw: &unstamped,
        };
        let mut bytes = Vec::with_capacity(unstamped.len() + 64);
        envelope.write(&mut bytes);
        Ok(bytes.into())
    }

    /// The object under any key of the store, of any kind, as a value without a version. `None` if it is not an
    /// object.
    pub fn read_any(stored: &[u8]) -> Option<Value> {
        let message = Message::open(Schema::builtin(), stored).and_then(|message| message.to_value());
        let value: Value = message.ok().or_else(|| serde_json::from_slice(stored).ok())?;
        value.get("kind").is_some().then_some(value)
    }

    /// The object as a value, with its version.
    pub fn to_value(&self, definition: &Definition) -> Result<Value, Status> {
        if definition.is_custom() {
            return custom::to_value(definition, self);
        }
        let value = Message::open(&definition.schema, &self.bytes).and_then(|message| message.to_value());
        let value = value.map_err(|error| self.damaged(definition, &error))?;
        Ok(self.served(definition, value))
    }

    /// The live object of a write. Unreadable managed fields are treated as empty.
    pub(crate) fn to_live(&self, definition: &Definition) -> Result<Live, Status> {
        if definition.is_custom() {
            return custom::to_live(definition, self);
        }
        let read = || -> Result<Live, ProtobufError> {
            let envelope = Envelope::read(&self.bytes)?;
            let message = Message::of_kind(
                &definition.schema,
                envelope.api_version,
                envelope.kind,
                envelope.raw,
            )?;
            let entries = managed_fields::entries(envelope.raw)?;
            Ok(Live {
                value: message.to_value_without_managed_fields()?,
                managers: Managers::from_stored(entries).unwrap_or_default(),
            })
        };
        let mut live = read().map_err(|error| self.damaged(definition, &error))?;
        live.value = self.served(definition, live.value);
        Ok(live)
    }

    /// Converts a stored value to the served version and sets its resourceVersion.
    fn served(&self, definition: &Definition, mut value: Value) -> Value {
        if let Some(conversion) = definition.conversion {
            value = conversion.to_served(value);
        }
        if let Some(completion) = definition.kind.completion {
            (completion.value)(&mut value);
        }
        if let Some(revision) = self.revision {
            value["metadata"]["resourceVersion"] = json!(revision.to_string());
        }
        value
    }

    /// True if the object was stored in the current storage version. If not, even a no-op write stores it again: this
    /// is how storage is migrated.
    pub(crate) fn is_in_stored_version(&self, definition: &Definition) -> bool {
        let Some(custom) = &definition.custom else {
            return true;
        };
        let header = custom::header(definition, self);
        header.is_ok_and(|header| header.api_version == custom.stored_api_version)
    }

    /// The object's header, without a version.
    pub fn header(&self, definition: &Definition) -> Result<Header<'_>, Status> {
        if definition.is_custom() {
            return custom::header(definition, self);
        }
        let read = Envelope::read(&self.bytes).and_then(|envelope| header::header(envelope.raw));
        read.map_err(|error| self.damaged(definition, &error))
    }

    /// The object's message with its version, without an envelope.
    pub fn message(&self, definition: &Definition) -> Result<Vec<u8>, Status> {
        Ok(self.shown(definition, View::Whole)?.to_vec())
    }

    /// The part of the object's message in a view, with its version, without an envelope.
    pub(crate) fn shown(&self, definition: &Definition, view: View) -> Result<ShownMessage<'_>, Status> {
        let is_cleaned = view == View::Metadata && definition.kind.drop_alien_metadata.is_some();
        if is_cleaned || !definition.stores_messages() {
            return self.converted(definition, view).map(ShownMessage::Converted);
        }
        let mut apart = self.apart(definition)?;
        if view == View::Metadata {
            // Metadata is the first field of every kind, and the only one in this view.
            apart.rest = &[];
        }
        let version = self.version();
        Ok(ShownMessage::Stored { apart, version })
    }

    /// The message of an object that is served in another version than it is stored.
    fn converted(&self, definition: &Definition, view: View) -> Result<Vec<u8>, Status> {
        let mut value = self.to_value(definition)?;
        let encoded = match (view, *METADATA_ONLY) {
            (View::Metadata, Some(metadata_alone)) => {
                definition.bare_metadata(&mut value["metadata"]);
                encode_message(Schema::builtin(), metadata_alone, &value)
            }
            _ => encode_message(&definition.schema, definition.type_id, &value),
        };
        encoded.map_err(Status::internal_error)
    }

    fn apart(&self, definition: &Definition) -> Result<Apart<'_>, Status> {
        let apart = Envelope::read(&self.bytes).and_then(|envelope| Apart::of(envelope.raw));
        apart.map_err(|error| self.damaged(definition, &error))
    }

    /// The resourceVersion; empty if there is none.
    fn version(&self) -> String {
        self.revision
            .map(|revision| revision.to_string())
            .unwrap_or_default()
    }

    fn damaged(&self, definition: &Definition, error: &ProtobufError) -> Status {
        tracing::error!(resource = %definition.group_resource(), %error, "stored object cannot be read");
        Status::internal_error(format_args!(
            "stored {} cannot be read: {error}",
            definition.resource.kind
        ))
    }
}

/// The message of an object to send. Its length is known before it is copied.
pub(crate) enum ShownMessage<'a> {
    /// As stored, except for its version.
    Stored { apart: Apart<'a>, version: String },
    /// Converted to another version.
    Converted(Vec<u8>),
}

impl ShownMessage<'_> {
    /// The number of bytes that [`write`](Self::write) appends.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Stored { apart, version } => field_len(apart.metadata_len(version, &[])) + apart.rest.len(),
            Self::Converted(message) => message.len(),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Stored { apart, version } => {
                apart.write_metadata(version, &[], out);
                out.extend_from_slice(apart.rest);
            }
            Self::Converted(message) => out.extend_from_slice(message),
        }
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.len());
        self.write(&mut message);
        message
    }
}
