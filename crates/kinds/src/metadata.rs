//! Access to an object's `metadata`.

use serde_json::{Map, Value, json};

/// The object's `metadata`, created if missing.
pub fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    match &mut object["metadata"] {
        Value::Object(fields) => fields,
        // Created above.
        _ => unreachable!("metadata is an object"),
    }
}

/// A text of an object's metadata; empty if unset.
pub fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object["metadata"][name].as_str().unwrap_or_default()
}
