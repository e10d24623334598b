//! Defaulting: the defaults of the schema, for every kind, and helpers for the defaults of single kinds.
//!
//! A field that is set is not changed, nor is an explicit null where null is a value.

use serde_json::{Map, Value, json};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Field, Schema, Shape, TypeId};
use watchkeeper_wire::tree_size::{TREE_LIMIT, tree_size};

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

/// The defaults of a custom kind would make an object larger than a body may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultsTooLarge;

impl std::error::Error for DefaultsTooLarge {}

impl std::fmt::Display for DefaultsTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the defaults of the object exceed {MAX_DEFAULT_BYTES} bytes or {TREE_LIMIT} values"
        )
    }
}

/// The bytes of an object's defaults: as many as a body may have.
const MAX_DEFAULT_BYTES: usize = 3 << 20;

/// The fields of a schema that are compared with those of an object. An object may have many items without any field, and
/// their schema many fields.
const MAX_FIELDS: usize = 1 << 25;

/// Sets the schema's defaults where an object differs from one that has them.
pub fn fill_from_schema(
    schema: &Schema,
    id: TypeId,
    object: &mut Value,
    difference: &Difference,
) -> Result<(), DefaultsTooLarge> {
    let mut filler = Filler {
        schema,
        bytes: MAX_DEFAULT_BYTES,
        values: TREE_LIMIT,
        fields: MAX_FIELDS,
    };
    filler.fill(id, object, difference)
}

/// Sets defaults, as long as there is room for those of custom kinds.
struct Filler<'s> {
    schema: &'s Schema,
    bytes: usize,
    values: usize,
    fields: usize,
}

/// Takes some of what is left.
fn take(left: &mut usize, taken: usize) -> Result<(), DefaultsTooLarge> {
    *left = left.checked_sub(taken).ok_or(DefaultsTooLarge)?;
    Ok(())
}

impl Filler<'_> {
    fn fill(
        &mut self,
        id: TypeId,
        object: &mut Value,
        difference: &Difference,
    ) -> Result<(), DefaultsTooLarge> {
        let Some(fields) = object.as_object_mut().filter(|_| !difference.is_nowhere()) else {
            return Ok(());
        };
        if self.schema[id].structural {
            return self.fill_custom(id, fields, difference);
        }
        for step in schema_plan::of(self.schema, id) {
            if let Some(default) = &step.default
                && fields.get(step.name).is_none_or(Value::is_null)
            {
                fields.insert(step.name.to_owned(), default.clone());
            }
            let below = difference.member(step.name);
            if !below.is_nowhere()
                && let Some(value) = fields.get_mut(step.name)
            {
                self.enter(step.shape, value, below)?;
            }
        }
        Ok(())
    }

    /// Fills a part of a custom object: a null counts as unset unless the field is nullable, and is removed if there is no
    /// default.
    fn fill_custom(
        &mut self,
        id: TypeId,
        fields: &mut Map<String, Value>,
        difference: &Difference,
    ) -> Result<(), DefaultsTooLarge> {
        let schema = self.schema;
        take(&mut self.fields, schema[id].fields.len())?;
        for field in &schema[id].fields {
            let is_unset = |value: &Value| value.is_null() && !field.nullable;
            let mut below = difference.member(&field.name);
            if fields.get(&*field.name).is_none_or(is_unset) {
                match self.default_of(field)? {
                    Some(default) => drop(fields.insert(field.name.to_string(), default)),
                    None => drop(fields.remove(&*field.name)),
                }
                // A default may contain fields with defaults of their own.
                below = &Difference::Everywhere;
            }
            if let Some(value) = fields.get_mut(&*field.name).filter(|_| !below.is_nowhere()) {
                self.enter(&field.shape, value, below)?;
            }
        }
        Ok(())
    }

    fn default_of(&mut self, field: &Field) -> Result<Option<Value>, DefaultsTooLarge> {
        let Some(text) = field.default.as_deref() else {
            return Ok(None);
        };
        take(&mut self.bytes, field.name.len() + text.len())?;
        let default = serde_json::from_str(text).ok();
        take(&mut self.values, default.as_ref().map_or(0, tree_size))?;
        Ok(default)
    }

    fn enter(
        &mut self,
        shape: &Shape,
        value: &mut Value,
        difference: &Difference,
    ) -> Result<(), DefaultsTooLarge> {
        match (shape, value) {
            (Shape::Struct(id), value @ Value::Object(_)) => self.fill(*id, value, difference),
            (Shape::List(item) | Shape::ListMessage(item), Value::Array(items)) => {
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(index, value)| self.enter(item, value, difference.item(index)))
            }
            (Shape::Map(item), Value::Object(entries)) => {
                let mut entries = entries.iter_mut();
                entries.try_for_each(|(key, value)| self.enter(item, value, difference.member(key)))
            }
            _ => Ok(()),
        }
    }
}
