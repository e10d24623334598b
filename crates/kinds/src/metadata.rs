//! An object's `metadata`, to read and to change.

use serde_json::{Map, Value, json};

/// The object's `metadata`, made if it is not there.
pub fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    match &mut object["metadata"] {
        Value::Object(fields) => fields,
        // Made an object above.
        _ => unreachable!("metadata is an object"),
    }
}

/// One text of an object's metadata; empty when it is not set.
pub fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object["metadata"][name].as_str().unwrap_or_default()
}
