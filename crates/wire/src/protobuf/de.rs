//! A `serde` deserializer over a message: what comes out is what `serde_json` would give from the JSON form.
//!
//! Fields come in the order of the message and borrow its texts. Times and bytes arrive as the texts that JSON
//! has for them; an absent field that JSON would show arrives as its zero value; a present zero that JSON would
//! leave out does not arrive. Numbers, lists and maps need no intermediate value.
//!
//! The message must be in order, as [`super::fields`] explains.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::envelope::{Envelope, MAGIC};
use super::fields::{Fields, MAX_DEPTH, Step, next_item};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use super::special::{self, IntOrString, SchemaOr};
use super::time::{self, TimeText};
use crate::schema::{Field, Schema, Shape, TypeId};

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

impl<'de> Deserializer<'de> for MessageDeserializer<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MessageMap {
            context: self.context.deeper(&self.reader)?,
            fields: Fields::new(&self.context.schema[self.id], self.reader),
            outer: Vec::new(),
            identity: self.identity,
            next: Next::Identity,
        })
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
    Identity,
    Kind,
    KindValue,
    ApiVersionValue,
    Field,
    Value(&'s Field, WireType),
    Zero(&'s Field),
}

impl<'s, 'de> MessageMap<'s, 'de> {
    /// The next field that JSON shows.
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
                    self.next = Next::Zero(field);
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
}

impl<'de> MapAccess<'de> for MessageMap<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let key: StrDeserializer<'_, Error> = match (&self.next, self.identity) {
            (Next::Identity, Some(_)) => {
                self.next = Next::KindValue;
                "kind".into_deserializer()
            }
            (Next::Kind, _) => {
                self.next = Next::ApiVersionValue;
                "apiVersion".into_deserializer()
            }
            _ => match self.next_field()? {
                Some(field) => (*field.name).into_deserializer(),
                None => return Ok(None),
            },
        };
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (api_version, kind) = self.identity.unwrap_or_default();
        match std::mem::replace(&mut self.next, Next::Field) {
            Next::KindValue => {
                self.next = Next::Kind;
                seed.deserialize(BorrowedStrDeserializer::new(kind))
            }
            Next::ApiVersionValue => seed.deserialize(BorrowedStrDeserializer::new(api_version)),
            Next::Zero(field) => seed.deserialize(ZeroDeserializer {
                context: self.context,
                zero: Zero::of(field),
            }),
            Next::Value(field, wire_type) => {
                let offset = self.fields.reader.offset();
                let value = ValueDeserializer {
                    context: self.context,
                    shape: &field.shape,
                    number: field.number,
                    wire_type,
                    reader: &mut self.fields.reader,
                };
                let value = seed.deserialize(value).map_err(|error| located(error, offset))?;
                if matches!(field.shape, Shape::List(_) | Shape::Map(_)) {
                    // A visitor may stop before the end.
                    while let Some(wire_type) = next_item(&mut self.fields.reader, field.number)? {
                        self.fields.reader.skip(wire_type)?;
                    }
                }
                Ok(value)
            }
            Next::Identity | Next::Kind | Next::Field => {
                Err(serde::de::Error::custom("a value without its key"))
            }
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

/// Reads the value at which a reader stands.
struct ValueDeserializer<'s, 'r, 'de> {
    context: Context<'s>,
    shape: &'s Shape,
    number: u32,
    wire_type: WireType,
    reader: &'r mut Reader<'de>,
}

