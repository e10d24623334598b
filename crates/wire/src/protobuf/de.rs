//! A `serde` deserializer over a message: what comes out is what `serde_json` would give from the JSON form.
//!
//! Fields come in the order of the message and borrow its texts. Times and bytes arrive as the texts that JSON
//! has for them; an absent field that JSON would show arrives as its zero value; a present zero that JSON would
//! leave out does not arrive. Numbers, lists and maps need no intermediate value.
//!
//! The message must be in order, as [`super::fields`] explains.

mod repeated;
mod value;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::fields::{Fields, MAX_DEPTH, Step};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use super::special::{Absent, ZEROS};
use crate::schema::{Field, Schema, Shape, TypeId};
use value::{Place, ValueDeserializer};

/// An error as visitors pass it along: a pointer, so that every result on the way is small.
#[derive(Debug)]
pub(super) struct Error(Box<ProtobufError>);

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

/// What every part of a message needs to know about the whole.
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
pub(super) struct MessageDeserializer<'s, 'r, 'de> {
    /// That of what is around the message.
    pub(super) context: &'r Context<'s>,
    pub(super) id: TypeId,
    pub(super) reader: Reader<'de>,
    /// `apiVersion` and `kind`, which travel in the envelope.
    pub(super) identity: Option<(&'de str, &'de str)>,
}

impl<'s, 'de> MessageDeserializer<'s, '_, 'de> {
    #[inline(always)]
    fn open(self) -> Result<MessageMap<'s, 'de>, Error> {
        Ok(MessageMap {
            context: self.context.deeper(&self.reader)?,
            fields: Fields::new(&self.context.schema[self.id], self.reader),
            outer: Vec::new(),
            identity: match self.identity {
                Some((api_version, kind)) => Identity::Kind { api_version, kind },
                None => Identity::Shown,
            },
            value: NextValue::None,
        })
    }
}

impl<'de> Deserializer<'de> for MessageDeserializer<'_, '_, 'de> {
    type Error = Error;

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
    context: Context<'s>,
    fields: Fields<'s, 'de>,
    /// The messages around an embedded one, whose fields are shown as if they were theirs.
    outer: Vec<Fields<'s, 'de>>,
    identity: Identity<'de>,
    value: NextValue<'s, 'de>,
}

/// What is left to show of the object's type, in front of its fields.
enum Identity<'de> {
    Kind { api_version: &'de str, kind: &'de str },
    ApiVersion(&'de str),
    Shown,
}

/// The value whose name was given last.
enum NextValue<'s, 'de> {
    None,
    Present(&'s Field, WireType),
    Absent(&'s Field),
    Text(&'de str),
}

impl<'s, 'de> MessageMap<'s, 'de> {
    /// The name of the next value. One copy serves every type.
    #[inline(never)]
    fn next_name(&mut self) -> Result<Option<&'s str>, Error> {
        if !matches!(self.identity, Identity::Shown) {
            return Ok(self.next_identity());
        }
        loop {
            let (field, value) = match self.fields.step()? {
                Some(Step::Present(field, wire_type)) => (field, NextValue::Present(field, wire_type)),
                Some(Step::Absent(field)) => (field, NextValue::Absent(field)),
                None => match self.outer.pop() {
                    Some(outer) => {
                        self.fields = outer;
                        continue;
                    }
                    None => return Ok(None),
                },
            };
            if !field.embedded {
                self.value = value;
                return Ok(Some(&field.name));
            }
            let inner = match value {
                NextValue::Present(..) => self.fields.reader.message()?,
                _ => Reader::new(&[]),
            };
            self.enter(field, inner);
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

    fn enter(&mut self, field: &'s Field, inner: Reader<'de>) {
        if let Shape::Struct(id) = field.shape {
            let inner = Fields::new(&self.context.schema[id], inner);
            let outer = std::mem::replace(&mut self.fields, inner);
            if !outer.is_done() {
                self.outer.push(outer);
            }
        }
    }

    /// The value of the name that was given last. `aside` is where a value is read that the message does not have.
    #[inline(always)]
    fn next_value<'r>(
        &'r mut self,
        aside: &'r mut Reader<'de>,
    ) -> Result<ValueDeserializer<'s, 'r, 'de>, Error> {
        let NextValue::Present(field, wire_type) = self.value else {
            return self.value_aside(aside);
        };
        Ok(ValueDeserializer {
            context: &self.context,
            shape: &field.shape,
            number: field.number,
            place: Place::At(wire_type),
            reader: &mut self.fields.reader,
        })
    }

    #[inline(never)]
    fn value_aside<'r>(
        &'r self,
        aside: &'r mut Reader<'de>,
    ) -> Result<ValueDeserializer<'s, 'r, 'de>, Error> {
        let (shape, number, place, bytes): (_, _, _, &'de [u8]) = match self.value {
            NextValue::Text(text) => (&Shape::String(None), 0, Place::Text, text.as_bytes()),
            NextValue::Absent(field) => match Absent::of(field) {
                Absent::Null => (&field.shape, field.number, Place::Null, &[]),
                Absent::EmptyList => (&field.shape, field.number, Place::Nowhere, &[]),
                Absent::Zero => {
                    let place = Place::At(field.shape.wire_type());
                    (&field.shape, field.number, place, &ZEROS)
                }
            },
            NextValue::Present(..) | NextValue::None => {
                return Err(serde::de::Error::custom("a value without its key"));
            }
        };
        *aside = Reader::new(bytes);
        Ok(ValueDeserializer {
            context: &self.context,
            shape,
            number,
            place,
            reader: aside,
        })
    }
}

impl<'de> MapAccess<'de> for MessageMap<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.next_name()? {
            Some(name) => seed.deserialize(StrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let mut aside = Reader::new(&[]);
        let offset = self.fields.reader.offset();
        let value = self.next_value(&mut aside)?;
        match seed.deserialize(value) {
            Ok(value) => Ok(value),
            Err(error) => Err(located(error, offset)),
        }
    }
}

/// Gives a place to an error that a visitor made, which does not know where it is.
#[cold]
fn located(mut error: Error, offset: usize) -> Error {
    if error.0.offset == 0 {
        error.0.offset = offset;
    }
    error
}

#[cold]
pub(super) fn unexpected_wire_type(reader: &Reader<'_>, number: u32) -> Error {
    reader
        .error(ProtobufErrorKind::UnexpectedWireType { number })
        .into()
}
