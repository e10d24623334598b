//! Where in each built-in type the schema asks for something: a default, a value, one of a closed set.
//!
//! Most fields ask for nothing. The schema is read once, and what is left is the shortest way to the fields that do:
//! a look-up for objects without any, as config maps are.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;
use watchkeeper_wire::schema::{Field, Schema, Shape, TypeId};

/// A field that asks for something, or that leads to one that does.
pub(crate) struct Step {
    /// The field.
    pub(crate) name: &'static str,
    /// What leads on.
    pub(crate) shape: &'static Shape,
    /// What it is unless it is set.
    pub(crate) default: Option<Value>,
    /// Whether it must be set.
    pub(crate) required: bool,
    /// The texts it can be, in order; any if there are none.
    pub(crate) values: Vec<&'static str>,
}

/// The steps within a type. Types made at run time have none.
pub(crate) fn of(schema: &Schema, id: TypeId) -> &'static [Step] {
    match PLANS.get(&id) {
        Some(steps) if std::ptr::eq(schema, Schema::builtin()) => steps,
        _ => &[],
    }
}

static PLANS: LazyLock<HashMap<TypeId, Vec<Step>>> = LazyLock::new(|| {
    let schema = Schema::builtin();
    let leading = leading_types(schema);
    let steps = |id: &TypeId| {
        let fields = schema.fields(*id).into_iter();
        fields.filter_map(|field| step(schema, field, &leading)).collect()
    };
    leading.iter().map(|id| (*id, steps(id))).collect()
});

fn step(schema: &'static Schema, field: &'static Field, leading: &HashSet<TypeId>) -> Option<Step> {
    let step = Step {
        name: &field.name,
        shape: &field.shape,
        default: stated_default(field),
        required: field.required && is_text_or_list(field),
        values: values(schema, &field.shape),
    };
    let asks = step.default.is_some() || step.required || !step.values.is_empty();
    let leads = inner_type(&field.shape).is_some_and(|inner| leading.contains(&inner));
    (asks || leads).then_some(step)
}

/// The default of a field, unless it is what the field is without one.
fn stated_default(field: &Field) -> Option<Value> {
    let value: Value = serde_json::from_str(field.default.as_deref()?).ok()?;
    let is_zero = value == 0 || value == "" || value == false;
    (field.pointer || !is_zero).then_some(value)
}

/// Whether an empty value is as good as none. Of a list that may be left out, that is not certain.
fn is_text_or_list(field: &Field) -> bool {
    match field.shape {
        Shape::String(_) => !field.pointer,
        Shape::List(_) => !field.omit_empty,
        _ => false,
    }
}

fn values(schema: &'static Schema, shape: &Shape) -> Vec<&'static str> {
    let mut values: Vec<&str> = match shape {
        Shape::String(Some(id)) => schema[*id].values.iter().map(|value| &**value).collect(),
        Shape::List(item) => values(schema, item),
        _ => Vec::new(),
    };
    values.sort_unstable();
    values
}

/// The types with a field that asks for something, or that has a field of such a type.
fn leading_types(schema: &'static Schema) -> HashSet<TypeId> {
    let mut leading = HashSet::new();
    loop {
        let leads = |id: &TypeId| {
            let mut fields = schema.fields(*id).into_iter();
            fields.any(|field| step(schema, field, &leading).is_some())
        };
        let found: HashSet<TypeId> = schema.types().map(|(id, _)| id).filter(leads).collect();
        if found.len() == leading.len() {
            return leading;
        }
        leading = found;
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
