//! Deserializes one value of a message according to its shape and the visitor.
//!
//! Each `deserialize_*` method has a short path for the shape that nearly always answers it. This keeps the code
//! compiled for every type of every program small: a struct's visitor only ever meets a message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{Deserializer, Error as _, Expected, Unexpected, Visitor};

use super::repeated::{Entries, Items, Run};
use super::{Context, Error, MessageDeserializer};
use crate::json::de::Json;
use crate::json::typed;
use crate::protobuf::envelope::{Envelope, MAGIC};
use crate::protobuf::fields::next_item;
use crate::protobuf::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::protobuf::special::{self, IntOrString, Raw, SchemaOr};
use crate::protobuf::time::{self, TimeText};
use crate::schema::{Shape, TypeId};
use crate::utf8;

/// A value of a message, and the reader positioned at it.
pub(in crate::protobuf) struct Cursor<'s, 'de> {
    pub(super) context: Context<'s>,
    pub(super) shape: &'s Shape,
    pub(super) number: u32,
    pub(super) place: Place,
    pub(in crate::protobuf) reader: Reader<'de>,
}

/// Deserializes the value at a cursor. It is one word, because visitors pass it on many times per value.
pub(in crate::protobuf) struct ValueDeserializer<'s, 'r, 'de>(
    pub(in crate::protobuf) &'r mut Cursor<'s, 'de>,
);

/// The place of a value.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    /// The reader is at it.
    At(WireType),
    /// An empty list, absent from the message.
    Nowhere,
    /// Null.
    Null,
    /// A text: everything the reader has.
    Text,
}

impl<'s, 'de> Cursor<'s, 'de> {
    /// A cursor at a reader's position.
    pub(in crate::protobuf) fn at(
        context: Context<'s>,
        shape: &'s Shape,
        number: u32,
        wire_type: WireType,
        reader: &Reader<'de>,
    ) -> Self {
        Self {
            context,
            shape,
            number,
            place: Place::At(wire_type),
            reader: reader.clone(),
        }
    }

    #[inline(always)]
    fn message(&mut self, id: TypeId) -> Result<MessageDeserializer<'s, 'de>, Error> {
        Ok(MessageDeserializer {
            context: self.context,
            id,
            reader: self.reader.message()?,
            identity: None,
        })
    }

    /// The message of an enveloped body, if the value is one.
    #[cold]
    fn enveloped(&mut self, expected: &dyn Expected) -> Result<MessageDeserializer<'s, 'de>, Error> {
        if let Shape::RawExtension = self.shape
            && let Some(raw) = special::raw(self.reader.message()?)?
            && raw.bytes.starts_with(&MAGIC)
        {
            return nested_body(self.context, raw);
        }
        Err(mismatch(self.shape, expected))
    }

    /// True if the value can be null in JSON. Most shapes are never null.
    #[inline]
    fn may_be_null(&self) -> bool {
        self.place == Place::Null
            || matches!(
                self.shape,
                Shape::Time
                    | Shape::MicroTime
                    | Shape::RawExtension
                    | Shape::Json
                    | Shape::FieldsV1
                    | Shape::SchemaOrArray(_)
                    | Shape::SchemaOrStrings(_)
            )
    }

    /// True if the field is present but null in JSON.
    #[inline(never)]
    fn is_null(&self) -> Result<bool, Error> {
        if self.place == Place::Null {
            return Ok(true);
        }
        let message = self.reader.clone().message()?;
        Ok(match self.shape {
            Shape::Time | Shape::MicroTime => time::is_zero(message)?,
            Shape::SchemaOrArray(_) | Shape::SchemaOrStrings(_) => {
                matches!(special::schema_or(message)?, SchemaOr::Nothing)
            }
            _ => special::raw(message)?.is_none(),
        })
    }

    /// Skips the value; a list as a whole.
    #[inline(never)]
    pub(in crate::protobuf) fn skip(&mut self) -> Result<(), Error> {
        let Place::At(wire_type) = self.place else {
            return Ok(());
        };
        self.reader.skip(wire_type)?;
        if matches!(self.shape, Shape::List(_) | Shape::Map(_)) {
            while let Some(wire_type) = next_item(&mut self.reader, self.number, wire_type)? {
                self.reader.skip(wire_type)?;
            }
        }
        Ok(())
    }

