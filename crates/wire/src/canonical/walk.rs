//! Walks an object along its schema and canonicalizes it in place.
//!
//! Most objects a server reads are canonical already, and then nothing is allocated. The walk visits the fields the
//! object has, not all fields of its type, and builds paths only for errors.
//!
//! An object that differs little from a canonical one is walked along the [`Difference`] only. Unchanged parts are
//! already canonical, and a struct that lost no member needs no zero values added.

use std::borrow::Cow;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Canonical, STRICT_LIMIT, StrictError, TypeError, base64, go_type, json_type};
use crate::difference::Difference;
use crate::limits::NESTING_LIMIT;
use crate::schema::{Field, Schema, Shape, TypeId, UnknownFields};
use crate::values::{Duration, Quantity, is_plain_quantity, read_micro_time, read_time};
use watchkeeper_meta::Time;

const LABEL_SELECTOR: &str = "meta/v1.LabelSelector";

/// The list whose default replaces a missing list and not an empty one. Validation refuses it empty, so none is stored.
const KEPT_EMPTY: (&str, &str) = ("autoscaling/v2.HPAScalingRules", "policies");

/// Go's zero time, which it prints as null: 0001-01-01T00:00:00Z.
const ZERO_SECONDS: i64 = -62_135_596_800;

pub(super) fn canonicalize(
    schema: &Schema,
    id: TypeId,
    mut value: Value,
    difference: &Difference,
) -> Result<Canonical, TypeError> {
    let mut walk = Walk {
        schema,
        unknown: Vec::new(),
        unknown_in_structs: Vec::new(),
        emptied: Vec::new(),
    };
    walk.object(id, &mut value, difference, &schema[id].name, &Place::ROOT)?;
    Ok(Canonical {
        value,
        emptied: std::mem::take(&mut walk.emptied),
        unknown: walk.complaints(schema[id].structural),
    })
}

/// A quantity in canonical form; null is zero, a number is read as its text.
pub(crate) fn quantity_text(value: &Value) -> Result<Cow<'_, str>, String> {
    let parsed = match value {
        Value::Null => return Ok("0".into()),
        Value::String(text) if is_plain_quantity(text) => return Ok(text.into()),
        Value::String(text) => text.trim().parse::<Quantity>(),
        // Go parses the JSON text of any other value.
        other => other.to_string().parse(),
    };
    let quantity = parsed.map_err(|error| error.to_string())?;
    Ok(quantity.to_string().into())
}

pub(super) struct Walk<'s> {
    pub(super) schema: &'s Schema,
    pub(super) unknown: Vec<StrictError>,
    /// Unknown fields of the Go structs within a custom object: its metadata.
    pub(super) unknown_in_structs: Vec<StrictError>,
    /// Empty maps that are omitted.
    emptied: Vec<String>,
}

/// The place of a value in its object.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    within: Option<&'p Place<'p>>,
    step: Step<'p>,
    pub(super) depth: u32,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'p> {
    Root,
    /// A field of the struct of this type.
    Field(TypeId, &'p str),
    Key(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    const ROOT: Place<'static> = Place {
        within: None,
        step: Step::Root,
        depth: 0,
    };

    pub(super) fn below(&'p self, step: Step<'p>) -> Place<'p> {
        Place {
            within: Some(self),
            step,
            depth: self.depth + 1,
        }
    }
}

