//! The small messages whose JSON form is not an object: quantities, raw JSON, int-or-string, map entries.
//!
//! Their fields are accepted in any order; they are too small for a fast path to pay.

use super::envelope::Envelope;
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::schema::{Field, Schema, Shape, TypeId};
use crate::utf8;
use crate::values::Duration;

/// The zero value of every singular shape: the number 0, and a text or message of length 0.
pub(super) static ZEROS: [u8; 8] = [0; 8];

/// The JSON of a field that is absent from a message.
pub(super) enum Absent {
    /// A pointer, list, map or bytes: nil in Go.
    Null,
    /// The items of a list kind.
    EmptyList,
    /// The value read from [`ZEROS`].
    Zero,
}

impl Absent {
    pub(super) fn of(field: &Field) -> Self {
        match field.shape {
            _ if field.pointer => Self::Null,
            Shape::List(_) if field.list_items => Self::EmptyList,
            Shape::List(_) | Shape::Map(_) | Shape::ListMessage(_) | Shape::Bytes | Shape::Any => Self::Null,
            _ => Self::Zero,
        }
    }
}

/// Undecoded bytes of an object.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) bytes: &'a [u8],
    /// Their offset within the outermost slice.
    pub(super) offset: usize,
}

/// `{1: bytes}`; `None` if missing or empty, which JSON shows as null.
pub(super) fn raw(mut reader: Reader<'_>) -> Result<Option<Raw<'_>>, ProtobufError> {
    let mut found = None;
    while let Some(tag) = reader.tag()? {
        match tag {
            (1, WireType::Bytes) => {
                let bytes = reader.bytes()?;
                found = Some(Raw {
                    bytes,
                    offset: reader.offset() - bytes.len(),
                });
            }
            (number, wire_type) => skip_unknown(&mut reader, number, wire_type, 1)?,
        }
    }
    Ok(found.filter(|raw| !raw.bytes.is_empty()))
}

/// An envelope found within a message.
pub(super) struct Nested<'a> {
    pub(super) envelope: Envelope<'a>,
    /// The offset of its message within the outermost slice, for error messages.
    pub(super) offset: usize,
}

/// Opens an enveloped body within a message and finds its type.
pub(super) fn open_nested<'a>(schema: &Schema, raw: Raw<'a>) -> Result<(Nested<'a>, TypeId), ProtobufError> {
    let envelope = Envelope::read_at(raw.bytes, raw.offset)?;
    let id = schema.kind(envelope.api_version, envelope.kind);
    let id = id.ok_or_else(|| unknown_kind(envelope.api_version, envelope.kind, raw.offset))?;
    // An empty message may have no position of its own; then the envelope's is used.
    let start = match envelope.raw.is_empty() {
        true => 0,
        false => envelope.raw.as_ptr() as usize - raw.bytes.as_ptr() as usize,
    };
    let offset = raw.offset + start;
    Ok((Nested { envelope, offset }, id))
}

pub(super) fn unknown_kind(api_version: &str, kind: &str, offset: usize) -> ProtobufError {
    ProtobufError {
        offset,
        kind: ProtobufErrorKind::Other(format!("no kind {kind:?} in version {api_version:?}")),
    }
}

/// `{1: text}`; empty text is zero.
pub(super) fn quantity(mut reader: Reader<'_>) -> Result<&str, ProtobufError> {
    let mut text = "";
    while let Some(tag) = reader.tag()? {
        match tag {
            (1, WireType::Bytes) => text = reader.text(1)?,
            (number, wire_type) => skip_unknown(&mut reader, number, wire_type, 1)?,
        }
    }
    Ok(if text.is_empty() { "0" } else { text })
}

/// `{1: nanoseconds}` as Go prints a duration.
pub(super) fn duration(mut reader: Reader<'_>) -> Result<String, ProtobufError> {
    let mut nanos = 0;
    while let Some(tag) = reader.tag()? {
        match tag {
            (1, WireType::Varint) => nanos = reader.varint()? as i64,
            (number, wire_type) => skip_unknown(&mut reader, number, wire_type, 1)?,
        }
    }
    Ok(Duration { nanos }.to_string())
}

/// A number or a text.
pub(super) enum IntOrString<'a> {
    Int(i32),
    String(&'a str),
}

