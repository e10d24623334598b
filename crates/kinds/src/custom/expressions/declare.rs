//! Declares a schema for CEL. A field without a type cannot be used, and of metadata only names can.

use std::sync::Arc;

use serde_json::Value;
use watchkeeper_cel::{Declared, Field, Identity, List, Object, Shape, escape};

/// The largest request: no value is larger.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The longest text of a date-time or a duration, with its quotes.
const MAX_TIME_BYTES: u64 = 32;

/// A date with its quotes.
const DATE_BYTES: u64 = 12;

/// The declaration of a schema node, and its minimum size in JSON, which bounds how many fit into a request.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) declared: Declared,
    pub(crate) min_bytes: u64,
}

impl Typed {
    fn new(shape: Shape, max_size: u64, min_bytes: u64) -> Self {
        let declared = Declared { shape, max_size };
        Self { declared, min_bytes }
    }

    /// The maximum number of these in one object.
    pub(crate) fn max_count(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_bytes + 1)
    }
}

/// The declaration of a schema; `None` if CEL cannot use it. An embedded resource has a kind and a name, whatever its
/// schema says.
pub(crate) fn declare(schema: &Value, is_resource: bool, name: &str) -> Option<Typed> {
    let count = |word: &str| schema[word].as_u64();
    if is_int_or_string(schema) {
        let max = count("maxLength").map_or(MAX_REQUEST_BYTES - 2, |max| max.saturating_mul(4));
        return Some(Typed::new(Shape::Dyn, max, 1));
    }
    match schema["type"].as_str()? {
        "array" => {
            let inner = schema.get("items")?;
            let items = declare(inner, is_embedded(inner), &format!("{name}.@idx"))?;
            let fitting = (MAX_REQUEST_BYTES - 2) / (items.min_bytes + 1);
            let list = List {
                items: items.declared,
                identity: identity(schema),
            };
            let max = count("maxItems").unwrap_or(fitting);
            Some(Typed::new(Shape::List(Arc::new(list)), max, 2))
        }
        "object" if schema["additionalProperties"].is_object() => {
            let inner = &schema["additionalProperties"];
            let values = declare(inner, is_embedded(inner), &format!("{name}.@prop"))?;
            let fitting = (MAX_REQUEST_BYTES - 2) / (values.min_bytes + 6);
            let max = count("maxProperties").unwrap_or(fitting);
            Some(Typed::new(Shape::Map(Arc::new(values.declared)), max, 2))
        }
        "object" => Some(object(schema, is_resource, name)),
        "string" => Some(text(schema)),
        "boolean" => Some(Typed::new(Shape::Bool, 1, 4)),
        "number" => Some(Typed::new(Shape::Double, 1, 1)),
        "integer" => Some(Typed::new(Shape::Int, 1, 1)),
        _ => None,
    }
}

fn object(schema: &Value, is_resource: bool, name: &str) -> Typed {
    let mut object = Object {
        name: name.to_owned(),
        ..Object::default()
    };
    // Two for the braces.
    let mut min_bytes = 2;
    let is_required = |field: &String| {
        let mut required = schema["required"].as_array().into_iter().flatten();
        required.any(|name| name == field)
    };
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        let Some(typed) = declare(inner, is_embedded(inner), &format!("{name}.{field}")) else {
            continue;
        };
        if is_required(field) && inner.get("default").is_none_or(Value::is_null) {
            min_bytes += field.len() as u64 + typed.min_bytes + 4;
        }
        add_field(&mut object, field, typed.declared);
    }
    if is_resource {
        let plain = || text(&Value::Null).declared;
        let mut metadata = Object {
            name: format!("{name}.metadata"),
            ..Object::default()
        };
        add_field(&mut metadata, "name", plain());
        add_field(&mut metadata, "generateName", plain());
        add_field(&mut object, "metadata", Declared::object(metadata));
        add_field(&mut object, "apiVersion", plain());
        add_field(&mut object, "kind", plain());
    }
    let declared = Declared::object(object);
    Typed { declared, min_bytes }
}

fn add_field(object: &mut Object, name: &str, declared: Declared) {
    if let Some(escaped) = escape(name) {
        let name = name.to_owned();
        object.fields.insert(escaped, Field { name, declared });
    }
}

fn text(schema: &Value) -> Typed {
    let any = MAX_REQUEST_BYTES - 2;
    let max_length = schema["maxLength"].as_u64();
    match schema["format"].as_str() {
        Some("byte") => Typed::new(Shape::Bytes, max_length.unwrap_or(any), 2),
        Some("duration") => Typed::new(Shape::Duration, MAX_TIME_BYTES, 3),
        Some("date") => Typed::new(Shape::Date, DATE_BYTES, DATE_BYTES),
        Some("date-time") => Typed::new(Shape::Timestamp, MAX_TIME_BYTES, 21),
        _ => {
            let longest = || {
                let values = schema["enum"].as_array().into_iter().flatten();
                values
                    .filter_map(Value::as_str)
                    .map(|text| text.len() as u64)
                    .max()
            };
            // A length is in characters, which take up to four bytes.
            let max = max_length.map(|max| max.saturating_mul(4)).or_else(longest);
            Typed::new(Shape::String, max.unwrap_or(any), 2)
        }
    }
}

fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

fn is_int_or_string(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true
}

fn identity(schema: &Value) -> Identity {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Identity::Value,
        Some("map") => Identity::Keys(map_keys(schema)),
        _ => Identity::Place,
    }
}

/// The key fields of a list's items.
pub(crate) fn map_keys(schema: &Value) -> Vec<String> {
    let keys = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten();
    keys.filter_map(Value::as_str).map(str::to_owned).collect()
}
