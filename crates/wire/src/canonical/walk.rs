//! The walk through an object beside its schema.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Canonical, STRICT_LIMIT, StrictError, TypeError, base64, go_type, json_type};
use crate::limits::NESTING_LIMIT;
use crate::schema::{Field, Schema, Shape, TypeId, UnknownFields};
use crate::values::{Duration, Quantity, read_micro_time, read_time};
use watchkeeper_meta::Time;

/// Go's zero time, which it prints as null: 0001-01-01T00:00:00Z.
const ZERO_SECONDS: i64 = -62_135_596_800;

pub(super) fn canonicalize(schema: &Schema, id: TypeId, value: Value) -> Result<Canonical, TypeError> {
    let mut walk = Walk {
        schema,
        owner: "",
        fields: Vec::new(),
        path: Vec::new(),
        unknown: Vec::new(),
    };
    let value = match value {
        Value::Object(object) => walk.structure(id, object)?,
        Value::Null => walk.structure(id, Map::new())?,
        other => return Err(walk.mismatch(&Shape::Struct(id), &other, &schema[id].name)),
    };
    Ok(Canonical {
        value,
        unknown: walk.unknown,
    })
}

/// A quantity in canonical form; null is zero, a number is its text.
pub(crate) fn quantity_text(value: &Value) -> Result<String, String> {
    let parsed = match value {
        Value::Null => return Ok("0".to_owned()),
        Value::String(text) => text.trim().parse::<Quantity>(),
        // Go reads the JSON text itself, whatever it is.
        other => other.to_string().parse(),
    };
    let quantity = parsed.map_err(|error| error.to_string())?;
    Ok(quantity.to_string())
}

struct Walk<'s> {
    schema: &'s Schema,
    /// The struct that holds the field at hand, for error texts.
    owner: &'s str,
    /// The fields on the way, for error texts: no indexes, no keys of maps.
    fields: Vec<&'s str>,
    /// Everything on the way, for complaints.
    path: Vec<Segment<'s>>,
    unknown: Vec<StrictError>,
}

enum Segment<'s> {
    Field(&'s str),
    Key(String),
    Index(usize),
}

impl<'s> Walk<'s> {
    fn structure(&mut self, id: TypeId, object: Map<String, Value>) -> Result<Value, TypeError> {
        let declared = &self.schema[id];
        let mut out = Map::new();
        let mut given = object;
        let outer = self.owner;
        if self.path.len() > NESTING_LIMIT as usize {
            return Err(TypeError::new(format!(
                "nested deeper than {NESTING_LIMIT} levels"
            )));
        }
        self.members(id, declared.short_name(), &mut given, &mut out)?;
        self.owner = outer;
        match declared.unknown_fields {
            UnknownFields::Drop => given.keys().for_each(|key| self.complain(key)),
            UnknownFields::Keep => out.append(&mut given),
        }
        Ok(Value::Object(out))
    }

    /// Moves the members of a type from one object to another; those of embedded types likewise.
    fn members(
        &mut self,
        id: TypeId,
        owner: &'s str,
        given: &mut Map<String, Value>,
        out: &mut Map<String, Value>,
    ) -> Result<(), TypeError> {
        for field in &self.schema[id].fields {
            match field.shape {
                Shape::Struct(embedded) if field.embedded => self.members(embedded, owner, given, out)?,
                _ => {
                    self.owner = owner;
                    let value = given.remove(&*field.name).unwrap_or(Value::Null);
                    if let Some(value) = self.field(field, value)? {
                        out.insert(field.name.clone().into_owned(), value);
                    }
                }
            }
        }
        Ok(())
    }

    /// The value that is shown for a field; `None` when it is left out.
    fn field(&mut self, field: &'s Field, value: Value) -> Result<Option<Value>, TypeError> {
        if value.is_null() {
            return Ok(field.shown_when_absent().then(|| self.zero_field(field)));
        }
        self.fields.push(&field.name);
        self.path.push(Segment::Field(&field.name));
        let declared = field.declared.trim_start_matches('*');
        let value = self.value(&field.shape, declared, value)?;
        self.path.pop();
        self.fields.pop();
        Ok((!is_left_out(field, &value)).then_some(value))
    }

