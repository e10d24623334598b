//! The fields of each built-in type for which the schema has a default, a requirement or an enumeration.
//!
//! Most fields have none. The schema is read once, and only the paths to such fields are kept: for objects without
//! any, such as config maps, a check is one look-up.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;
use watchkeeper_wire::schema::{Field, Schema, Shape, TypeId};

/// A field with a default or rule, or one that leads to such a field.
pub(crate) struct Step {
    /// The field.
    pub(crate) name: &'static str,
    /// Its shape.
    pub(crate) shape: &'static Shape,
    /// Its default.
    pub(crate) default: Option<Value>,
    /// True if it is required.
    pub(crate) required: bool,
    /// The allowed texts, in order; empty for any.
    pub(crate) values: Vec<&'static str>,
}

/// The steps within a type. Types built at run time have none.
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

/// The default of a field, unless it is the zero value.
fn stated_default(field: &Field) -> Option<Value> {
    let value: Value = serde_json::from_str(field.default.as_deref()?).ok()?;
    let is_zero = value == 0 || value == "" || value == false;
    (field.pointer || !is_zero).then_some(value)
}

/// True if an empty value counts as missing; for optional lists that is unclear.
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

/// The types with such a field, or with a field of such a type.
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
pub(crate) fn inner_type(shape: &Shape) -> Option<TypeId> {
    match shape {
        Shape::Struct(id) => Some(*id),
        Shape::List(item) | Shape::Map(item) | Shape::ListMessage(item) => inner_type(item),
        _ => None,
    }
}
