//! A `serde` serializer that writes a message, the counterpart of [`super::de`].
//!
//! A Rust struct has its fields in its own order and omits empty ones; Go sorts them by number and writes zeros.
//! Every struct is therefore written in two steps: its fields as they come, then, at its end, sorted with the zeros
//! between them. Texts, numbers, structs, lists and maps go straight to bytes; the rare shapes (times, quantities,
//! raw JSON) go through a value and [`super::encode`].

use std::ops::Range;

use serde::ser::{self, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};

use super::encode::{EncodeError, Encoder, Written, kind_id};
use super::envelope::Envelope;
use super::primitive::{Reader, put_bytes};
use crate::schema::{Field, Schema, Shape, TypeId};

/// Encodes a whole body from a type that serializes as the JSON form of that kind.
pub fn encode_as<T: Serialize + ?Sized>(
    schema: &Schema,
    api_version: &str,
    kind: &str,
    object: &T,
) -> Result<Vec<u8>, EncodeError> {
    let id = kind_id(schema, api_version, kind)?;
    let mut encoder = Encoder::new(schema);
    let shape = Shape::Struct(id);
    object.serialize(Tagged {
        encoder: &mut encoder,
        shape: &shape,
        number: OUTERMOST,
    })?;
    let mut out = Vec::with_capacity(encoder.out.len() + 64);
    Envelope {
        api_version,
        kind,
        raw: &encoder.out,
    }
    .write(&mut out);
    Ok(out)
}

/// Stands for the tag of the outermost message, which has none.
const OUTERMOST: u32 = 0;

impl From<Box<EncodeError>> for EncodeError {
    fn from(error: Box<EncodeError>) -> Self {
        *error
    }
}

impl ser::Error for EncodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::from_reason(message)
    }
}

/// Writes one value with its tag.
struct Tagged<'e, 's> {
    encoder: &'e mut Encoder<'s>,
    shape: &'s Shape,
    number: u32,
}

impl<'e, 's> Tagged<'e, 's> {
    fn mismatch(&self, found: &str) -> EncodeError {
        let expected = match self.shape {
            Shape::String(_) => "a string",
            Shape::Bool => "a boolean",
            Shape::Int32 | Shape::Int64 => "an integer",
            Shape::Struct(_) => "an object",
            Shape::List(_) => "a list",
            _ => "a map",
        };
        EncodeError::from_reason(format!("expected {expected}, found {found}"))
    }

    fn integer(self, value: i64) -> Result<(), EncodeError> {
        match self.shape {
            Shape::Int64 => self.encoder.varint(self.number, value as u64),
            Shape::Int32 if i32::try_from(value).is_ok() => self.encoder.varint(self.number, value as u64),
            Shape::Int32 => {
                return Err(EncodeError::from_reason(format!(
                    "{value} does not fit into 32 bits"
                )));
            }
            _ => return Err(self.mismatch("number")),
        }
        Ok(())
    }
}

/// Writes a value of any shape. Anything but a plain message, list, map or scalar goes through a value.
fn write<'s, T: Serialize + ?Sized>(
    encoder: &mut Encoder<'s>,
    shape: &'s Shape,
    number: u32,
    value: &T,
) -> Written {
    match shape {
        Shape::String(_)
        | Shape::Bool
        | Shape::Int32
        | Shape::Int64
        | Shape::Struct(_)
        | Shape::List(_)
        | Shape::Map(_) => Ok(value.serialize(Tagged {
            encoder,
            shape,
            number,
        })?),
        rare => {
            let value = serde_json::to_value(value).map_err(EncodeError::from_reason)?;
            if value.is_null() {
                Ok(())
            } else {
                encoder.value(number, rare, &value)
            }
        }
    }
}

impl<'e, 's> Serializer for Tagged<'e, 's> {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = Items<'e, 's>;
    type SerializeTuple = Impossible<(), EncodeError>;
    type SerializeTupleStruct = Impossible<(), EncodeError>;
    type SerializeTupleVariant = Impossible<(), EncodeError>;
    type SerializeMap = Members<'e, 's>;
    type SerializeStruct = Members<'e, 's>;
    type SerializeStructVariant = Impossible<(), EncodeError>;

