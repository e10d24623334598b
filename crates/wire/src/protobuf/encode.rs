//! Encodes a JSON value as a message, byte for byte as Go does.
//!
//! Go writes fields by ascending number, every non-pointer field even if it is zero, maps sorted by key, and nothing
//! for a nil list, map or pointer. A missing or null JSON value is Go's zero value. Undeclared fields are dropped, as
//! in Go.

mod zeros;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::envelope::Envelope;
use super::fields::MAX_DEPTH;
use super::primitive::{WireType, put_bytes, put_tag, put_varint, varint_len};
use super::time;
use crate::schema::{Field, Schema, Shape, TypeId};
use crate::values::{Duration, read_micro_time, read_time};
use watchkeeper_meta::Time;
pub(crate) use zeros::LazyZeros;
use zeros::{Present, Zeros};

/// A JSON value that cannot be encoded as protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write {path:?} as protobuf: {reason}")]
pub struct EncodeError {
    /// The path in the object, `spec.containers[0].name`; empty for the object itself.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// Encodes a whole body: the envelope with the object's `apiVersion` and `kind`, and its message.
pub fn encode_body(schema: &Schema, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let id = kind_id(schema, api_version, kind)?;
    let raw = encode_message(schema, id, value)?;
    let mut out = Vec::with_capacity(raw.len() + 64);
    Envelope {
        api_version,
        kind,
        raw: &raw,
    }
    .write(&mut out);
    Ok(out)
}

/// Encodes an object's message without an envelope.
pub fn encode_message(schema: &Schema, id: TypeId, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let Value::Object(object) = value else {
        return Err(*EncodeError::expected("an object", value));
    };
    let mut encoder = Encoder::new(schema);
    encoder.message(id, Some(object)).map_err(|error| *error)?;
    Ok(encoder.out)
}

/// The type of a kind that has a protobuf form.
pub(super) fn kind_id(schema: &Schema, api_version: &str, kind: &str) -> Result<TypeId, EncodeError> {
    let id = schema.kind(api_version, kind);
    id.filter(|id| schema[*id].has_protobuf()).ok_or_else(|| {
        *EncodeError::new(format!(
            "no protobuf for kind {kind:?} in version {api_version:?}"
        ))
    })
}

impl EncodeError {
    #[cold]
    fn new(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            path: String::new(),
            reason: reason.into(),
        })
    }

    pub(super) fn from_reason(reason: impl std::fmt::Display) -> Self {
        *Self::new(reason.to_string())
    }

    #[cold]
    fn expected(what: &str, found: &Value) -> Box<Self> {
        Self::new(format!(
            "expected {what}, found {}",
            crate::canonical::json_type(found)
        ))
    }

    /// Prepends the enclosing path to the error.
    #[cold]
    pub(super) fn within(mut self: Box<Self>, outer: &str) -> Box<Self> {
        let separator = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path = format!("{outer}{separator}{}", self.path);
        self
    }
}

/// The result of writing. The error is boxed, so that every `Result` on the way is small.
pub(super) type Written = Result<(), Box<EncodeError>>;

/// Appends messages to its output.
pub(super) struct Encoder<'s> {
    pub(super) schema: &'s Schema,
    depth: usize,
    /// The deepest nesting so far.
    deepest: usize,
    /// True if the zeros of absent fields are copied.
    copies_zeros: bool,
    pub(super) out: Vec<u8>,
}