impl<'s, 'de> ValueDeserializer<'s, '_, 'de> {
    fn message(self, id: TypeId) -> Result<MessageDeserializer<'s, 'de>, Error> {
        Ok(MessageDeserializer {
            context: self.context,
            id,
            reader: self.reader.message()?,
            identity: None,
        })
    }

    /// Whether JSON has null for the value, though the field is there.
    fn is_null(&self) -> Result<bool, Error> {
        let message = || self.reader.clone().message();
        Ok(match self.shape {
            Shape::Time | Shape::MicroTime => time::read(message()?)?.is_none(),
            Shape::RawExtension | Shape::Json | Shape::FieldsV1 => special::raw(message()?)?.is_none(),
            Shape::SchemaOrArray(_) | Shape::SchemaOrStrings(_) => {
                matches!(special::schema_or(message()?)?, SchemaOr::Nothing)
            }
            _ => false,
        })
    }

    fn raw<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Some(raw) = special::raw(self.reader.message()?)? else {
            return visitor.visit_unit();
        };
        if raw.bytes.starts_with(&MAGIC) {
            return nested_envelope(self.context, raw, visitor);
        }
        let failed = |error: serde_json::Error| ProtobufError {
            offset: raw.offset,
            kind: ProtobufErrorKind::Other(format!("invalid JSON within: {error}")),
        };
        let mut json = serde_json::Deserializer::from_slice(raw.bytes);
        let value = json.deserialize_any(visitor).map_err(failed)?;
        json.end().map_err(failed)?;
        Ok(value)
    }

    fn schema_or<V: Visitor<'de>>(self, id: TypeId, visitor: V) -> Result<V::Value, Error> {
        let context = self.context.deeper(self.reader)?;
        let shape = Shape::Struct(id);
        match special::schema_or(self.reader.message()?)? {
            SchemaOr::Schema(reader) => MessageDeserializer {
                context,
                id,
                reader,
                identity: None,
            }
            .deserialize_any(visitor),
            SchemaOr::Items(mut reader) => visitor.visit_seq(Items {
                context,
                shape: match self.shape {
                    Shape::SchemaOrStrings(_) => &Shape::String(None),
                    _ => &shape,
                },
                number: 2,
                run: Run::Before(WireType::Bytes),
                reader: &mut reader,
            }),
            SchemaOr::Nothing => visitor.visit_unit(),
        }
    }

    fn schema_or_bool<V: Visitor<'de>>(self, id: TypeId, visitor: V) -> Result<V::Value, Error> {
        let context = self.context.deeper(self.reader)?;
        match special::schema_or_bool(self.reader.message()?)? {
            (_, Some(reader)) => MessageDeserializer {
                context,
                id,
                reader,
                identity: None,
            }
            .deserialize_any(visitor),
            (allows, None) => visitor.visit_bool(allows),
        }
    }
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_, '_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let reader = self.reader;
        match self.shape {
            Shape::String(_) => visitor.visit_borrowed_str(reader.text(self.number)?),
            Shape::Bool => visitor.visit_bool(reader.varint()? != 0),
            Shape::Int32 => visitor.visit_i64(i64::from(reader.varint()? as i32)),
            Shape::Int64 => visitor.visit_i64(reader.varint()? as i64),
            Shape::Float64 => visit_float(f64::from_bits(reader.fixed64()?), visitor),
            Shape::Bytes => visitor.visit_string(STANDARD.encode(reader.bytes()?)),
            Shape::Struct(id) => Self { reader, ..self }.message(*id)?.deserialize_any(visitor),
            Shape::List(item) => visitor.visit_seq(Items {
                context: self.context,
                shape: item,
                number: self.number,
                run: Run::Before(self.wire_type),
                reader,
            }),
            Shape::Map(value) => visitor.visit_map(Entries {
                context: self.context,
                shape: value,
                number: self.number,
                is_first: true,
                value: None,
                reader,
            }),
            Shape::ListMessage(item) => {
                let mut message = reader.message()?;
                visitor.visit_seq(Items {
                    context: self.context,
                    shape: item,
                    number: 1,
                    run: Run::Within,
                    reader: &mut message,
                })
            }
            Shape::Time => match time::read(reader.message()?)? {
                Some(time) => visitor.visit_str(TimeText::seconds(time).as_str()),
                None => visitor.visit_unit(),
            },
            Shape::MicroTime => match time::read(reader.message()?)? {
                Some(time) => visitor.visit_str(TimeText::micros(time).as_str()),
                None => visitor.visit_unit(),
            },
            Shape::Duration => visitor.visit_string(special::duration(reader.message()?)?),
            Shape::Quantity => visitor.visit_borrowed_str(special::quantity(reader.message()?)?),
            Shape::IntOrString => match special::int_or_string(reader.message()?)? {
                IntOrString::Int(value) => visitor.visit_i64(i64::from(value)),
                IntOrString::String(text) => visitor.visit_borrowed_str(text),
            },
            Shape::FieldsV1 | Shape::RawExtension | Shape::Json => Self { reader, ..self }.raw(visitor),
            Shape::Any => Err(serde::de::Error::custom("the field has no protobuf form")),
            Shape::SchemaOrBool(id) => Self { reader, ..self }.schema_or_bool(*id, visitor),
            Shape::SchemaOrArray(id) | Shape::SchemaOrStrings(id) => {
                Self { reader, ..self }.schema_or(*id, visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null()? {
            self.reader.skip(self.wire_type)?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = self.reader.text(self.number)?;
        visitor.visit_enum(BorrowedStrDeserializer::new(text))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.reader.skip(self.wire_type)?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier
    }
}

/// Go prints a whole number without a point, so that readers of JSON find an integer.
fn visit_float<'de, V: Visitor<'de>>(value: f64, visitor: V) -> Result<V::Value, Error> {
    match special::whole(value) {
        Some(whole) => visitor.visit_i64(whole),
        None => visitor.visit_f64(value),
    }
}

/// An object that is a whole enveloped body: what a watch event carries.
fn nested_envelope<'de, V: Visitor<'de>>(
    context: Context<'_>,
    raw: special::Raw<'de>,
    visitor: V,
) -> Result<V::Value, Error> {
    let (envelope, id) = special::open_nested(context.schema, raw)?;
    let Envelope {
        api_version,
        kind,
        raw,
    } = envelope.envelope;
    MessageDeserializer {
        context,
        id,
        reader: Reader::nested(raw, envelope.offset),
        identity: Some((api_version, kind)),
    }
    .deserialize_any(visitor)
}

/// The items of a repeated field.
struct Items<'s, 'r, 'de> {
    context: Context<'s>,
    shape: &'s Shape,
    number: u32,
    run: Run<'de>,
    reader: &'r mut Reader<'de>,
}

/// Where a run of items stands.
enum Run<'de> {
    /// The reader stands at the first value.
    Before(WireType),
    /// The reader stands at a tag.
    Within,
    /// Numbers packed into one value.
    Packed(Reader<'de>),
}

impl<'de> SeqAccess<'de> for Items<'_, '_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        loop {
            if let Run::Packed(packed) = &mut self.run {
                if packed.is_empty() {
                    self.run = Run::Within;
                    continue;
                }
                let wire_type = self.shape.wire_type();
                return read_item(self.context, self.shape, self.number, wire_type, packed, seed).map(Some);
            }
            let wire_type = match std::mem::replace(&mut self.run, Run::Within) {
                Run::Before(wire_type) => wire_type,
                _ => match next_item(self.reader, self.number)? {
                    Some(wire_type) => wire_type,
                    None => return Ok(None),
                },
            };
            if wire_type == self.shape.wire_type() {
                return read_item(
                    self.context,
                    self.shape,
                    self.number,
                    wire_type,
                    self.reader,
                    seed,
                )
                .map(Some);
            }
            if wire_type != WireType::Bytes {
                return Err(unexpected_wire_type(self.reader, self.number));
            }
            self.run = Run::Packed(self.reader.message()?);
        }
    }
}

