//! Filling in what a client left open: the defaults that the schema states, for every kind, and the two small steps
//! of which the defaults of single kinds are made.
//!
//! A field that is set stays as it is, and so does one that is set to nothing where nothing is a value.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;
use watchkeeper_wire::schema::{Field, Schema, Shape, TypeId};

/// Sets a field of an object unless it is set.
pub(super) fn fill(object: &mut Value, name: &str, value: impl Into<Value>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The objects of a list, to be changed; none where there is no list.
pub(super) fn items_mut<'v>(object: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    let list = object.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|item| item.is_object())
}

/// A field to be changed, if it is an object.
pub(super) fn object_mut<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    object.get_mut(name).filter(|value| value.is_object())
}

/// Fills in the defaults that the schema states.
pub(super) fn fill_from_schema(schema: &'static Schema, id: TypeId, object: &mut Value) {
    // Kinds made at run time have types of their own.
    if !std::ptr::eq(schema, Schema::builtin()) {
        return;
    }
    for step in PLANS.get(&id).into_iter().flatten() {
        match step {
            Step::Set { name, value } => fill(object, name, value.clone()),
            Step::Enter { name, shape } => {
                if let Some(value) = object.get_mut(*name) {
                    enter(schema, shape, value);
                }
            }
        }
    }
}

/// What is to be done with one field of a type.
enum Step {
    /// The field has a default.
    Set { name: &'static str, value: Value },
    /// A default is somewhere within the field.
    Enter {
        name: &'static str,
        shape: &'static Shape,
    },
}

/// What is to be done with objects of the built-in types that reach a default. Most do not, so that most objects
/// cost a look-up.
static PLANS: LazyLock<HashMap<TypeId, Vec<Step>>> = LazyLock::new(|| {
    let schema = Schema::builtin();
    let reaches = types_with_defaults(schema);
    let plan = |id: &TypeId| -> Vec<Step> {
        let fields = schema.fields(*id).into_iter();
        fields.filter_map(|field| step(field, &reaches)).collect()
    };
    reaches.iter().map(|id| (*id, plan(id))).collect()
});

fn step(field: &'static Field, reaches: &HashSet<TypeId>) -> Option<Step> {
    let name = &*field.name;
    if let Some(value) = stated_default(field) {
        return Some(Step::Set { name, value });
    }
    let shape = &field.shape;
    let inner = inner_type(shape)?;
    reaches.contains(&inner).then_some(Step::Enter { name, shape })
}

/// The default of a field, unless it is what the field is without one.
fn stated_default(field: &Field) -> Option<Value> {
    let value: Value = serde_json::from_str(field.default.as_deref()?).ok()?;
    let is_zero = value == 0 || value == "" || value == false;
    (field.pointer || !is_zero).then_some(value)
}

/// The types that have a default, or a field of a type that reaches one.
fn types_with_defaults(schema: &'static Schema) -> HashSet<TypeId> {
    let mut reaches = HashSet::new();
    loop {
        let found: HashSet<TypeId> = schema
            .types()
            .map(|(id, _)| id)
            .filter(|id| {
                schema
                    .fields(*id)
                    .into_iter()
                    .any(|field| step(field, &reaches).is_some())
            })
            .collect();
        if found.len() == reaches.len() {
            return reaches;
        }
        reaches = found;
    }
}

/// The type of the objects in a field, in its list or in its map.
fn inner_type(shape: &Shape) -> Option<TypeId> {
    match shape {
        Shape::Struct(id) => Some(*id),
        Shape::List(item) | Shape::Map(item) | Shape::ListMessage(item) => inner_type(item),
        _ => None,
    }
}

fn enter(schema: &'static Schema, shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(id), value @ Value::Object(_)) => fill_from_schema(schema, *id, value),
        (Shape::List(item) | Shape::ListMessage(item), Value::Array(items)) => {
            items.iter_mut().for_each(|value| enter(schema, item, value));
        }
        (Shape::Map(item), Value::Object(entries)) => {
            entries.values_mut().for_each(|value| enter(schema, item, value));
        }
        _ => {}
    }
}
