//! Names of Go types in error texts: `v1.ObjectMeta`, `map[string]string`, `[]v1.Container`.

use serde_json::Value;

use crate::schema::{Schema, Shape};

/// The name of a declared type, or of what it points to. Packages are shortened to their last element.
pub(super) fn print(declared: &str) -> String {
    let declared = declared.trim_start_matches('*');
    if let Some(item) = declared.strip_prefix("[]") {
        return format!("[]{}", print(item));
    }
    if let Some((key, value)) = declared
        .strip_prefix("map[")
        .and_then(|rest| rest.split_once(']'))
    {
        return format!("map[{}]{}", print(key), print(value));
    }
    match declared {
        "byte" => "uint8".to_owned(),
        "any" => "interface {}".to_owned(),
        name => name.rsplit('/').next().unwrap_or(name).to_owned(),
    }
}

/// The declared type of a list's items or a map's values. A named list type does not include it; its shape does.
pub(super) fn item<'a>(declared: &'a str, shape: &Shape, schema: &'a Schema) -> &'a str {
    let declared = declared.strip_prefix('*').unwrap_or(declared);
    if let Some(item) = declared.strip_prefix("[]") {
        return item;
    }
    if let Some((_, value)) = declared
        .strip_prefix("map[")
        .and_then(|rest| rest.split_once(']'))
    {
        return value;
    }
    match shape {
        Shape::Struct(id) => &schema[*id].name,
        _ => "string",
    }
}

/// Go's error when it converts a map into structs and finds the wrong type; `None` if it decodes such fields as JSON.
pub(super) fn conversion_error(shape: &Shape, found: &Value, declared: &str) -> Option<String> {
    let kind = match found {
        Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    let scalar = match shape {
        Shape::List(_) | Shape::ListMessage(_) | Shape::Bytes => {
            return Some(format!("cannot restore slice from {kind}"));
        }
        Shape::Map(_) => return Some(format!("cannot restore map from {kind}")),
        Shape::Struct(_) => return Some(format!("cannot restore struct from: {kind}")),
        Shape::String(_) => "string",
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float64 => "float64",
        _ => return None,
    };
    // Go could convert a number to text, as a character code, and refuses to.
    Some(match (found, scalar) {
        (Value::Number(number), "string") if number.is_i64() => {
            format!("cannot convert {kind} to {}", print(declared))
        }
        _ => format!("unrecognized type: {scalar}"),
    })
}
