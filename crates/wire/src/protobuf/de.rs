//! A `serde` deserializer over a message; it produces what `serde_json` would produce from the JSON form.
//!
//! Fields come in the order of the message and borrow its texts. Times and bytes arrive as their JSON texts. An
//! absent field that JSON would show arrives as its zero value; a present zero that JSON would omit does not arrive.
//! Numbers, lists and maps need no intermediate value.
//!
//! The fields of the message must be sorted, see [`super::fields`].

mod repeated;
mod value;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::fields::{Fields, MAX_DEPTH, Step};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use super::special::{Absent, ZEROS};
use crate::schema::{Field, Schema, Shape, Slot, TypeId};
use value::Place;
pub(super) use value::{Cursor, ValueDeserializer};

/// A boxed error, so that every `Result` on the way is small.
#[derive(Debug)]
pub(super) struct Error(Box<ProtobufError>);

impl Error {
    /// Adds the offset to an error made by a visitor, which does not know it.
    #[cold]
    fn or_at(mut self, offset: usize) -> Self {
        if self.0.offset == 0 {
            self.0.offset = offset;
        }
        self
    }
}

impl From<ProtobufError> for Error {
    #[cold]
    fn from(error: ProtobufError) -> Self {
        Self(Box::new(error))
    }
}

impl From<Error> for ProtobufError {
    fn from(error: Error) -> Self {
        *error.0
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::from(ProtobufError {
            offset: 0,
            kind: ProtobufErrorKind::Other(message.to_string()),
        })
    }
}

/// The context shared by all parts of a message.
#[derive(Clone, Copy)]
pub(super) struct Context<'s> {
    pub(super) schema: &'s Schema,
    depth: usize,
}