    fn serialize_str(self, text: &str) -> Result<(), EncodeError> {
        match self.shape {
            Shape::String(_) => put_bytes(&mut self.encoder.out, self.number, text.as_bytes()),
            _ => return Err(self.mismatch("string")),
        }
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), EncodeError> {
        match self.shape {
            Shape::Bool => self.encoder.varint(self.number, u64::from(value)),
            _ => return Err(self.mismatch("bool")),
        }
        Ok(())
    }

    fn serialize_i64(self, value: i64) -> Result<(), EncodeError> {
        self.integer(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), EncodeError> {
        let fits = i64::try_from(value);
        self.integer(
            fits.map_err(|_| EncodeError::from_reason(format!("{value} does not fit into 64 bits")))?,
        )
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'e, 's>, EncodeError> {
        match self.shape {
            Shape::List(item) => Ok(Items {
                encoder: self.encoder,
                shape: item,
                number: self.number,
                index: 0,
            }),
            _ => Err(self.mismatch("array")),
        }
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'e, 's>, EncodeError> {
        let what = match self.shape {
            Shape::Struct(id) => What::Message(*id),
            Shape::Map(value) => What::Map(value),
            _ => return Err(self.mismatch("object")),
        };
        Members::start(self.encoder, what, self.number)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'e, 's>, EncodeError> {
        self.serialize_map(None)
    }

    fn serialize_none(self) -> Result<(), EncodeError> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), EncodeError> {
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), EncodeError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_i8(self, value: i8) -> Result<(), EncodeError> {
        self.integer(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), EncodeError> {
        self.integer(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), EncodeError> {
        self.integer(value.into())
    }

    fn serialize_u8(self, value: u8) -> Result<(), EncodeError> {
        self.integer(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), EncodeError> {
        self.integer(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), EncodeError> {
        self.integer(value.into())
    }

    fn serialize_char(self, value: char) -> Result<(), EncodeError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_f32(self, _: f32) -> Result<(), EncodeError> {
        Err(self.mismatch("number"))
    }

    fn serialize_f64(self, _: f64) -> Result<(), EncodeError> {
        Err(self.mismatch("number"))
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), EncodeError> {
        Err(self.mismatch("bytes"))
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), EncodeError> {
        Ok(())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), EncodeError> {
        Err(self.mismatch("enum"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, EncodeError> {
        Err(self.mismatch("tuple"))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, EncodeError> {
        Err(self.mismatch("tuple"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, EncodeError> {
        Err(self.mismatch("enum"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, EncodeError> {
        Err(self.mismatch("enum"))
    }
}

/// The items of a list, each with the tag of the field.
struct Items<'e, 's> {
    encoder: &'e mut Encoder<'s>,
    shape: &'s Shape,
    number: u32,
    index: usize,
}

impl SerializeSeq for Items<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), EncodeError> {
        let before = self.encoder.out.len();
        let done = write(self.encoder, self.shape, self.number, item);
        done.map_err(|error| error.within(&format!("[{}]", self.index)))?;
        if self.encoder.out.len() == before {
            // A null item keeps its place, as a zero value.
            self.encoder
                .value(self.number, self.shape, &serde_json::Value::Null)?;
        }
        self.index += 1;
        Ok(())
    }

    fn end(self) -> Result<(), EncodeError> {
        Ok(())
    }
}

/// The members of a message or of a map, written as they come and sorted at the end.
struct Members<'e, 's> {
    encoder: &'e mut Encoder<'s>,
    what: What<'s>,
    /// The field number of the whole.
    number: u32,
    /// The offset in the output at which the members begin.
    start: usize,
    found: Vec<Member<'s>>,
    /// The field of the next value of a map-like struct.
    next: Option<&'s Field>,
}

enum What<'s> {
    Message(TypeId),
    Map(&'s Shape),
}

/// A written member: a field, or an entry of a map.
struct Member<'s> {
    field: Option<&'s Field>,
    bytes: Range<usize>,
}

impl<'e, 's> Members<'e, 's> {
    fn start(encoder: &'e mut Encoder<'s>, what: What<'s>, number: u32) -> Result<Self, EncodeError> {
        encoder.enter()?;
        let start = encoder.out.len();
        Ok(Self {
            encoder,
            what,
            number,
            start,
            found: Vec::new(),
            next: None,
        })
    }

    fn field<T: Serialize + ?Sized>(&mut self, field: &'s Field, value: &T) -> Result<(), EncodeError> {
        let begin = self.encoder.out.len();
        write(self.encoder, &field.shape, field.number, value).map_err(|error| error.within(&field.name))?;
        self.found.push(Member {
            field: Some(field),
            bytes: begin - self.start..self.encoder.out.len() - self.start,
        });
        Ok(())
    }

    fn finish(self) -> Result<(), EncodeError> {
        let written = self.encoder.out.split_off(self.start);
        let (encoder, number) = (self.encoder, self.number);
        match self.what {
            What::Message(id) if number == OUTERMOST => in_order(encoder, id, &self.found, &written)?,
            What::Message(id) => {
                encoder.length_delimited(number, |encoder| in_order(encoder, id, &self.found, &written))?;
            }
            What::Map(_) => {
                let mut entries: Vec<&[u8]> = self
                    .found
                    .iter()
                    .map(|entry| &written[entry.bytes.clone()])
                    .collect();
                entries.sort_by_key(|entry| key_of(entry));
                entries
                    .iter()
                    .for_each(|entry| put_bytes(&mut encoder.out, number, entry));
            }
        }
        encoder.leave();
        Ok(())
    }
}

/// Copies the fields of a message by ascending number, with zeros for missing ones.
fn in_order(encoder: &mut Encoder<'_>, id: TypeId, found: &[Member<'_>], written: &[u8]) -> Written {
    for field in encoder.schema[id].wire_fields() {
        match field.shape {
            Shape::Struct(inner) if field.embedded => {
                encoder.length_delimited(field.number, |encoder| in_order(encoder, inner, found, written))?;
            }
            _ => {
                let mut members = found.iter().rev();
                match members.find(|member| member.field.is_some_and(|have| std::ptr::eq(have, field))) {
                    Some(member) if !member.bytes.is_empty() => {
                        encoder.out.extend_from_slice(&written[member.bytes.clone()]);
                    }
                    _ => encoder.field(field, None)?,
                }
            }
        }
    }
    Ok(())
}

/// The key of a written entry: its first field.
fn key_of(entry: &[u8]) -> &[u8] {
    let mut reader = Reader::new(entry);
    reader.tag().and_then(|_| reader.bytes()).unwrap_or_default()
}

impl SerializeStruct for Members<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        match self.what {
            What::Message(id) => match self.encoder.schema.field(id, name) {
                // Fields without a number, such as `kind` and `apiVersion`, are not in the message.
                Some(field) if field.number > 0 => self.field(field, value),
                _ => Ok(()),
            },
            What::Map(_) => {
                self.serialize_key(name)?;
                self.serialize_value(value)
            }
        }
    }

    fn end(self) -> Result<(), EncodeError> {
        self.finish()
    }
}

impl SerializeMap for Members<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), EncodeError> {
        let begin = self.encoder.out.len();
        key.serialize(Tagged {
            encoder: self.encoder,
            shape: &Shape::String(None),
            number: 1,
        })?;
        match self.what {
            What::Map(_) => self.found.push(Member {
                field: None,
                bytes: begin - self.start..begin - self.start,
            }),
            What::Message(id) => {
                let key = self.encoder.out.split_off(begin);
                let name = std::str::from_utf8(key_of(&key)).unwrap_or_default();
                self.next = self
                    .encoder
                    .schema
                    .field(id, name)
                    .filter(|field| field.number > 0);
            }
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        let shape = match self.what {
            What::Map(shape) => shape,
            What::Message(_) => return self.next.take().map_or(Ok(()), |field| self.field(field, value)),
        };
        let begin = self.encoder.out.len();
        write(self.encoder, shape, 2, value)?;
        if self.encoder.out.len() == begin && *shape != Shape::Bytes {
            self.encoder.value(2, shape, &serde_json::Value::Null)?;
        }
        let end = self.encoder.out.len() - self.start;
        if let Some(entry) = self.found.last_mut() {
            entry.bytes.end = end;
        }
        Ok(())
    }

    fn end(self) -> Result<(), EncodeError> {
        self.finish()
    }
}
