//! Equality and order of values. Numbers are compared by value, whatever their types; values of other different types
//! are never equal.

use std::cmp::Ordering;

use super::{List, Map, Opaque, Value};
use crate::declared::Identity;
use crate::error::EvalError;
use crate::functions::Work;

/// True if two values are equal. Every compared pair is charged: values can be much larger than they look.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>, work: &Work<'_>) -> Result<bool, EvalError> {
    work.step()?;
    // A step takes as long as comparing so many bytes.
    work.steps(a.bytes().min(b.bytes()) / 64)?;
    Ok(match (a, b) {
        (Value::List(a), Value::List(b)) => return lists_equal(a, b, work),
        (Value::Map(a), Value::Map(b)) => return maps_equal(a, b, work),
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => return equal(a, b, work),
        (Value::Optional(a), Value::Optional(b)) => a.is_none() && b.is_none(),
        (Value::Message(a), Value::Message(b)) => {
            if a.name != b.name || a.fields.len() != b.fields.len() {
                return Ok(false);
            }
            for ((one, value), (other, wanted)) in a.fields.iter().zip(b.fields.iter()) {
                if one != other || !equal(value, wanted, work)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Null, Value::Null) => true,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.plain_name() == b.plain_name(),
        (Value::Opaque(a), Value::Opaque(b)) => opaques_equal(a, b),
        _ => compare(a, b).is_some_and(Ordering::is_eq),
    })
}

/// The order of two values; `None` if they cannot be compared.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => compare_double(*a, whole(b)?),
        (a, Value::Double(b)) => compare_double(*b, whole(a)?).map(Ordering::reverse),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

fn whole(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    }
}

fn compare_double(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    // The conversion saturates, far outside the range of integers.
    let floor = a.floor();
    Some((floor as i128).cmp(&b).then(match a > floor {
        true => Ordering::Greater,
        false => Ordering::Equal,
    }))
}

fn lists_equal(a: &List<'_>, b: &List<'_>, work: &Work<'_>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if *a.identity() != Identity::Place {
        return unordered_equal(&a.to_vec()?, &b.to_vec()?, work);
    }
    for (a, b) in a.iter().zip(b.iter()) {
        if !equal(&a?, &b?, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if each item is in the other list. Items of such lists are distinct.
fn unordered_equal(a: &[Value<'_>], b: &[Value<'_>], work: &Work<'_>) -> Result<bool, EvalError> {
    for (index, item) in a.iter().enumerate() {
        // Equal lists are mostly in the same order.
        if !equal(item, &b[index], work)? && !contains(b, item, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn contains(list: &[Value<'_>], wanted: &Value<'_>, work: &Work<'_>) -> Result<bool, EvalError> {
    for item in list {
        if equal(item, wanted, work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn maps_equal(a: &Map<'_>, b: &Map<'_>, work: &Work<'_>) -> Result<bool, EvalError> {
    if a.count(work)? != b.count(work)? {
        return Ok(false);
    }
    for entry in a.entries() {
        let (key, value) = entry?;
        let other = b.get(&key).transpose()?;
        if !other.map_or(Ok(false), |other| equal(&value, &other, work))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn opaques_equal(a: &Opaque, b: &Opaque) -> bool {
    match (a, b) {
        (Opaque::Quantity(a), Opaque::Quantity(b)) => a == b,
        (Opaque::Ip(a), Opaque::Ip(b)) => a.to_canonical() == b.to_canonical(),
        (Opaque::Cidr(a, x), Opaque::Cidr(b, y)) => a == b && x == y,
        (Opaque::Url(a), Opaque::Url(b)) => a == b,
        (Opaque::Format(a), Opaque::Format(b)) => std::ptr::eq(*a, *b),
        (Opaque::Semver(a), Opaque::Semver(b)) => a == b,
        _ => false,
    }
}