impl<'s> Encoder<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self {
            schema,
            depth: 0,
            deepest: 0,
            copies_zeros: true,
            out: Vec::with_capacity(1024),
        }
    }

    /// An encoder that visits every field, absent ones too. It makes the zeros the others copy.
    fn field_by_field(schema: &'s Schema) -> Self {
        Self {
            copies_zeros: false,
            out: Vec::new(),
            ..Self::new(schema)
        }
    }

    /// Enters a nested message.
    pub(super) fn enter(&mut self) -> Written {
        if self.depth == MAX_DEPTH {
            return Err(EncodeError::new(format!(
                "nested deeper than {MAX_DEPTH} messages"
            )));
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Writes the fields of an object; `None` is Go's zero value.
    fn message(&mut self, id: TypeId, object: Option<&Map<String, Value>>) -> Written {
        let zeros = match self.copies_zeros {
            true => self.schema[id].zeros.get(self.schema, id),
            false => None,
        };
        match (object, zeros) {
            (None, Some(zeros)) if self.has_room_for(zeros) => self.out.extend_from_slice(zeros.all()),
            (Some(object), Some(zeros)) if self.has_room_for(zeros) => {
                self.present_fields(id, object, zeros)?;
            }
            _ => self.every_field(id, object)?,
        }
        Ok(())
    }

    fn has_room_for(&self, zeros: &Zeros) -> bool {
        self.depth + zeros.depth <= MAX_DEPTH
    }

    /// Writes the fields an object has, with the zeros of absent ones between them.
    fn present_fields(&mut self, id: TypeId, object: &Map<String, Value>, zeros: &Zeros) -> Written {
        self.enter()?;
        let declared = &self.schema[id];
        let mut present = Present::of(declared, object);
        let mut written = 0;
        while let Some((number, value)) = present.next() {
            self.copy(zeros.between(written, number));
            if let Some((_, field)) = declared.field_numbered(number as u32) {
                self.declared_field(field, Some(value), Some(object))?;
            }
            written = number + 1;
        }
        self.copy(zeros.from(written));
        self.leave();
        Ok(())
    }

    /// Appends zeros; usually there are none.
    #[inline]
    fn copy(&mut self, zeros: &[u8]) {
        if !zeros.is_empty() {
            self.out.extend_from_slice(zeros);
        }
    }

    /// Writes every field of a type, present or not.
    fn every_field(&mut self, id: TypeId, object: Option<&Map<String, Value>>) -> Written {
        self.enter()?;
        for field in self.schema[id].wire_fields() {
            let value = object.and_then(|object| object.get(&*field.name));
            self.declared_field(field, value.filter(|value| !value.is_null()), object)?;
        }
        self.leave();
        Ok(())
    }

    /// Writes a field of an object. The fields of an embedded type are in the same object.
    fn declared_field(
        &mut self,
        field: &Field,
        value: Option<&Value>,
        object: Option<&Map<String, Value>>,
    ) -> Written {
        match field.shape {
            Shape::Struct(inner) if field.embedded => {
                self.length_delimited(field.number, |encoder| encoder.message(inner, object))
            }
            _ => self
                .field(field, value)
                .map_err(|error| error.within(&field.name)),
        }
    }

    /// Writes a field; `None` is a missing value, for which Go writes a zero unless it would be nil.
    pub(super) fn field(&mut self, field: &Field, value: Option<&Value>) -> Written {
        let number = field.number;
        let Some(value) = value else {
            return if field.pointer || field.shape.is_nil_when_absent() {
                Ok(())
            } else {
                self.value(number, &field.shape, &Value::Null)
            };
        };
        match &field.shape {
            Shape::List(item) => {
                let items = value
                    .as_array()
                    .ok_or_else(|| EncodeError::expected("a list", value))?;
                self.items(number, item, items)
            }
            Shape::Map(shape) => self.entries(number, shape, value),
            shape => self.value(number, shape, value),
        }
    }

    fn items(&mut self, number: u32, shape: &Shape, items: &[Value]) -> Written {
        for (index, item) in items.iter().enumerate() {
            let done = self.value(number, shape, item);
            done.map_err(|error| error.within(&format!("[{index}]")))?;
        }
        Ok(())
    }

    fn entries(&mut self, number: u32, shape: &Shape, value: &Value) -> Written {
        let entries = value
            .as_object()
            .ok_or_else(|| EncodeError::expected("a map", value))?;
        for (key, value) in entries {
            self.length_delimited(number, |encoder| {
                put_bytes(&mut encoder.out, 1, key.as_bytes());
                if value.is_null() && *shape == Shape::Bytes {
                    return Ok(());
                }
                encoder
                    .value(2, shape, value)
                    .map_err(|error| error.within(&format!("[{key}]")))
            })?;
        }
        Ok(())
    }

    /// Writes one value with its tag; null is the zero value.
    pub(super) fn value(&mut self, number: u32, shape: &Shape, value: &Value) -> Written {
        match shape {
            Shape::String(_) => put_bytes(&mut self.out, number, text(value)?.as_bytes()),
            Shape::Bool => self.varint(number, u64::from(boolean(value)?)),
            Shape::Int32 => self.varint(number, i64::from(int32(value)?) as u64),
            Shape::Int64 => self.varint(number, int64(value)? as u64),
            Shape::Float64 => {
                put_tag(&mut self.out, number, WireType::Fixed64);
                let float = if value.is_null() {
                    Some(0.0)
                } else {
                    value.as_f64()
                };
                let float = float.ok_or_else(|| EncodeError::expected("a number", value))?;
                self.out.extend_from_slice(&float.to_le_bytes());
            }
            Shape::Bytes => {
                let bytes = STANDARD.decode(text(value)?);
                let bytes = bytes.map_err(|error| EncodeError::new(format!("not base64: {error}")))?;
                put_bytes(&mut self.out, number, &bytes);
            }
            Shape::Struct(id) => {
                let object = match value {
                    Value::Null => None,
                    Value::Object(object) => Some(object),
                    other => return Err(EncodeError::expected("an object", other)),
                };
                self.length_delimited(number, |encoder| encoder.message(*id, object))?;
            }
            Shape::ListMessage(item) => {
                let items = match value {
                    Value::Null => &[],
                    Value::Array(items) => items.as_slice(),
                    other => return Err(EncodeError::expected("a list", other)),
                };
                self.length_delimited(number, |encoder| encoder.items(1, item, items))?;
            }
            Shape::List(_) | Shape::Map(_) => {
                return Err(EncodeError::new("a list of lists has no protobuf form"));
            }
            Shape::Time => {
                let time = optional_text(value)?.map(read_time).transpose();
                let time = time.map_err(EncodeError::from_reason)?;
                self.time(number, time.map(|time| Time { nanos: 0, ..time }))?;
            }
            Shape::MicroTime => {
                let time = optional_text(value)?.map(read_micro_time).transpose();
                self.time(number, time.map_err(EncodeError::from_reason)?)?;
            }
            Shape::Duration => {
                let parsed = optional_text(value)?.map(str::parse::<Duration>).transpose();
                let Duration { nanos } = parsed.map_err(EncodeError::from_reason)?.unwrap_or_default();
                self.length_delimited(number, |encoder| {
                    encoder.varint(1, nanos as u64);
                    Ok(())
                })?;
            }
            Shape::Quantity => {
                let text = crate::canonical::quantity_text(value).map_err(EncodeError::new)?;
                self.length_delimited(number, |encoder| {
                    put_bytes(&mut encoder.out, 1, text.as_bytes());
                    Ok(())
                })?;
            }
            Shape::IntOrString => self.int_or_string(number, value)?,
            Shape::FieldsV1 | Shape::RawExtension | Shape::Json => {
                self.length_delimited(number, |encoder| {
                    if !value.is_null() {
                        let text =
                            serde_json::to_vec(value).map_err(|error| EncodeError::new(error.to_string()))?;
                        put_bytes(&mut encoder.out, 1, &text);
                    }
                    Ok(())
                })?;
            }
            Shape::Any => return Err(EncodeError::new("the field has no protobuf form")),
            Shape::SchemaOrBool(id) => self.schema_or_bool(number, *id, value)?,
            Shape::SchemaOrArray(id) => self.schema_or(number, *id, &Shape::Struct(*id), value)?,
            Shape::SchemaOrStrings(id) => self.schema_or(number, *id, &Shape::String(None), value)?,
        }
        Ok(())
    }

    pub(super) fn varint(&mut self, number: u32, value: u64) {
        put_tag(&mut self.out, number, WireType::Varint);
        put_varint(&mut self.out, value);
    }

    /// Writes a message whose length is known only afterwards. Most lengths fit one byte; longer messages are moved
    /// to make room.
    pub(super) fn length_delimited(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Self) -> Written,
    ) -> Written {
        put_tag(&mut self.out, number, WireType::Bytes);
        let length_at = self.out.len();
        self.out.push(0);
        let body_at = self.out.len();
        write(self)?;
        let length = self.out.len() - body_at;
        let more = varint_len(length as u64) - 1;
        if more > 0 {
            self.out.resize(body_at + length + more, 0);
            self.out.copy_within(body_at..body_at + length, body_at + more);
        }
        let mut rest = length;
        for (index, byte) in self.out[length_at..=length_at + more].iter_mut().enumerate() {
            *byte = (rest & 0x7f) as u8 | if index < more { 0x80 } else { 0 };
            rest >>= 7;
        }
        Ok(())
    }

    fn time(&mut self, number: u32, time: Option<Time>) -> Written {
        self.length_delimited(number, |encoder| {
            if let Some(time) = time {
                time::write(&mut encoder.out, time);
            }
            Ok(())
        })
    }

    fn int_or_string(&mut self, number: u32, value: &Value) -> Written {
        let (which, int, text) = match value {
            Value::String(text) => (1, 0, text.as_str()),
            other => (0, int32(other)?, ""),
        };
        self.length_delimited(number, |encoder| {
            encoder.varint(1, which);
            encoder.varint(2, i64::from(int) as u64);
            put_bytes(&mut encoder.out, 3, text.as_bytes());
            Ok(())
        })
    }

    fn schema_or_bool(&mut self, number: u32, id: TypeId, value: &Value) -> Written {
        let schema = match value {
            Value::Object(schema) => Some(schema),
            Value::Bool(_) | Value::Null => None,
            other => return Err(EncodeError::expected("a schema or a boolean", other)),
        };
        self.length_delimited(number, |encoder| {
            // A schema implies `allows: true`.
            encoder.varint(1, u64::from(schema.is_some() || *value == Value::Bool(true)));
            match schema {
                Some(schema) => encoder.length_delimited(2, |encoder| encoder.message(id, Some(schema))),
                None => Ok(()),
            }
        })
    }

    fn schema_or(&mut self, number: u32, id: TypeId, item: &Shape, value: &Value) -> Written {
        self.length_delimited(number, |encoder| match value {
            Value::Object(schema) => encoder.length_delimited(1, |encoder| encoder.message(id, Some(schema))),
            Value::Array(items) => encoder.items(2, item, items),
            Value::Null => Ok(()),
            other => Err(EncodeError::expected("a schema or a list", other)),
        })
    }
}