/// `{1: type, 2: number, 3: text}`.
pub(super) fn int_or_string(mut reader: Reader<'_>) -> Result<IntOrString<'_>, ProtobufError> {
    let (mut which, mut number, mut text) = (0, 0, "");
    while let Some(tag) = reader.tag()? {
        match tag {
            (1, WireType::Varint) => which = reader.varint()?,
            (2, WireType::Varint) => number = reader.varint()? as i32,
            (3, WireType::Bytes) => text = reader.text(3)?,
            (number, wire_type) => skip_unknown(&mut reader, number, wire_type, 3)?,
        }
    }
    match which {
        0 => Ok(IntOrString::Int(number)),
        1 => Ok(IntOrString::String(text)),
        other => Err(reader.error(ProtobufErrorKind::Other(format!(
            "impossible IntOrString.Type {other}"
        )))),
    }
}

/// A JSON schema or a list of something.
pub(super) enum SchemaOr<'a> {
    Schema(Reader<'a>),
    /// The reader is at the first value with number 2.
    Items(Reader<'a>),
    Nothing,
}

/// `{1: schema, 2: repeated item}`; items win, as in Go.
pub(super) fn schema_or(mut reader: Reader<'_>) -> Result<SchemaOr<'_>, ProtobufError> {
    let mut found = SchemaOr::Nothing;
    while let Some(tag) = reader.tag()? {
        match tag {
            (1, WireType::Bytes) => found = SchemaOr::Schema(reader.message()?),
            (2, WireType::Bytes) => return Ok(SchemaOr::Items(reader)),
            (number, wire_type) => skip_unknown(&mut reader, number, wire_type, 2)?,
        }
    }
    Ok(found)
}

/// `{1: boolean, 2: schema}`.
pub(super) fn schema_or_bool(mut reader: Reader<'_>) -> Result<(bool, Option<Reader<'_>>), ProtobufError> {
    let mut found = (false, None);
    while let Some(tag) = reader.tag()? {
        match tag {
            (1, WireType::Varint) => found.0 = reader.varint()? != 0,
            (2, WireType::Bytes) => found.1 = Some(reader.message()?),
            (number, wire_type) => skip_unknown(&mut reader, number, wire_type, 2)?,
        }
    }
    Ok(found)
}

/// `{1: key, 2: value}`: the key, and a reader at the value.
pub(super) fn map_entry<'a>(
    mut reader: Reader<'a>,
    shape: &Shape,
) -> Result<(&'a str, Option<Reader<'a>>), ProtobufError> {
    if let Some((key, value)) = usual_entry(reader.clone(), shape) {
        return Ok((key, Some(value)));
    }
    let (mut key, mut value) = ("", None);
    while let Some(tag) = reader.tag()? {
        match tag {
            (1, WireType::Bytes) => key = reader.text(1)?,
            (2, wire_type) if wire_type == shape.wire_type() => {
                value = Some(reader.clone());
                reader.skip(wire_type)?;
            }
            (number, wire_type) => skip_unknown(&mut reader, number, wire_type, 2)?,
        }
    }
    Ok((key, value))
}

/// An entry as all writers write it, with a length-delimited value: key, value, nothing else.
#[inline]
fn usual_entry<'a>(mut reader: Reader<'a>, shape: &Shape) -> Option<(&'a str, Reader<'a>)> {
    const KEY: u8 = 1 << 3 | 2;
    const VALUE: u8 = 2 << 3 | 2;
    if shape.wire_type() != WireType::Bytes || !reader.skip_byte(KEY) {
        return None;
    }
    let key = utf8::check(reader.short_bytes()?).ok()?;
    if !reader.skip_byte(VALUE) {
        return None;
    }
    let value = reader.clone();
    reader.short_bytes()?;
    reader.is_empty().then_some((key, value))
}

/// An integral float that fits an `i64`; not minus zero, which JSON distinguishes.
pub(crate) fn whole(value: f64) -> Option<i64> {
    // 2^63 as a float; integers from here on do not fit an `i64`.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = value.fract() == 0.0 && value.abs() < LIMIT && !(value == 0.0 && value.is_sign_negative());
    is_whole.then_some(value as i64)
}

/// Skips an unknown field; a known one with another wire type is an error.
fn skip_unknown(
    reader: &mut Reader<'_>,
    number: u32,
    wire_type: WireType,
    known: u32,
) -> Result<(), ProtobufError> {
    if number <= known {
        return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number }));
    }
    reader.skip(wire_type)
}