    /// A text, or `None`. Small enough to be returned in registers; one copy of the code serves every visitor.
    #[inline(never)]
    fn text(&mut self) -> Option<&'de str> {
        let mut ahead = self.reader.clone();
        let bytes = match self.place {
            Place::Text => ahead.rest(),
            _ => ahead.bytes().ok()?,
        };
        let text = utf8::check(bytes).ok()?;
        self.reader.go_to(&ahead);
        Some(text)
    }

    /// The error for a value that is not text.
    #[cold]
    fn text_error(&mut self) -> Error {
        match self.reader.text(self.number) {
            Ok(_) => Error::custom("a text that is not UTF-8"),
            Err(error) => error.into(),
        }
    }
}

impl<'de> ValueDeserializer<'_, '_, 'de> {
    /// Anything but text, objects and lists.
    #[inline(never)]
    fn scalar<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let reader = &mut self.0.reader;
        match self.0.shape {
            Shape::Bool => visitor.visit_bool(reader.varint()? != 0),
            Shape::Int32 => visitor.visit_i64(i64::from(reader.varint()? as i32)),
            Shape::Int64 => visitor.visit_i64(reader.varint()? as i64),
            Shape::Float64 => visit_float(f64::from_bits(reader.fixed64()?), visitor),
            Shape::Bytes => visitor.visit_string(STANDARD.encode(reader.bytes()?)),
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
            Shape::FieldsV1 | Shape::RawExtension | Shape::Json => match special::raw(reader.message()?)? {
                Some(raw) => raw_json(raw, |json| json.deserialize_any(visitor)),
                None => visitor.visit_unit(),
            },
            _ => Err(mismatch(self.0.shape, &visitor)),
        }
    }

    /// Raw JSON, or an enveloped body within the message, as a watch event carries.
    fn raw<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match special::raw(self.0.reader.message()?)? {
            Some(raw) if raw.bytes.starts_with(&MAGIC) => {
                nested_body(self.0.context, raw)?.deserialize_any(visitor)
            }
            Some(raw) => raw_json(raw, |json| json.deserialize_any(visitor)),
            None => visitor.visit_unit(),
        }
    }

    /// Raw JSON that should be a list.
    fn raw_list<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match special::raw(self.0.reader.message()?)? {
            Some(raw) => raw_json(raw, |json| json.deserialize_seq(visitor)),
            None => visitor.visit_unit(),
        }
    }

    fn schema_or<V: Visitor<'de>>(self, id: TypeId, visitor: V) -> Result<V::Value, Error> {
        let context = self.0.context.deeper(&self.0.reader)?;
        let schema = |reader| MessageDeserializer {
            context,
            id,
            reader,
            identity: None,
        };
        let message = self.0.reader.message()?;
        if let Shape::SchemaOrBool(_) = self.0.shape {
            return match special::schema_or_bool(message)? {
                (_, Some(reader)) => schema(reader).deserialize_any(visitor),
                (allows, None) => visitor.visit_bool(allows),
            };
        }
        let shape = match self.0.shape {
            Shape::SchemaOrStrings(_) => Shape::String(None),
            _ => Shape::Struct(id),
        };
        match special::schema_or(message)? {
            SchemaOr::Schema(reader) => schema(reader).deserialize_any(visitor),
            SchemaOr::Items(reader) => {
                let mut items = Cursor {
                    context,
                    shape: &shape,
                    number: 2,
                    place: Place::At(WireType::Bytes),
                    reader,
                };
                Items::new(&mut items, Run::Before(WireType::Bytes)).visit(visitor)
            }
            SchemaOr::Nothing => visitor.visit_unit(),
        }
    }
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_, '_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.shape {
            _ if self.0.place == Place::Null => visitor.visit_unit(),
            Shape::String(_) => self.deserialize_string(visitor),
            Shape::Struct(_) | Shape::Map(_) => self.deserialize_map(visitor),
            Shape::List(_) | Shape::ListMessage(_) => self.deserialize_seq(visitor),
            Shape::RawExtension | Shape::FieldsV1 | Shape::Json => self.raw(visitor),
            Shape::SchemaOrBool(id) | Shape::SchemaOrArray(id) | Shape::SchemaOrStrings(id) => {
                self.schema_or(*id, visitor)
            }
            _ => self.scalar(visitor),
        }
    }

    #[inline(always)]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.shape {
            Shape::String(_) => match self.0.text() {
                Some(text) => visitor.visit_borrowed_str(text),
                None => Err(self.0.text_error()),
            },
            _ => self.scalar(visitor),
        }
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.shape {
            Shape::Bool => visitor.visit_bool(self.0.reader.varint()? != 0),
            Shape::SchemaOrBool(_) => self.deserialize_any(visitor),
            _ => self.scalar(visitor),
        }
    }

    #[inline]
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.shape {
            Shape::Int32 => visitor.visit_i64(i64::from(self.0.reader.varint()? as i32)),
            Shape::Int64 => visitor.visit_i64(self.0.reader.varint()? as i64),
            _ => self.scalar(visitor),
        }
    }

    /// Only a message, or an enveloped body within one, is a struct. Raw JSON is read as a map or as any value.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let message = match self.0.shape {
            Shape::Struct(id) => self.0.message(*id)?,
            _ => self.0.enveloped(&visitor)?,
        };
        message.deserialize_any(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.shape {
            Shape::Map(value) => Entries::new(self.0, value).visit(visitor),
            Shape::Struct(id) => self.0.message(*id)?.deserialize_any(visitor),
            Shape::RawExtension | Shape::FieldsV1 | Shape::Json => self.raw(visitor),
            _ => Err(mismatch(self.0.shape, &visitor)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.shape {
            Shape::List(item) => {
                let run = match self.0.place {
                    Place::At(wire_type) => Run::Before(wire_type),
                    _ => Run::Done,
                };
                self.0.shape = item;
                Items::new(self.0, run).visit(visitor)
            }
            Shape::ListMessage(item) => {
                let mut items = Cursor {
                    context: self.0.context,
                    shape: item,
                    number: 1,
                    place: Place::Nowhere,
                    reader: self.0.reader.message()?,
                };
                Items::new(&mut items, Run::Within).visit(visitor)
            }
            Shape::Json => self.raw_list(visitor),
            _ => Err(mismatch(self.0.shape, &visitor)),
        }
    }

    #[inline(always)]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.may_be_null() && self.0.is_null()? {
            self.0.skip()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    #[inline]
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
        let text = self.0.reader.text(self.0.number)?;
        visitor.visit_enum(BorrowedStrDeserializer::new(text))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

/// Go prints an integral float without a point, so that readers of JSON find an integer.
fn visit_float<'de, V: Visitor<'de>>(value: f64, visitor: V) -> Result<V::Value, Error> {
    match special::whole(value) {
        Some(whole) => visitor.visit_i64(whole),
        None => visitor.visit_f64(value),
    }
}

/// Reads JSON by the same deserializer as JSON objects. With another one, `serde_json`'s, every struct in a list would be
/// compiled once more.
fn raw_json<'de, T>(
    raw: Raw<'de>,
    read: impl FnOnce(&mut Json<'de>) -> Result<T, serde_json::Error>,
) -> Result<T, Error> {
    typed::read_with(raw.bytes, read).map_err(|error| {
        let kind = ProtobufErrorKind::Other(format!("invalid JSON within: {error}"));
        let offset = raw.offset;
        ProtobufError { offset, kind }.into()
    })
}

/// An enveloped body within a message.
fn nested_body<'s, 'de>(context: Context<'s>, raw: Raw<'de>) -> Result<MessageDeserializer<'s, 'de>, Error> {
    let (nested, id) = special::open_nested(context.schema, raw)?;
    let Envelope {
        api_version,
        kind,
        raw,
    } = nested.envelope;
    Ok(MessageDeserializer {
        context,
        id,
        reader: Reader::nested(raw, nested.offset),
        identity: Some((api_version, kind)),
    })
}

#[cold]
#[inline(never)]
fn mismatch(shape: &Shape, expected: &dyn Expected) -> Error {
    let found = match shape {
        Shape::String(_) | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Quantity => {
            Unexpected::Other("text")
        }
        Shape::Struct(_) | Shape::Map(_) => Unexpected::Map,
        Shape::List(_) | Shape::ListMessage(_) => Unexpected::Seq,
        Shape::FieldsV1 | Shape::RawExtension | Shape::Json => Unexpected::Other("raw JSON"),
        _ => Unexpected::Other("a value of another type"),
    };
    Error::invalid_type(found, expected)
}
