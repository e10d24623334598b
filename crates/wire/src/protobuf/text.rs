//! Writes a message directly as JSON text, without an intermediate value.
//!
//! The text is Go's, byte for byte, on one line: members in the order of their declaration, HTML markup escaped. Raw
//! JSON within a message is checked and copied, not parsed; with managed fields, that is most of an object's bytes.
//!
//! A message has its fields by number. If a type declares them in another order, its members are written as they come
//! and sorted at the end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::de::Context;
use super::envelope::{Envelope, MAGIC};
use super::fields::{Fields, Step, next_item};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use super::special::{self, Absent, IntOrString, Raw, SchemaOr, ZEROS};
use super::time::{self, TimeText};
use crate::schema::{Field, Schema, Shape, Slot, Slots, TypeId};

/// Appends the JSON text of a message.
pub(super) fn write_json(
    schema: &Schema,
    id: TypeId,
    identity: Option<(&str, &str)>,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let mut writer = Writer {
        out,
        members: Vec::new(),
        ordered: Vec::new(),
    };
    writer.message(Context::new(schema), id, identity, Reader::new(raw))
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// The members written so far of every open object that must be sorted, inner ones last.
    members: Vec<Member>,
    /// The buffer in which members are sorted.
    ordered: Vec<u8>,
}

/// A written member.
#[derive(Clone, Copy)]
struct Member {
    /// The position of its field in the declaration.
    position: u16,
    start: usize,
    /// The offset of the next one; set when all have been written.
    end: usize,
}