impl<'s> Context<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self { schema, depth: 0 }
    }

    #[inline]
    pub(super) fn deeper(self, at: &Reader<'_>) -> Result<Self, ProtobufError> {
        if self.depth == MAX_DEPTH {
            return Err(at.error(ProtobufErrorKind::TooDeep { limit: MAX_DEPTH }));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

/// Reads one message as a map from JSON names to values.
pub(super) struct MessageDeserializer<'s, 'de> {
    /// The context of the enclosing message.
    pub(super) context: Context<'s>,
    pub(super) id: TypeId,
    pub(super) reader: Reader<'de>,
    /// `apiVersion` and `kind`, from the envelope.
    pub(super) identity: Option<(&'de str, &'de str)>,
}

impl<'s, 'de> MessageDeserializer<'s, 'de> {
    #[inline(always)]
    fn open(self) -> Result<MessageMap<'s, 'de>, Error> {
        Ok(MessageMap {
            fields: Fields::new(&self.context.schema[self.id]),
            cursor: Cursor {
                context: self.context.deeper(&self.reader)?,
                shape: &Shape::Any,
                number: 0,
                place: Place::Null,
                reader: self.reader,
            },
            outer: Vec::new(),
            identity: match self.identity {
                Some((api_version, kind)) => Identity::Kind { api_version, kind },
                None => Identity::Shown,
            },
            value: NextValue::None,
            failed: None,
        })
    }
}

impl<'de> Deserializer<'de> for MessageDeserializer<'_, 'de> {
    type Error = Error;

    #[inline(always)]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(&mut self.open()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct enum identifier
    }
}

struct MessageMap<'s, 'de> {
    fields: Fields<'s>,
    /// Positioned at the value whose name was returned last, if the message has it.
    cursor: Cursor<'s, 'de>,
    /// The enclosing messages of an embedded one, whose fields are presented as theirs.
    outer: Vec<(Fields<'s>, Reader<'de>)>,
    identity: Identity<'de>,
    value: NextValue<'s, 'de>,
    /// The error that ended the names.
    failed: Option<Error>,
}

/// The part of the object's type still to be presented, before its fields.
enum Identity<'de> {
    Kind { api_version: &'de str, kind: &'de str },
    ApiVersion(&'de str),
    Shown,
}

/// The value whose name was returned last.
enum NextValue<'s, 'de> {
    None,
    /// The cursor is positioned at it.
    Present,
    Absent(&'s Field),
    Text(&'de str),
}

impl<'s, 'de> MessageMap<'s, 'de> {
    /// The name of the next value; `None` at the end of the message, or on the error stored in `failed`, so that the
    /// result is returned in registers. One copy of the code serves every type.
    #[inline(never)]
    fn next_name(&mut self) -> Option<&'s str> {
        if matches!(self.identity, Identity::Shown)
            && let Some(slot) = self.fields.usual_step(&mut self.cursor.reader)
        {
            return Some(self.at_value(slot, slot.wire_type));
        }
        self.next_unusual_name()
    }

    /// Positions the reader at the value of that field.
    #[inline(always)]
    fn at_value(&mut self, slot: &'s Slot, wire_type: WireType) -> &'s str {
        self.cursor.shape = &slot.shape;
        self.cursor.number = slot.number();
        self.cursor.place = Place::At(wire_type);
        self.value = NextValue::Present;
        self.fields.slots().name(slot)
    }

    #[inline(never)]
    fn next_unusual_name(&mut self) -> Option<&'s str> {
        if !matches!(self.identity, Identity::Shown) {
            return self.next_identity();
        }
        if self.outer.is_empty() && self.fields.is_done(&self.cursor.reader) {
            return None;
        }
        loop {
            match self.fields.step(&mut self.cursor.reader) {
                Ok(Some(Step::Present(slot, wire_type))) => return Some(self.at_value(slot, wire_type)),
                Ok(Some(Step::Absent(field))) => {
                    self.value = NextValue::Absent(field);
                    return Some(&field.name);
                }
                Ok(Some(Step::Embedded(slot, inner))) => self.enter(&slot.shape, inner),
                Ok(None) => (self.fields, self.cursor.reader) = self.outer.pop()?,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
    }

    /// `kind`, then `apiVersion`.
    fn next_identity(&mut self) -> Option<&'static str> {
        match self.identity {
            Identity::Kind { api_version, kind } => {
                self.identity = Identity::ApiVersion(api_version);
                self.value = NextValue::Text(kind);
                Some("kind")
            }
            Identity::ApiVersion(api_version) => {
                self.identity = Identity::Shown;
                self.value = NextValue::Text(api_version);
                Some("apiVersion")
            }
            Identity::Shown => None,
        }
    }

    #[inline(never)]
    fn enter(&mut self, shape: &'s Shape, inner: Reader<'de>) {
        if let Shape::Struct(id) = shape {
            let inner_fields = Fields::new(&self.cursor.context.schema[*id]);
            let outer = std::mem::replace(&mut self.fields, inner_fields);
            let reader = std::mem::replace(&mut self.cursor.reader, inner);
            if !outer.is_done(&reader) {
                self.outer.push((outer, reader));
            }
        }
    }

    /// A cursor at a value the message does not contain.
    #[inline(never)]
    fn aside(&self) -> Result<Cursor<'s, 'de>, Error> {
        let (shape, number, place, bytes): (_, _, _, &'de [u8]) = match self.value {
            NextValue::Text(text) => (&Shape::String(None), 0, Place::Text, text.as_bytes()),
            NextValue::Absent(field) => {
                let (place, bytes): (_, &[u8]) = match Absent::of(field) {
                    Absent::Null => (Place::Null, &[]),
                    Absent::EmptyList => (Place::Nowhere, &[]),
                    Absent::Zero => (Place::At(field.shape.wire_type()), &ZEROS),
                };
                (&field.shape, field.number, place, bytes)
            }
            NextValue::Present | NextValue::None => {
                return Err(serde::de::Error::custom("a value without its key"));
            }
        };
        Ok(Cursor {
            context: self.cursor.context,
            shape,
            number,
            place,
            reader: Reader::new(bytes),
        })
    }
}

impl<'de> MapAccess<'de> for MessageMap<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.next_name() {
            Some(name) => seed.deserialize(StrDeserializer::new(name)).map(Some),
            None => self.failed.take().map_or(Ok(None), Err),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let offset = self.cursor.reader.offset();
        let mut aside = None;
        let cursor = match self.value {
            NextValue::Present => &mut self.cursor,
            _ => aside.insert(self.aside()?),
        };
        seed.deserialize(ValueDeserializer(cursor))
            .map_err(|error| error.or_at(offset))
    }
}

#[cold]
pub(super) fn unexpected_wire_type(reader: &Reader<'_>, number: u32) -> Error {
    reader
        .error(ProtobufErrorKind::UnexpectedWireType { number })
        .into()
}
