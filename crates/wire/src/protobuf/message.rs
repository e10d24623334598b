//! A message and what it is: opened from an envelope or named by the caller, and then read in any of three ways.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::de::{Context, MessageDeserializer};
use super::envelope::Envelope;
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader};
use super::{reorder, special, text};
use crate::schema::{Schema, TypeId};

/// An object's message beside its type.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    schema: &'a Schema,
    id: TypeId,
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Message<'a> {
    /// Opens an enveloped body.
    pub fn open(schema: &'a Schema, body: &'a [u8]) -> Result<Self, ProtobufError> {
        let envelope = Envelope::read(body)?;
        Self::of_kind(schema, envelope.api_version, envelope.kind, envelope.raw)
    }

    /// A message without envelope, such as the item of a list, whose kind is known.
    pub fn of_kind(
        schema: &'a Schema,
        api_version: &'a str,
        kind: &'a str,
        raw: &'a [u8],
    ) -> Result<Self, ProtobufError> {
        let id = schema.kind(api_version, kind);
        let id = id.ok_or_else(|| special::unknown_kind(api_version, kind, 0))?;
        Ok(Self {
            schema,
            id,
            api_version,
            kind,
            raw,
        })
    }

    /// A message of a type that has no kind of its own, or whose kind is not to be shown.
    pub fn of_type(schema: &'a Schema, id: TypeId, raw: &'a [u8]) -> Self {
        Self {
            schema,
            id,
            api_version: "",
            kind: "",
            raw,
        }
    }

    /// Reads the message into any type that reads from the JSON form.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ProtobufError> {
        self.in_order(|raw| Ok(T::deserialize(self.deserializer(raw))?))
    }

    /// The message as a JSON value.
    pub fn to_value(&self) -> Result<Value, ProtobufError> {
        self.decode()
    }

    /// Appends the message as JSON text on one line, without a value in between. After an error, what was
    /// appended is taken back.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
        let start = out.len();
        let mut write = |raw: &[u8]| {
            out.truncate(start);
            text::write_json(self.schema, self.id, self.identity(), raw, out)
        };
        let done = self.in_order(&mut write);
        if done.is_err() {
            out.truncate(start);
        }
        done
    }

    /// The message as JSON text on one line.
    pub fn to_json(&self) -> Result<Vec<u8>, ProtobufError> {
        // JSON repeats the names of its fields: a pod takes a third more room than in protobuf.
        let mut out = Vec::with_capacity(self.raw.len() * 3 / 2 + 64);
        self.write_json(&mut out)?;
        Ok(out)
    }

    fn identity(&self) -> Option<(&'a str, &'a str)> {
        let has_identity = !self.kind.is_empty() && self.schema[self.id].is_object;
        has_identity.then_some((self.api_version, self.kind))
    }

    fn deserializer<'b>(&'b self, raw: &'b [u8]) -> MessageDeserializer<'b, 'b> {
        MessageDeserializer {
            context: Context::new(self.schema),
            id: self.id,
            reader: Reader::new(raw),
            identity: self.identity(),
        }
    }

    /// Tries the message as it is. Only if its fields turn out to be in another order than Go's, which no known
    /// writer leaves them in, it is copied into order and tried again.
    fn in_order<T>(
        &self,
        mut read: impl FnMut(&[u8]) -> Result<T, ProtobufError>,
    ) -> Result<T, ProtobufError> {
        match read(self.raw) {
            Err(error) if matches!(error.kind, ProtobufErrorKind::OutOfOrder { .. }) => {
                read(&reorder::reorder(self.schema, self.id, self.raw)?)
            }
            done => done,
        }
    }
}