    fn value(&mut self, shape: &'s Shape, declared: &'s str, value: Value) -> Result<Value, TypeError> {
        match (shape, value) {
            (shape, Value::Null) => Ok(self.zero(shape)),
            (Shape::String(_), value @ Value::String(_)) => Ok(value),
            (Shape::Bool, value @ Value::Bool(_)) => Ok(value),
            (Shape::Int32, Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|wide| i32::try_from(wide).is_ok());
                if fits {
                    Ok(Value::Number(number))
                } else {
                    Err(self.unfit(&number, declared))
                }
            }
            (Shape::Int64, Value::Number(number)) => {
                if number.is_i64() {
                    Ok(Value::Number(number))
                } else {
                    Err(self.unfit(&number, declared))
                }
            }
            (Shape::Float64, Value::Number(number)) => Ok(whole_number(number)),
            (Shape::Bytes, Value::String(text)) => match base64::decode(&text) {
                Ok(bytes) => Ok(Value::String(STANDARD.encode(bytes))),
                Err(offset) => Err(TypeError::new(format!(
                    "illegal base64 data at input byte {offset}"
                ))),
            },
            (Shape::Struct(id), Value::Object(object)) => self.structure(*id, object),
            (Shape::List(item) | Shape::ListMessage(item), Value::Array(items)) => {
                self.items(item, go_type::item(declared, item, self.schema), items)
            }
            (Shape::Map(item), Value::Object(entries)) => {
                self.entries(item, go_type::item(declared, item, self.schema), entries)
            }
            (Shape::Time, Value::String(text)) => time(read_time(&text), Time::to_rfc3339),
            (Shape::MicroTime, Value::String(text)) => time(read_micro_time(&text), Time::to_rfc3339_micro),
            (Shape::Time | Shape::MicroTime | Shape::Duration, other) if !other.is_string() => {
                Err(self.mismatch(shape, &other, "string"))
            }
            (Shape::Duration, Value::String(text)) => match text.parse::<Duration>() {
                Ok(duration) => Ok(Value::String(duration.to_string())),
                Err(error) => Err(TypeError::new(error.to_string())),
            },
            (Shape::Quantity, value) => match quantity_text(&value) {
                Ok(text) => Ok(Value::String(text)),
                Err(message) => Err(TypeError::new(message)),
            },
            (Shape::IntOrString, value @ Value::String(_)) => Ok(value),
            (Shape::IntOrString, value) => self.value(&Shape::Int32, "int32", value),
            (Shape::FieldsV1 | Shape::RawExtension | Shape::Json | Shape::Any, value) => Ok(value),
            (Shape::SchemaOrBool(_), value @ Value::Bool(_)) => Ok(value),
            (
                Shape::SchemaOrBool(id) | Shape::SchemaOrArray(id) | Shape::SchemaOrStrings(id),
                Value::Object(it),
            ) => self.structure(*id, it),
            (Shape::SchemaOrArray(id), Value::Array(items)) => {
                let items = items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| self.schema_item(*id, index, item));
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            (Shape::SchemaOrStrings(_), Value::Array(items)) => {
                self.items(&Shape::String(None), "string", items)
            }
            (Shape::SchemaOrBool(_), _) => Err(TypeError::new("boolean or JSON schema expected".to_owned())),
            (shape, other) => Err(self.mismatch(shape, &other, declared)),
        }
    }

    fn items(&mut self, shape: &'s Shape, declared: &'s str, items: Vec<Value>) -> Result<Value, TypeError> {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            self.path.push(Segment::Index(index));
            out.push(self.value(shape, declared, item)?);
            self.path.pop();
        }
        Ok(Value::Array(out))
    }

    fn schema_item(&mut self, id: TypeId, index: usize, item: Value) -> Result<Value, TypeError> {
        self.path.push(Segment::Index(index));
        let item = match item {
            Value::Object(object) => self.structure(id, object)?,
            Value::Null => self.structure(id, Map::new())?,
            other => return Err(self.mismatch(&Shape::Struct(id), &other, &self.schema[id].name)),
        };
        self.path.pop();
        Ok(item)
    }

    fn entries(
        &mut self,
        shape: &'s Shape,
        declared: &'s str,
        entries: Map<String, Value>,
    ) -> Result<Value, TypeError> {
        let mut out = Map::new();
        for (key, value) in entries {
            self.path.push(Segment::Key(key.clone()));
            let value = self.value(shape, declared, value)?;
            self.path.pop();
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }

    /// What is shown for a field that has no value.
    fn zero_field(&self, field: &'s Field) -> Value {
        match &field.shape {
            _ if field.pointer => Value::Null,
            Shape::List(_) if field.list_items => Value::Array(Vec::new()),
            shape => self.zero(shape),
        }
    }

    fn zero(&self, shape: &'s Shape) -> Value {
        match shape {
            Shape::String(_) => Value::String(String::new()),
            Shape::Bool | Shape::SchemaOrBool(_) => Value::Bool(false),
            Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => Value::from(0),
            Shape::Quantity => Value::from("0"),
            Shape::Duration => Value::from("0s"),
            Shape::Struct(id) => {
                let mut out = Map::new();
                self.zero_members(*id, &mut out);
                Value::Object(out)
            }
            _ => Value::Null,
        }
    }

    fn zero_members(&self, id: TypeId, out: &mut Map<String, Value>) {
        for field in &self.schema[id].fields {
            match field.shape {
                Shape::Struct(embedded) if field.embedded => self.zero_members(embedded, out),
                _ if field.shown_when_absent() => {
                    out.insert(field.name.clone().into_owned(), self.zero_field(field));
                }
                _ => {}
            }
        }
    }

    fn complain(&mut self, key: &str) {
        let path = join(self.path.iter(), key);
        let complaint = StrictError::Unknown { path };
        if self.unknown.len() < STRICT_LIMIT && !self.unknown.contains(&complaint) {
            self.unknown.push(complaint);
        }
    }

    fn mismatch(&self, shape: &Shape, found: &Value, declared: &str) -> TypeError {
        TypeError {
            conversion: go_type::conversion_error(shape, found, declared),
            ..self.unmarshal_error(json_type(found), declared)
        }
    }

    /// A number that the type cannot hold is named.
    fn unfit(&self, number: &serde_json::Number, declared: &str) -> TypeError {
        let is_fraction = !number.is_i64() && !number.is_u64();
        TypeError {
            conversion: is_fraction
                .then(|| format!("cannot convert float64 to {}", go_type::print(declared))),
            ..self.unmarshal_error(&format!("number {number}"), declared)
        }
    }

    fn unmarshal_error(&self, found: &str, declared: &str) -> TypeError {
        let wanted = go_type::print(declared);
        let place = match self.owner {
            "" => "value".to_owned(),
            owner => format!("struct field {owner}.{}", self.fields.join(".")),
        };
        TypeError::new(format!(
            "json: cannot unmarshal {found} into Go {place} of type {wanted}"
        ))
    }
}