impl Shape {
    /// True if Go's zero value is nil, for which nothing is written.
    fn is_nil_when_absent(&self) -> bool {
        matches!(
            self,
            Shape::List(_) | Shape::Map(_) | Shape::ListMessage(_) | Shape::Bytes | Shape::Any
        )
    }
}

fn text(value: &Value) -> Result<&str, Box<EncodeError>> {
    match value {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        other => Err(EncodeError::expected("a string", other)),
    }
}

fn optional_text(value: &Value) -> Result<Option<&str>, Box<EncodeError>> {
    if value.is_null() {
        Ok(None)
    } else {
        text(value).map(Some)
    }
}

fn boolean(value: &Value) -> Result<bool, Box<EncodeError>> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(value) => Ok(*value),
        other => Err(EncodeError::expected("a boolean", other)),
    }
}

fn int64(value: &Value) -> Result<i64, Box<EncodeError>> {
    match value {
        Value::Null => Ok(0),
        other => other
            .as_i64()
            .ok_or_else(|| EncodeError::expected("an integer", other)),
    }
}

fn int32(value: &Value) -> Result<i32, Box<EncodeError>> {
    let wide = int64(value)?;
    i32::try_from(wide).map_err(|_| EncodeError::new(format!("{wide} does not fit into 32 bits")))
}
