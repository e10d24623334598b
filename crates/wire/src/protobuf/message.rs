//! A message and its type, with the three ways to read it: into a Rust type, a JSON value or JSON text.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::de::{Context, Error, MessageDeserializer};
use super::envelope::Envelope;
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader};
use super::{managed_fields, reorder, special, text, tree};
use crate::schema::{Schema, TypeId};
use crate::tree_size::is_large_message;

/// An object's message and its type.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    schema: &'a Schema,
    id: TypeId,
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Message<'a> {
    /// From an enveloped body.
    pub fn open(schema: &'a Schema, body: &'a [u8]) -> Result<Self, ProtobufError> {
        let envelope = Envelope::read(body)?;
        Self::of_kind(schema, envelope.api_version, envelope.kind, envelope.raw)
    }

    /// From a message of a known kind without an envelope, such as the item of a list.
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

    /// From a message of a type that has no kind, or whose kind is not shown.
    pub fn of_type(schema: &'a Schema, id: TypeId, raw: &'a [u8]) -> Self {
        Self {
            schema,
            id,
            api_version: "",
            kind: "",
            raw,
        }
    }

    /// Decodes the message into a type that can be deserialized from the JSON form.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ProtobufError> {
        self.decode_or(|error| error)
    }

    /// Like [`decode`](Self::decode), with the caller's error type: a decoded object is large, and each conversion of
    /// the result would move it.
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

    /// True if the message would become a tree larger than [`TREE_LIMIT`](crate::tree_size::TREE_LIMIT).
    pub fn is_large(&self) -> bool {
        is_large_message(self.schema, self.id, self.raw)
    }

    /// The message as a JSON value.
    pub fn to_value(&self) -> Result<Value, ProtobufError> {
        self.tree(tree::NOTHING).or_else(|_| self.decode())
    }

    /// The message as a JSON value without `metadata.managedFields`, which are skipped.
    pub fn to_value_without_managed_fields(&self) -> Result<Value, ProtobufError> {
        self.tree(tree::MANAGED_FIELDS).or_else(|_| {
            let mut raw = Vec::with_capacity(self.raw.len());
            managed_fields::copy_without(self.raw, &mut raw)?;
            Message { raw: &raw, ..*self }.decode()
        })
    }

    /// The message as a JSON value, by the fast path. An error means only that the fast path does not apply.
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

    /// Appends the message as JSON text on one line, without an intermediate value. On an error, `out` is unchanged.
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
        // JSON repeats field names: a pod is a third larger than in protobuf.
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

    /// The message with its fields sorted, if that was the error; every known writer sorts them. Any other error is
    /// returned.
    #[cold]
    fn reordered(&self, error: ProtobufError) -> Result<Vec<u8>, ProtobufError> {
        match error.kind {
            ProtobufErrorKind::OutOfOrder { .. } => reorder::reorder(self.schema, self.id, self.raw),
            _ => Err(error),
        }
    }
}