impl Writer<'_> {
    fn message(
        &mut self,
        context: Context<'_>,
        id: TypeId,
        identity: Option<(&str, &str)>,
        reader: Reader<'_>,
    ) -> Result<(), ProtobufError> {
        let context = context.deeper(&reader)?;
        self.out.push(b'{');
        if let Some((api_version, kind)) = identity {
            self.key("kind");
            self.text(kind);
            self.key("apiVersion");
            self.text(api_version);
        }
        self.members(context, id, reader)?;
        self.out.push(b'}');
        Ok(())
    }

    /// Writes the members of a message, those of embedded ones included.
    fn members(
        &mut self,
        context: Context<'_>,
        id: TypeId,
        mut reader: Reader<'_>,
    ) -> Result<(), ProtobufError> {
        let declared = &context.schema[id];
        let mut fields = Fields::new(declared);
        let (start, outer) = (self.out.len(), self.members.len());
        while let Some(step) = fields.step(&mut reader)? {
            if !declared.slots.in_declared_order {
                self.note(&step, &declared.slots);
            }
            match step {
                Step::Embedded(slot, inner) => {
                    if let Shape::Struct(id) = slot.shape {
                        self.members(context, id, inner)?;
                    }
                }
                Step::Present(slot, wire_type) => {
                    self.key(declared.slots.name(slot));
                    self.field(context, slot, wire_type, &mut reader)?;
                }
                Step::Absent(field) => {
                    self.key(&field.name);
                    self.absent(context, field)?;
                }
            }
        }
        if !self.members[outer..].is_sorted_by_key(|member| member.position) {
            self.put_in_order(start, outer);
        }
        self.members.truncate(outer);
        Ok(())
    }

    /// Notes where a member begins.
    #[inline]
    fn note(&mut self, step: &Step<'_, '_>, slots: &Slots) {
        let position = match step {
            Step::Present(slot, _) | Step::Embedded(slot, _) => slot.field,
            Step::Absent(field) => slots.at(field.number).field,
        };
        let (start, end) = (self.out.len(), 0);
        self.members.push(Member { position, start, end });
    }

    /// Sorts the members from `first` on, which begin at `start` in the output.
    fn put_in_order(&mut self, start: usize, first: usize) {
        let members = &mut self.members[first..];
        let mut end = self.out.len();
        for member in members.iter_mut().rev() {
            member.end = std::mem::replace(&mut end, member.start);
        }
        members.sort_unstable_by_key(|member| member.position);
        self.ordered.clear();
        self.ordered.extend_from_slice(&self.out[start..]);
        self.out.truncate(start);
        for member in members {
            let text = &self.ordered[member.start - start..member.end - start];
            let text = text.strip_prefix(b",").unwrap_or(text);
            if !text.is_empty() {
                separate(self.out);
                self.out.extend_from_slice(text);
            }
        }
    }

    fn field(
        &mut self,
        context: Context<'_>,
        slot: &Slot,
        wire_type: WireType,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        match &slot.shape {
            Shape::List(item) => self.items(context, item, slot.number(), Some(wire_type), reader),
            Shape::Map(value) => self.entries(context, value, slot.number(), reader),
            shape => self.value(context, shape, slot.number(), reader),
        }
    }

    fn value(
        &mut self,
        context: Context<'_>,
        shape: &Shape,
        number: u32,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        match shape {
            Shape::Struct(id) => self.object(context, *id, reader),
            Shape::ListMessage(item) => self.list(context, item, reader),
            Shape::FieldsV1 | Shape::RawExtension | Shape::Json => self.raw(context, reader),
            Shape::SchemaOrBool(id) => self.schema_or_bool(context, *id, reader),
            Shape::SchemaOrArray(id) => self.schema_or(context, *id, &Shape::Struct(*id), reader),
            Shape::SchemaOrStrings(id) => self.schema_or(context, *id, &Shape::String(None), reader),
            shape => self.leaf(shape, number, reader),
        }
    }

    #[inline]
    fn object(
        &mut self,
        context: Context<'_>,
        id: TypeId,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        self.message(context, id, None, reader.message()?)
    }

    #[inline]
    fn list(
        &mut self,
        context: Context<'_>,
        item: &Shape,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        self.items(context, item, 1, None, &mut reader.message()?)
    }

    /// Writes a value without others in it. It is apart, like the two above, so that [`value`](Self::value) takes little of
    /// the stack in a build that is not optimised.
    #[inline]
    fn leaf(&mut self, shape: &Shape, number: u32, reader: &mut Reader<'_>) -> Result<(), ProtobufError> {
        match shape {
            Shape::String(_) => self.text(reader.text(number)?),
            Shape::Bool => self.boolean(reader.varint()? != 0),
            Shape::Int32 => self.number(i64::from(reader.varint()? as i32)),
            Shape::Int64 => self.number(reader.varint()? as i64),
            Shape::Float64 => self.float(f64::from_bits(reader.fixed64()?)),
            Shape::Bytes => self.base64(reader.bytes()?),
            Shape::Time => match time::read(reader.message()?)? {
                Some(time) => self.plain_text(TimeText::seconds(time).as_str()),
                None => self.null(),
            },
            Shape::MicroTime => match time::read(reader.message()?)? {
                Some(time) => self.plain_text(TimeText::micros(time).as_str()),
                None => self.null(),
            },
            Shape::Duration => self.plain_text(&special::duration(reader.message()?)?),
            Shape::Quantity => self.text(special::quantity(reader.message()?)?),
            Shape::IntOrString => match special::int_or_string(reader.message()?)? {
                IntOrString::Int(value) => self.number(i64::from(value)),
                IntOrString::String(text) => self.text(text),
            },
            _ => {
                return Err(reader.error(ProtobufErrorKind::Other(
                    "the field has no protobuf form".to_owned(),
                )));
            }
        }
        Ok(())
    }

    fn schema_or_bool(
        &mut self,
        context: Context<'_>,
        id: TypeId,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        match special::schema_or_bool(reader.message()?)? {
            (_, Some(schema)) => self.message(context.deeper(reader)?, id, None, schema),
            (allows, None) => {
                self.boolean(allows);
                Ok(())
            }
        }
    }

    fn schema_or(
        &mut self,
        context: Context<'_>,
        id: TypeId,
        item: &Shape,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        let context = context.deeper(reader)?;
        match special::schema_or(reader.message()?)? {
            SchemaOr::Schema(schema) => self.message(context, id, None, schema),
            SchemaOr::Items(mut items) => self.items(context, item, 2, Some(WireType::Bytes), &mut items),
            SchemaOr::Nothing => {
                self.null();
                Ok(())
            }
        }
    }

    /// The items of a repeated field. The reader is at the first value if the wire type is given, else at a tag.
    fn items(
        &mut self,
        context: Context<'_>,
        shape: &Shape,
        number: u32,
        first: Option<WireType>,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        self.out.push(b'[');
        let usual = shape.wire_type();
        let mut next = match first {
            Some(wire_type) => Some(wire_type),
            None => next_item(reader, number, usual)?,
        };
        while let Some(wire_type) = next {
            if wire_type == usual {
                self.comma();
                self.value(context, shape, number, reader)?;
            } else if wire_type == WireType::Bytes {
                let mut packed = reader.message()?;
                while !packed.is_empty() {
                    self.comma();
                    self.value(context, shape, number, &mut packed)?;
                }
            } else {
                return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number }));
            }
            next = next_item(reader, number, usual)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn entries(
        &mut self,
        context: Context<'_>,
        shape: &Shape,
        number: u32,
        reader: &mut Reader<'_>,
    ) -> Result<(), ProtobufError> {
        self.out.push(b'{');
        let mut next = Some(WireType::Bytes);
        while let Some(wire_type) = next {
            if wire_type != WireType::Bytes {
                return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number }));
            }
            let (key, value) = special::map_entry(reader.message()?, shape)?;
            self.comma();
            self.text(key);
            self.out.push(b':');
            // A missing value is zero in Go, not nil.
            let mut value = value.unwrap_or(Reader::new(&ZEROS));
            self.value(context, shape, 2, &mut value)?;
            next = next_item(reader, number, WireType::Bytes)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn raw(&mut self, context: Context<'_>, reader: &mut Reader<'_>) -> Result<(), ProtobufError> {
        let Some(raw) = special::raw(reader.message()?)? else {
            self.null();
            return Ok(());
        };
        if raw.bytes.starts_with(&MAGIC) {
            let (nested, id) = special::open_nested(context.schema, raw)?;
            let Envelope {
                api_version,
                kind,
                raw,
            } = nested.envelope;
            return self.message(
                context,
                id,
                Some((api_version, kind)),
                Reader::nested(raw, nested.offset),
            );
        }
        let json = checked_json(raw)?;
        self.compact(json.as_bytes());
        Ok(())
    }

    fn absent(&mut self, context: Context<'_>, field: &Field) -> Result<(), ProtobufError> {
        match Absent::of(field) {
            Absent::Null => self.null(),
            Absent::EmptyList => self.out.extend_from_slice(b"[]"),
            Absent::Zero => self.value(context, &field.shape, field.number, &mut Reader::new(&ZEROS))?,
        }
        Ok(())
    }

    /// Writes a comma unless this is the first element.
    #[inline]
    fn comma(&mut self) {
        separate(self.out);
    }

    /// Names of the schema need no escapes.
    #[inline]
    fn key(&mut self, name: &str) {
        self.comma();
        self.plain_text(name);
        self.out.push(b':');
    }

    #[inline]
    fn plain_text(&mut self, text: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    #[inline]
    fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        if bytes.iter().any(|byte| needs_escape(*byte)) {
            self.escaped_text(bytes);
        } else {
            self.plain_text(text);
        }
    }

    #[cold]
    fn escaped_text(&mut self, mut rest: &[u8]) {
        self.out.push(b'"');
        while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
            self.out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let length = self.character(rest);
            rest = &rest[length..];
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'"');
    }

    /// Writes the next character, escaped if necessary; returns its length.
    fn character(&mut self, rest: &[u8]) -> usize {
        let escape: &[u8] = match rest {
            [b'"', ..] => b"\\\"",
            [b'\\', ..] => b"\\\\",
            [b'\n', ..] => b"\\n",
            [b'\r', ..] => b"\\r",
            [b'\t', ..] => b"\\t",
            [0x08, ..] => b"\\b",
            [0x0c, ..] => b"\\f",
            _ => return self.markup(rest),
        };
        self.out.extend_from_slice(escape);
        1
    }

    /// Like [`character`](Self::character), for characters that are escaped in raw JSON too.
    fn markup(&mut self, rest: &[u8]) -> usize {
        match rest {
            // The line separators U+2028 and U+2029, which end a line in JavaScript.
            [0xe2, 0x80, last @ (0xa8 | 0xa9), ..] => {
                self.out.extend_from_slice(b"\\u202");
                self.out.push(b'0' + (last & 0xf));
                3
            }
            [byte @ (0..0x20 | b'<' | b'>' | b'&'), ..] => {
                let digit = |value: u8| b"0123456789abcdef"[value as usize];
                self.out.extend_from_slice(b"\\u00");
                self.out.extend([digit(byte >> 4), digit(byte & 15)]);
                1
            }
            _ => {
                self.out.extend(rest.first());
                1
            }
        }
    }

    fn base64(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        let start = self.out.len();
        // Four characters for every three bytes, rounded up.
        self.out.resize(start + bytes.len().div_ceil(3) * 4, 0);
        let written = STANDARD.encode_slice(bytes, &mut self.out[start..]).unwrap_or(0);
        self.out.truncate(start + written);
        self.out.push(b'"');
    }

    fn null(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    fn number(&mut self, value: i64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = value.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            self.out.push(b'-');
        }
        self.out.extend_from_slice(&digits[at..]);
    }

    /// Go prints an integral float without a point; JSON has no NaN or infinity.
    fn float(&mut self, value: f64) {
        match special::whole(value) {
            Some(whole) => self.number(whole),
            None => self
                .out
                .extend_from_slice(serde_json::Value::from(value).to_string().as_bytes()),
        }
    }

    /// Copies raw JSON without white space between tokens and with markup escaped, so that an object is one line.
    fn compact(&mut self, json: &[u8]) {
        let is_space = |byte: u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let is_copied = |byte: u8| !is_space(byte) & !is_markup(byte);
        // A chunk without special bytes is copied at once.
        let mut chunks = json.chunks(LOOK_BYTES);
        if chunks.all(|chunk| chunk.iter().fold(true, |all, byte| all & is_copied(*byte))) {
            self.out.extend_from_slice(json);
            return;
        }
        let (mut in_text, mut escaped, mut at) = (false, false, 0);
        while let Some(&byte) = json.get(at) {
            at += match in_text || !is_space(byte) {
                true => self.markup(&json[at..]),
                false => 1,
            };
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                _ => {}
            }
        }
    }
}

/// The chunk size for copying raw JSON.
const LOOK_BYTES: usize = 128;

/// Writes a comma unless this is the first element.
#[inline]
fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[') | None) {
        out.push(b',');
    }
}

/// True if a character that begins with this byte may need an escape within a string.
fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\' || is_markup(byte)
}

/// True if a character that begins with this byte may be one Go escapes for browsers.
fn is_markup(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | 0xe2)
}

/// Raw JSON in a message must be valid, or the text around it would not be.
fn checked_json(raw: Raw<'_>) -> Result<&str, ProtobufError> {
    let failed = |reason: String| ProtobufError {
        offset: raw.offset,
        kind: ProtobufErrorKind::Other(format!("invalid JSON within: {reason}")),
    };
    let text = std::str::from_utf8(raw.bytes).map_err(|error| failed(error.to_string()))?;
    let json: &RawValue = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
    Ok(json.get())
}
