//! A message and what it is: opened from an envelope or named by the caller, and then read in any of three ways.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::de::{Context, Error, MessageDeserializer};
use super::envelope::Envelope;
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader};
use super::{managed_fields, reorder, special, text, tree};
use crate::schema::{Schema, TypeId};
use crate::tree_size::is_large_message;

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
        self.decode_or(|error| error)
    }

    /// As [`decode`](Self::decode), with the caller's error: a decoded object is large, and every change of its
    /// result's type moves it.
    #[inline]
    pub(crate) fn decode_or<T: DeserializeOwned, E>(
        &self,
        failed: impl Fn(ProtobufError) -> E,
    ) -> Result<T, E> {
        match self.read(self.raw) {
            Ok(value) => Ok(value),
            Err(error) => {
                let raw = self.reordered(error.into()).map_err(&failed)?;
                self.read(&raw).map_err(|error| failed(error.into()))
            }
        }
    }

    /// Whether the message becomes a tree beyond [`TREE_LIMIT`](crate::tree_size::TREE_LIMIT).
    pub fn is_large(&self) -> bool {
        is_large_message(self.schema, self.id, self.raw)
    }

    /// The message as a JSON value.
    pub fn to_value(&self) -> Result<Value, ProtobufError> {
        self.tree(tree::NOTHING).or_else(|_| self.decode())
    }

    /// The message as a JSON value without `metadata.managedFields`, which are passed over unread.
    pub fn to_value_without_managed_fields(&self) -> Result<Value, ProtobufError> {
        self.tree(tree::MANAGED_FIELDS).or_else(|_| {
            let mut raw = Vec::with_capacity(self.raw.len());
            managed_fields::copy_without(self.raw, &mut raw)?;
            Message { raw: &raw, ..*self }.decode()
        })
    }

    /// The message as a JSON value, if it is like all that are written; an error says no more than that it is not.
    fn tree(&self, left_out: &tree::Path) -> Result<Value, Error> {
        let mut members = Map::new();
        if let Some((api_version, kind)) = self.identity() {
            members.insert("apiVersion".to_owned(), Value::from(api_version));
            members.insert("kind".to_owned(), Value::from(kind));
        }
        let (context, reader) = (Context::new(self.schema), Reader::new(self.raw));
        tree::read_members(context, self.id, reader, left_out, &mut members)?;
        Ok(Value::Object(members))
    }

    /// Appends the message as JSON text on one line, without a value in between. After an error, what was
    /// appended is taken back.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
        let start = out.len();
        let mut write = |raw: &[u8]| {
            let done = text::write_json(self.schema, self.id, self.identity(), raw, out);
            if done.is_err() {
                out.truncate(start);
            }
            done
        };
        match write(self.raw) {
            Ok(()) => Ok(()),
            Err(error) => write(&self.reordered(error)?),
        }
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

    #[inline(never)]
    fn read<T: DeserializeOwned>(&self, raw: &[u8]) -> Result<T, Error> {
        T::deserialize(MessageDeserializer {
            context: Context::new(self.schema),
            id: self.id,
            reader: Reader::new(raw),
            identity: self.identity(),
        })
    }

    /// The message in the order of Go if it could not be read for want of that order, which every known writer
    /// keeps; any other error stands.
    #[cold]
    fn reordered(&self, error: ProtobufError) -> Result<Vec<u8>, ProtobufError> {
        match error.kind {
            ProtobufErrorKind::OutOfOrder { .. } => reorder::reorder(self.schema, self.id, self.raw),
            _ => Err(error),
        }
    }
}