impl<'s> Walk<'s> {
    /// A struct; null is a struct without fields.
    pub(super) fn object(
        &mut self,
        id: TypeId,
        value: &mut Value,
        difference: &Difference,
        declared: &str,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        if self.schema[id].structural {
            return self.prune(&Shape::Struct(id), value, difference, at);
        }
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(members) => self.members(id, members, difference, at),
            other => Err(self.mismatch(&Shape::Struct(id), other, declared, at)),
        }
    }

    fn members(
        &mut self,
        id: TypeId,
        members: &mut Map<String, Value>,
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        if at.depth > NESTING_LIMIT {
            return Err(TypeError::new(format!(
                "nested deeper than {NESTING_LIMIT} levels"
            )));
        }
        let (mut left_out, mut unknown) = (Vec::new(), Vec::new());
        for (name, value) in members.iter_mut() {
            let below = difference.member(name);
            if below.is_nowhere() {
                continue;
            }
            match self.schema.field(id, name) {
                Some(field) => {
                    if !self.field(field, value, below, &at.below(Step::Field(id, name)))? {
                        left_out.push(name.clone());
                    }
                }
                None => unknown.push(name.clone()),
            }
        }
        let is_all_there = matches!(difference, Difference::Members { gone: false, .. });
        let has_zeros = left_out.is_empty() && is_all_there;
        for name in left_out {
            members.remove(&name);
        }
        if self.schema[id].unknown_fields == UnknownFields::Drop {
            for name in unknown {
                self.complain(&name, at);
                members.remove(&name);
            }
        }
        if !has_zeros {
            self.add_zeros(id, members);
        }
        Ok(())
    }

    /// Adds the zero values Go prints for missing fields.
    fn add_zeros(&self, id: TypeId, members: &mut Map<String, Value>) {
        for field in self.schema[id].shown_when_absent() {
            match field.shape {
                Shape::Struct(embedded) if field.embedded => self.add_zeros(embedded, members),
                _ if !members.contains_key(&*field.name) => {
                    members.insert(field.name.clone().into_owned(), self.zero_field(field));
                }
                _ => {}
            }
        }
    }

    /// Canonicalizes the value of a field; returns false if it is omitted.
    fn field(
        &mut self,
        field: &Field,
        value: &mut Value,
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<bool, TypeError> {
        if value.is_null() {
            let is_shown = field.shown_when_absent();
            if is_shown {
                *value = self.zero_field(field);
            }
            return Ok(is_shown);
        }
        self.value(&field.shape, &field.declared, value, difference, at)?;
        let is_left_out = is_left_out(field, value) && !self.is_kept_empty(at);
        if is_left_out && value.is_object() && self.emptied.len() < STRICT_LIMIT && !self.is_of_selector(at) {
            self.emptied.push(at.pointer());
        }
        Ok(!is_left_out)
    }

    /// True for a field of a label selector: Go omits its empty fields.
    fn is_of_selector(&self, at: &Place<'_>) -> bool {
        matches!(at.step, Step::Field(id, _) if self.schema[id].name == LABEL_SELECTOR)
    }

    /// True for the list that defaults must see empty.
    fn is_kept_empty(&self, at: &Place<'_>) -> bool {
        matches!(at.step, Step::Field(id, name) if (&*self.schema[id].name, name) == KEPT_EMPTY)
    }

    fn value(
        &mut self,
        shape: &Shape,
        declared: &str,
        value: &mut Value,
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        match (shape, &mut *value) {
            (Shape::Struct(id), _) => return self.object(*id, value, difference, declared, at),
            (shape, Value::Null) => *value = self.zero(shape),
            (Shape::String(_), Value::String(_)) | (Shape::Bool, Value::Bool(_)) => {}
            (Shape::Int32, Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|wide| i32::try_from(wide).is_ok());
                if !fits {
                    return Err(self.unfit(number, declared, at));
                }
            }
            (Shape::Int64, Value::Number(number)) => {
                if !number.is_i64() {
                    return Err(self.unfit(number, declared, at));
                }
            }
            (Shape::Float64, Value::Number(number)) => {
                if let Some(whole) = whole_number(number) {
                    *value = whole;
                }
            }
            (Shape::Bytes, Value::String(text)) => match base64::decode(text) {
                Ok(bytes) => *text = STANDARD.encode(bytes),
                Err(offset) => {
                    let message = format!("illegal base64 data at input byte {offset}");
                    return Err(TypeError::new(message));
                }
            },
            (Shape::Bytes, Value::Array(items)) => {
                let bytes: Vec<u8> = items
                    .iter()
                    .map(|item| self.byte(item, at))
                    .collect::<Result<_, _>>()?;
                *value = Value::String(STANDARD.encode(bytes));
            }
            (Shape::List(item) | Shape::ListMessage(item), Value::Array(items)) => {
                let declared = go_type::item(declared, item, self.schema);
                return self.items(item, declared, items, difference, at);
            }
            (Shape::Map(item), Value::Object(entries)) => {
                let declared = go_type::item(declared, item, self.schema);
                return self.entries(item, declared, entries, difference, at);
            }
            (Shape::Time, Value::String(text)) => {
                let time = time(read_time(text), Time::to_rfc3339)?;
                *value = time;
            }
            (Shape::MicroTime, Value::String(text)) => {
                let time = time(read_micro_time(text), Time::to_rfc3339_micro)?;
                *value = time;
            }
            (Shape::Time | Shape::MicroTime | Shape::Duration, other) if !other.is_string() => {
                return Err(self.mismatch(shape, other, "string", at));
            }
            (Shape::Duration, Value::String(text)) => match text.parse::<Duration>() {
                Ok(duration) => *text = duration.to_string(),
                Err(error) => return Err(TypeError::new(error.to_string())),
            },
            (Shape::Quantity, quantity) => match quantity_text(quantity) {
                Ok(Cow::Borrowed(_)) => {}
                Ok(Cow::Owned(text)) => *value = Value::String(text),
                Err(message) => return Err(TypeError::new(message)),
            },
            (Shape::IntOrString, Value::String(_)) => {}
            (Shape::IntOrString, _) => return self.value(&Shape::Int32, "int32", value, difference, at),
            (Shape::FieldsV1 | Shape::RawExtension | Shape::Json | Shape::Any, _) => {}
            (Shape::SchemaOrBool(_), Value::Bool(_)) => {}
            (
                Shape::SchemaOrBool(id) | Shape::SchemaOrArray(id) | Shape::SchemaOrStrings(id),
                Value::Object(members),
            ) => return self.members(*id, members, difference, at),
            (Shape::SchemaOrArray(id), Value::Array(items)) => {
                return self.items(&Shape::Struct(*id), &self.schema[*id].name, items, difference, at);
            }
            (Shape::SchemaOrStrings(_), Value::Array(items)) => {
                return self.items(&Shape::String(None), "string", items, difference, at);
            }
            (Shape::SchemaOrBool(_), _) => {
                return Err(TypeError::new("boolean or JSON schema expected".to_owned()));
            }
            (shape, other) => return Err(self.mismatch(shape, other, declared, at)),
        }
        Ok(())
    }

    /// One byte of a byte array written as a JSON list.
    fn byte(&self, item: &Value, at: &Place<'_>) -> Result<u8, TypeError> {
        match item {
            Value::Null => Ok(0),
            Value::Number(number) => {
                let byte = number.as_u64().and_then(|number| u8::try_from(number).ok());
                byte.ok_or_else(|| self.unfit(number, "uint8", at))
            }
            other => Err(self.mismatch(&Shape::Bytes, other, "uint8", at)),
        }
    }

    fn items(
        &mut self,
        shape: &Shape,
        declared: &str,
        items: &mut [Value],
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        for (index, item) in items.iter_mut().enumerate() {
            let below = difference.item(index);
            if !below.is_nowhere() {
                self.value(shape, declared, item, below, &at.below(Step::Index(index)))?;
            }
        }
        Ok(())
    }

    fn entries(
        &mut self,
        shape: &Shape,
        declared: &str,
        entries: &mut Map<String, Value>,
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        for (key, value) in entries.iter_mut() {
            let below = difference.member(key);
            if !below.is_nowhere() {
                self.value(shape, declared, value, below, &at.below(Step::Key(key)))?;
            }
        }
        Ok(())
    }

    /// The value Go prints for a missing field.
    fn zero_field(&self, field: &Field) -> Value {
        match &field.shape {
            _ if field.pointer => Value::Null,
            Shape::List(_) if field.list_items => Value::Array(Vec::new()),
            shape => self.zero(shape),
        }
    }

    fn zero(&self, shape: &Shape) -> Value {
        match shape {
            Shape::String(_) => Value::String(String::new()),
            Shape::Bool | Shape::SchemaOrBool(_) => Value::Bool(false),
            Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => Value::from(0),
            Shape::Quantity => Value::from("0"),
            Shape::Duration => Value::from("0s"),
            Shape::Struct(id) => {
                let mut members = Map::new();
                self.add_zeros(*id, &mut members);
                Value::Object(members)
            }
            _ => Value::Null,
        }
    }

    /// All dropped fields. Those of a custom object come first, sorted by path, because Kubernetes prunes before it
    /// decodes the metadata.
    fn complaints(mut self, is_structural: bool) -> Vec<StrictError> {
        if is_structural {
            self.unknown.sort_by(|one, other| one.path().cmp(other.path()));
        }
        self.unknown.append(&mut self.unknown_in_structs);
        self.unknown
    }

    pub(super) fn complain(&mut self, key: &str, at: &Place<'_>) {
        let mut path = at.path();
        push_name(&mut path, key);
        let complaint = StrictError::Unknown { path };
        if self.unknown.len() < STRICT_LIMIT && !self.unknown.contains(&complaint) {
            self.unknown.push(complaint);
        }
    }

    fn mismatch(&self, shape: &Shape, found: &Value, declared: &str, at: &Place<'_>) -> TypeError {
        TypeError {
            conversion: go_type::conversion_error(shape, found, declared),
            ..self.unmarshal_error(json_type(found), declared, at)
        }
    }

    /// The error of a number the type cannot hold; Go's text includes it.
    fn unfit(&self, number: &serde_json::Number, declared: &str, at: &Place<'_>) -> TypeError {
        let is_fraction = !number.is_i64() && !number.is_u64();
        TypeError {
            conversion: is_fraction
                .then(|| format!("cannot convert float64 to {}", go_type::print(declared))),
            ..self.unmarshal_error(&format!("number {number}"), declared, at)
        }
    }

    fn unmarshal_error(&self, found: &str, declared: &str, at: &Place<'_>) -> TypeError {
        let wanted = go_type::print(declared);
        let place = match at.owner() {
            Some(owner) => {
                let owner = self.schema[owner].short_name();
                format!("struct field {owner}.{}", at.fields(self.schema).join("."))
            }
            None => "value".to_owned(),
        };
        TypeError::new(format!(
            "json: cannot unmarshal {found} into Go {place} of type {wanted}"
        ))
    }
}

