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
pub(super) struct MessageDeserializer<'s, 'de> {
    pub(super) context: Context<'s>,
    pub(super) id: TypeId,
    pub(super) reader: Reader<'de>,
    /// `apiVersion` and `kind`, which travel in the envelope.
    pub(super) identity: Option<(&'de str, &'de str)>,
}

impl<'s, 'de> MessageDeserializer<'s, 'de> {
    #[inline]
    fn open(self) -> Result<MessageMap<'s, 'de>, Error> {
        Ok(MessageMap {
            context: self.context.deeper(&self.reader)?,
            fields: Fields::new(&self.context.schema[self.id], self.reader),
            outer: Vec::new(),
            next: match self.identity {
                Some(_) => Next::Kind,
                None => Next::Field,
            },
            identity: self.identity,
        })
    }
}

impl<'de> Deserializer<'de> for MessageDeserializer<'_, 'de> {
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
    identity: Option<(&'de str, &'de str)>,
    next: Next<'s>,
}

/// What the map shows next.
enum Next<'s> {
    Kind,
    KindValue,
    ApiVersion,
    ApiVersionValue,
    Field,
    Value(&'s Field, WireType),
    Absent(&'s Field),
}

impl<'s, 'de> MessageMap<'s, 'de> {
    /// The name of the next value.
    #[inline]
    fn next_name(&mut self) -> Result<Option<&'s str>, Error> {
        match self.next {
            Next::Kind => {
                self.next = Next::KindValue;
                Ok(Some("kind"))
            }
            Next::ApiVersion => {
                self.next = Next::ApiVersionValue;
                Ok(Some("apiVersion"))
            }
            _ => Ok(self.next_field()?.map(|field| &*field.name)),
        }
    }

    /// The next field that JSON shows.
    #[inline]
    fn next_field(&mut self) -> Result<Option<&'s Field>, Error> {
        loop {
            match self.fields.step()? {
                None => match self.outer.pop() {
                    Some(outer) => self.fields = outer,
                    None => return Ok(None),
                },
                Some(Step::Present(field, _)) if field.embedded => {
                    let inner = self.fields.reader.message()?;
                    self.enter(field, inner);
                }
                Some(Step::Absent(field)) if field.embedded => self.enter(field, Reader::new(&[])),
                Some(Step::Present(field, wire_type)) => {
                    self.next = Next::Value(field, wire_type);
                    return Ok(Some(field));
                }
                Some(Step::Absent(field)) => {
                    self.next = Next::Absent(field);
                    return Ok(Some(field));
                }
            }
        }
    }

    fn enter(&mut self, field: &'s Field, inner: Reader<'de>) {
        if let Shape::Struct(id) = field.shape {
            let inner = Fields::new(&self.context.schema[id], inner);
            self.outer.push(std::mem::replace(&mut self.fields, inner));
        }
    }

    /// The value of the name that was given last. `zero` is where a value is read that the message does not have.
    #[inline]
    fn next_value<'r>(
        &'r mut self,
        zero: &'r mut Reader<'de>,
    ) -> Result<ValueDeserializer<'s, 'r, 'de>, Error> {
        let context = self.context;
        let (api_version, kind) = self.identity.unwrap_or_default();
        match std::mem::replace(&mut self.next, Next::Field) {
            Next::KindValue => {
                self.next = Next::ApiVersion;
                Ok(ValueDeserializer::text(context, kind, zero))
            }
            Next::ApiVersionValue => Ok(ValueDeserializer::text(context, api_version, zero)),
            Next::Absent(field) => {
                let (place, bytes): (_, &'static [u8]) = match Absent::of(field) {
                    Absent::Null => (Place::Null, &[]),
                    Absent::EmptyList => (Place::Nowhere, &[]),
                    Absent::Zero => (Place::At(field.shape.wire_type()), &ZEROS),
                };
                *zero = Reader::new(bytes);
                Ok(ValueDeserializer {
                    context,
                    shape: &field.shape,
                    number: field.number,
                    place,
                    reader: zero,
                })
            }
            Next::Value(field, wire_type) => Ok(ValueDeserializer {
                context,
                shape: &field.shape,
                number: field.number,
                place: Place::At(wire_type),
                reader: &mut self.fields.reader,
            }),
            Next::Kind | Next::ApiVersion | Next::Field => {
                Err(serde::de::Error::custom("a value without its key"))
            }
        }
    }
}

impl<'de> MapAccess<'de> for MessageMap<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.next_name()? {
            Some(name) => seed.deserialize(StrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let mut zero = Reader::new(&[]);
        let offset = self.fields.reader.offset();
        let value = self.next_value(&mut zero)?;
        seed.deserialize(value).map_err(|error| located(error, offset))
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