/// Whether a present value is left out.
fn is_left_out(field: &Field, value: &Value) -> bool {
    if field.pointer {
        return field.omit_empty && value.is_null();
    }
    match (&field.shape, value) {
        (Shape::Time | Shape::MicroTime, Value::Null) => field.omit_zero,
        _ if !field.omit_empty => false,
        (Shape::String(_) | Shape::Bytes, Value::String(text)) => text.is_empty(),
        (Shape::Bool, Value::Bool(value)) => !value,
        (Shape::Int32 | Shape::Int64 | Shape::Float64, Value::Number(number)) => number.as_f64() == Some(0.0),
        (Shape::List(_) | Shape::ListMessage(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(entries)) => entries.is_empty(),
        _ => false,
    }
}

fn time<E: std::fmt::Display>(
    read: Result<Time, E>,
    print: impl Fn(Time) -> String,
) -> Result<Value, TypeError> {
    let time = read.map_err(|error| TypeError::new(error.to_string()))?;
    Ok(match time {
        Time {
            seconds: ZERO_SECONDS,
            nanos: 0,
        } => Value::Null,
        time => Value::String(print(time)),
    })
}

/// Go prints a whole number without a point.
fn whole_number(number: serde_json::Number) -> Value {
    let whole = number
        .as_f64()
        .filter(|_| number.is_f64())
        .and_then(crate::protobuf::whole);
    whole.map_or(Value::Number(number), Value::from)
}

fn join<'a, 's: 'a>(path: impl Iterator<Item = &'a Segment<'s>>, last: &str) -> String {
    let mut out = String::new();
    for segment in path {
        match segment {
            Segment::Index(index) => out.push_str(&format!("[{index}]")),
            Segment::Field(name) => push_name(&mut out, name),
            Segment::Key(key) => push_name(&mut out, key),
        }
    }
    push_name(&mut out, last);
    out
}

fn push_name(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}