impl Place<'_> {
    /// The struct whose field contains this place.
    fn owner(&self) -> Option<TypeId> {
        match self.step {
            Step::Field(owner, _) => Some(owner),
            _ => self.within?.owner(),
        }
    }

    /// The names of the Go struct fields on the path, without indexes and map keys. An embedded struct counts under
    /// the name of its type.
    fn fields<'a>(&'a self, schema: &'a Schema) -> Vec<&'a str> {
        let mut fields = self
            .within
            .map(|within| within.fields(schema))
            .unwrap_or_default();
        if let Step::Field(mut owner, name) = self.step
            && !schema[owner].structural
        {
            while let Some(field) = schema[owner].own_or_embedding(name).filter(|it| it.embedded)
                && let Shape::Struct(embedded) = field.shape
            {
                fields.push(schema[embedded].short_name());
                owner = embedded;
            }
            fields.push(name);
        }
        fields
    }

    /// The path as a JSON pointer.
    fn pointer(&self) -> String {
        let mut pointer = self.within.map(Place::pointer).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Index(index) => pointer.push_str(&format!("/{index}")),
            Step::Field(_, name) | Step::Key(name) => {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
        }
        pointer
    }

    /// The full path: `spec.containers[0].name`.
    fn path(&self) -> String {
        let mut path = self.within.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Field(_, name) | Step::Key(name) => push_name(&mut path, name),
        }
        path
    }
}

/// True if a present value is omitted.
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

/// Go prints an integral float without a point.
pub(super) fn whole_number(number: &serde_json::Number) -> Option<Value> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    crate::protobuf::whole(float).map(Value::from)
}

fn push_name(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}
