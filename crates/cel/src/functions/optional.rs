//! Optional values.

use super::operators::optional;
use super::{Evaluated, Function, no_overload};
use crate::error::EvalError;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("optional.of", &["(A) -> optional(A)"], |v, _| {
        Ok(optional(Some(v[0].clone())))
    }),
    Function::new("optional.none", &["() -> optional(A)"], |_, _| Ok(optional(None))),
    Function::new("optional.ofNonZeroValue", &["(A) -> optional(A)"], |v, _| {
        Ok(optional((!is_zero(&v[0])).then(|| v[0].clone())))
    }),
    Function::new("hasValue", &["optional(A).() -> bool"], |v, _| match &v[0] {
        Value::Optional(value) => Ok(Value::Bool(value.is_some())),
        _ => no_overload(),
    }),
    Function::new("value", &["optional(A).() -> A"], |v, _| match &v[0] {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => Err(EvalError::failed("optional.none() dereference")),
        _ => no_overload(),
    }),
    Function::new("or", &["optional(A).(optional(A)) -> optional(A)"], |v, _| {
        either(v, |value| Value::Optional(Some(value.into())))
    }),
    Function::new("orValue", &["optional(A).(A) -> A"], |v, _| {
        either(v, |value| value)
    })
    .growing(|n| n[0].max(n[1])),
];

fn either<'a>(v: &[Value<'a>], found: fn(Value<'a>) -> Value<'a>) -> Evaluated<'a> {
    match &v[0] {
        Value::Optional(Some(value)) => Ok(found((**value).clone())),
        Value::Optional(None) => Ok(v[1].clone()),
        _ => no_overload(),
    }
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::Duration(value) => value.is_zero(),
        Value::Timestamp(_) | Value::Type(_) | Value::Opaque(_) => false,
        Value::Message(message) => message.fields.is_empty(),
        Value::Optional(value) => value.is_none(),
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
    }
}
