//! Defaulting: the defaults of the schema, for every kind, and helpers for the defaults of single kinds.
//!
//! A field that is set is not changed, nor is an explicit null where null is a value.

use serde_json::{Map, Value, json};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, Shape, TypeId};

use crate::rules::schema_plan;

/// Sets a field unless it is set.
pub(crate) fn fill(object: &mut Value, name: &str, value: impl Into<Value>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Sets a field unless it is set; here an empty text counts as unset.
pub(crate) fn fill_empty(object: &mut Value, name: &str, value: impl Into<Value>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let is_unset = |value: &Value| value.is_null() || value == "";
    if fields.get(name).is_none_or(is_unset) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Sets a number if it is zero, which here counts as unset.
pub(crate) fn fill_zero(object: &mut Value, name: &str, default: i64) {
    if object.is_object() && object[name].as_i64().unwrap_or_default() == 0 {
        object[name] = json!(default);
    }
}

/// The objects of a list, mutable; none if there is no list. Unlike indexing, this does not create a null.
pub(crate) fn items_mut<'v>(object: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    let list = object.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|item| item.is_object())
}

/// A field to be changed, if it is an object.
pub(crate) fn object_mut<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    object.get_mut(name).filter(|value| value.is_object())
}

/// Sets the schema's defaults where an object differs from one that has them.
pub fn fill_from_schema(schema: &Schema, id: TypeId, object: &mut Value, difference: &Difference) {
    let Some(fields) = object.as_object_mut().filter(|_| !difference.is_nowhere()) else {
        return;
    };
    if schema[id].structural {
        return fill_custom(schema, id, fields, difference);
    }
    for step in schema_plan::of(schema, id) {
        if let Some(default) = &step.default
            && fields.get(step.name).is_none_or(Value::is_null)
        {
            fields.insert(step.name.to_owned(), default.clone());
        }
        let below = difference.member(step.name);
        if !below.is_nowhere()
            && let Some(value) = fields.get_mut(step.name)
        {
            enter(schema, step.shape, value, below);
        }
    }
}

/// Like [`fill_from_schema`], for a part of a custom object: a null counts as unset unless the field is nullable, and
/// is removed if there is no default.
fn fill_custom(schema: &Schema, id: TypeId, fields: &mut Map<String, Value>, difference: &Difference) {
    for field in &schema[id].fields {
        let is_unset = |value: &Value| value.is_null() && !field.nullable;
        let mut below = difference.member(&field.name);
        if fields.get(&*field.name).is_none_or(is_unset) {
            match field.default.as_deref().map(serde_json::from_str) {
                Some(Ok(default)) => drop(fields.insert(field.name.to_string(), default)),
                _ => drop(fields.remove(&*field.name)),
            }
            // A default may contain fields with defaults of their own.
            below = &Difference::Everywhere;
        }
        if let Some(value) = fields.get_mut(&*field.name).filter(|_| !below.is_nowhere()) {
            enter(schema, &field.shape, value, below);
        }
    }
}

fn enter(schema: &Schema, shape: &Shape, value: &mut Value, difference: &Difference) {
    match (shape, value) {
        (Shape::Struct(id), value @ Value::Object(_)) => fill_from_schema(schema, *id, value, difference),
        (Shape::List(item) | Shape::ListMessage(item), Value::Array(items)) => {
            for (index, value) in items.iter_mut().enumerate() {
                enter(schema, item, value, difference.item(index));
            }
        }
        (Shape::Map(item), Value::Object(entries)) => {
            for (key, value) in entries {
                enter(schema, item, value, difference.member(key));
            }
        }
        _ => {}
    }
}