fn read_item<'de, T: DeserializeSeed<'de>>(
    context: Context<'_>,
    shape: &Shape,
    number: u32,
    wire_type: WireType,
    reader: &mut Reader<'de>,
    seed: T,
) -> Result<T::Value, Error> {
    let offset = reader.offset();
    let value = ValueDeserializer {
        context,
        shape,
        number,
        wire_type,
        reader,
    };
    seed.deserialize(value).map_err(|error| located(error, offset))
}

/// The entries of a map field.
struct Entries<'s, 'r, 'de> {
    context: Context<'s>,
    shape: &'s Shape,
    number: u32,
    is_first: bool,
    value: Option<Reader<'de>>,
    reader: &'r mut Reader<'de>,
}

impl<'de> MapAccess<'de> for Entries<'_, '_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if !std::mem::take(&mut self.is_first) {
            match next_item(self.reader, self.number)? {
                Some(WireType::Bytes) => {}
                Some(_) => return Err(unexpected_wire_type(self.reader, self.number)),
                None => return Ok(None),
            }
        }
        let (key, value) = special::map_entry(self.reader.message()?, self.shape)?;
        self.value = value;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(mut reader) = self.value.take() else {
            return seed.deserialize(ZeroDeserializer {
                context: self.context,
                zero: Zero::in_map(self.shape),
            });
        };
        read_item(
            self.context,
            self.shape,
            2,
            self.shape.wire_type(),
            &mut reader,
            seed,
        )
    }
}

/// What JSON shows for a field that has no value.
pub(super) enum Zero {
    Null,
    EmptyText,
    EmptyList,
    False,
    Number,
    Quantity,
    Duration,
    Struct(TypeId),
}

impl Zero {
    pub(super) fn of(field: &Field) -> Self {
        match &field.shape {
            _ if field.pointer => Self::Null,
            Shape::List(_) if field.list_items => Self::EmptyList,
            shape => Self::of_shape(shape),
        }
    }

    /// A map's value is never nil in Go, only empty.
    pub(super) fn in_map(shape: &Shape) -> Self {
        match shape {
            Shape::Bytes => Self::EmptyText,
            Shape::ListMessage(_) => Self::EmptyList,
            shape => Self::of_shape(shape),
        }
    }

    fn of_shape(shape: &Shape) -> Self {
        match shape {
            Shape::String(_) => Self::EmptyText,
            Shape::Bool | Shape::SchemaOrBool(_) => Self::False,
            Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => Self::Number,
            Shape::Quantity => Self::Quantity,
            Shape::Duration => Self::Duration,
            Shape::Struct(id) => Self::Struct(*id),
            _ => Self::Null,
        }
    }
}

struct ZeroDeserializer<'s> {
    context: Context<'s>,
    zero: Zero,
}

impl<'de> Deserializer<'de> for ZeroDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.zero {
            Zero::Null => visitor.visit_unit(),
            Zero::EmptyText => visitor.visit_borrowed_str(""),
            Zero::EmptyList => visitor.visit_seq(EmptyList),
            Zero::False => visitor.visit_bool(false),
            Zero::Number => visitor.visit_i64(0),
            Zero::Quantity => visitor.visit_borrowed_str("0"),
            Zero::Duration => visitor.visit_borrowed_str("0s"),
            Zero::Struct(id) => MessageDeserializer {
                context: self.context,
                id,
                reader: Reader::new(&[]),
                identity: None,
            }
            .deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.zero {
            Zero::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(BorrowedStrDeserializer::new(""))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct EmptyList;

impl<'de> SeqAccess<'de> for EmptyList {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, _: T) -> Result<Option<T::Value>, Error> {
        Ok(None)
    }
}
