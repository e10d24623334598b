//! Arithmetic, comparison, membership and access. Operators that do not evaluate all operands (`&&`, `||`, `?:`) only
//! have their signatures here; the evaluator handles them.

use std::cmp::Ordering;

use jiff::SignedDuration;

use super::conversions::plain_text;
use super::{Evaluated, Function, Sizes, Work, must_fit, no_overload, tenth};
use crate::declared::Identity;
use crate::error::EvalError;
use crate::limits::{MAX_MADE_BYTES, MAX_MADE_ITEMS};
use crate::value::{List, Value, compare, contains, equal};

const ORDERED: &[&str] = &[
    "(bool, bool) -> bool",
    "(int, int) -> bool",
    "(int, uint) -> bool",
    "(int, double) -> bool",
    "(uint, uint) -> bool",
    "(uint, int) -> bool",
    "(uint, double) -> bool",
    "(double, double) -> bool",
    "(double, int) -> bool",
    "(double, uint) -> bool",
    "(string, string) -> bool",
    "(bytes, bytes) -> bool",
    "(timestamp, timestamp) -> bool",
    "(duration, duration) -> bool",
];
const NUMBERS: &[&str] = &[
    "(int, int) -> int",
    "(uint, uint) -> uint",
    "(double, double) -> double",
];
const EQUALITY: &[&str] = &["(A, A) -> bool"];
const LOGIC: &[&str] = &["(bool, bool) -> bool"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("_==_", EQUALITY, |v, work| {
        Ok(Value::Bool(equal(&v[0], &v[1], work)?))
    })
    .costing(compared),
    Function::new("_!=_", EQUALITY, |v, work| {
        Ok(Value::Bool(!equal(&v[0], &v[1], work)?))
    })
    .costing(compared),
    Function::new("_<_", ORDERED, |v, _| ordered(v, Ordering::is_lt)).costing(ordering),
    Function::new("_<=_", ORDERED, |v, _| ordered(v, Ordering::is_le)).costing(ordering),
    Function::new("_>_", ORDERED, |v, _| ordered(v, Ordering::is_gt)).costing(ordering),
    Function::new("_>=_", ORDERED, |v, _| ordered(v, Ordering::is_ge)).costing(ordering),
    Function::new("_&&_", LOGIC, |_, _| no_overload()),
    Function::new("_||_", LOGIC, |_, _| no_overload()),
    Function::new("_?_:_", &["(bool, A, A) -> A"], |_, _| no_overload()),
    Function::new("!_", &["(bool) -> bool"], |v, _| match &v[0] {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => no_overload(),
    }),
    Function::new("-_", &["(int) -> int", "(double) -> double"], |v, _| {
        match &v[0] {
            Value::Int(value) => value
                .checked_neg()
                .map(Value::Int)
                .ok_or(EvalError::Overflow("integer")),
            Value::Double(value) => Ok(Value::Double(-value)),
            _ => no_overload(),
        }
    }),
    Function::new(
        "_+_",
        &[
            "(int, int) -> int",
            "(uint, uint) -> uint",
            "(double, double) -> double",
            "(string, string) -> string",
            "(bytes, bytes) -> bytes",
            "(list(A), list(A)) -> list(A)",
            "(timestamp, duration) -> timestamp",
            "(duration, timestamp) -> timestamp",
            "(duration, duration) -> duration",
        ],
        |v, work| add(&v[0], &v[1], work),
    )
    .costing(|n| tenth(n.given).max(1))
    .growing(|n| n[0].saturating_add(n[1])),
    Function::new(
        "_-_",
        &[
            "(int, int) -> int",
            "(uint, uint) -> uint",
            "(double, double) -> double",
            "(timestamp, timestamp) -> duration",
            "(timestamp, duration) -> timestamp",
            "(duration, duration) -> duration",
        ],
        |v, _| subtract(&v[0], &v[1]),
    ),
    Function::new("_*_", NUMBERS, |v, _| match (&v[0], &v[1]) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_mul(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_mul(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => no_overload(),
    }),
    Function::new("_/_", NUMBERS, |v, _| match (&v[0], &v[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(EvalError::DivisionByZero),
        (Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_div(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => no_overload(),
    }),
    Function::new(
        "_%_",
        &["(int, int) -> int", "(uint, uint) -> uint"],
        |v, _| match (&v[0], &v[1]) {
            (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
                Err(EvalError::ModulusByZero)
            }
            (Value::Int(a), Value::Int(b)) => int(a.checked_rem(*b)),
            (Value::Uint(a), Value::Uint(b)) => uint(a.checked_rem(*b)),
            _ => no_overload(),
        },
    ),
    Function::new(
        "@in",
        &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"],
        |v, work| match &v[1] {
            Value::List(list) => is_in(&v[0], list, work),
            Value::Map(map) => Ok(Value::Bool(map.get(&v[0]).transpose()?.is_some())),
            _ => no_overload(),
        },
    )
    // A map is not traversed and counts as one.
    .costing(|n| n.of(1).max(1)),
    Function::new(
        "_[_]",
        &[
            "(list(A), int) -> A",
            "(map(A, B), A) -> B",
            "(optional(list(A)), int) -> optional(A)",
            "(optional(map(A, B)), A) -> optional(B)",
        ],
        |v, _| match &v[0] {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => Ok(optional(find(inner, &v[1])?)),
            container => find(container, &v[1])?.ok_or_else(|| missing(container, &v[1])),
        },
    ),
    Function::new(
        "_[?_]",
        &[
            "(list(A), int) -> optional(A)",
            "(map(A, B), A) -> optional(B)",
            "(optional(list(A)), int) -> optional(A)",
            "(optional(map(A, B)), A) -> optional(B)",
        ],
        |v, _| match &v[0] {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => Ok(optional(find(inner, &v[1])?)),
            container => Ok(optional(find(container, &v[1])?)),
        },
    ),
];

/// Two texts are compared up to the length of the shorter one.
fn compared(sizes: &Sizes<'_>) -> u64 {
    tenth(sizes.of(0).min(sizes.of(1)))
}

/// Ordering has a minimum cost.
fn ordering(sizes: &Sizes<'_>) -> u64 {
    compared(sizes).max(1)
}

fn ordered<'a>(v: &[Value<'a>], fits: fn(Ordering) -> bool) -> Evaluated<'a> {
    match compare(&v[0], &v[1]) {
        Some(ordering) => Ok(Value::Bool(fits(ordering))),
        // NaN is neither greater nor less.
        None if matches!((&v[0], &v[1]), (Value::Double(_), _) | (_, Value::Double(_))) => {
            Ok(Value::Bool(false))
        }
        None => no_overload(),
    }
}

fn int<'a>(value: Option<i64>) -> Evaluated<'a> {
    value.map(Value::Int).ok_or(EvalError::Overflow("integer"))
}

fn uint<'a>(value: Option<u64>) -> Evaluated<'a> {
    value
        .map(Value::Uint)
        .ok_or(EvalError::Overflow("unsigned integer"))
}

/// A duration must fit Go's number of nanoseconds.
pub(super) fn duration<'a>(value: Option<SignedDuration>) -> Evaluated<'a> {
    value
        .filter(|span| i64::try_from(span.as_nanos()).is_ok())
        .map(Value::Duration)
        .ok_or(EvalError::Overflow("duration"))
}

fn add<'a>(a: &Value<'a>, b: &Value<'a>, work: &Work<'_>) -> Evaluated<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_add(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_add(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => {
            must_fit(a.len() + b.len(), MAX_MADE_BYTES)?;
            Ok(Value::text([&**a, &**b].concat()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            must_fit(a.len() + b.len(), MAX_MADE_BYTES)?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) => join_lists(a, b, work),
        (Value::Timestamp(at), Value::Duration(span)) | (Value::Duration(span), Value::Timestamp(at)) => {
            let sum = at.checked_add(*span);
            sum.map(Value::Timestamp)
                .map_err(|_| EvalError::Overflow("timestamp"))
        }
        (Value::Duration(a), Value::Duration(b)) => duration(a.checked_add(*b)),
        _ => no_overload(),
    }
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> Evaluated<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_sub(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_sub(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => duration(Some(a.duration_since(*b))),
        (Value::Timestamp(at), Value::Duration(span)) => {
            let rest = at.checked_sub(*span);
            rest.map(Value::Timestamp)
                .map_err(|_| EvalError::Overflow("timestamp"))
        }
        (Value::Duration(a), Value::Duration(b)) => duration(a.checked_sub(*b)),
        _ => no_overload(),
    }
}

/// Lists whose items have an identity are merged: an item in both occurs once, as in the second.
fn join_lists<'a>(a: &List<'a>, b: &List<'a>, work: &Work<'_>) -> Evaluated<'a> {
    must_fit(a.len() + b.len(), MAX_MADE_ITEMS)?;
    work.made(a.len() + b.len())?;
    let (mut items, added) = (a.to_vec()?, b.to_vec()?);
    match a.identity() {
        Identity::Place => items.extend(added),
        Identity::Value => {
            for item in added {
                if !contains(&items, &item, work)? {
                    items.push(item);
                }
            }
        }
        Identity::Keys(keys) => {
            for item in added {
                match position_by_keys(&items, &item, keys, work)? {
                    Some(index) => items[index] = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(Value::list(items))
}

fn position_by_keys(
    items: &[Value<'_>],
    wanted: &Value<'_>,
    keys: &[String],
    work: &Work<'_>,
) -> Result<Option<usize>, EvalError> {
    let of = |item: &Value<'_>, key: &String| match item {
        Value::Map(map) => match map.member(key) {
            Some(found) => plain_text(&found?).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    };
    for (index, item) in items.iter().enumerate() {
        work.step()?;
        let mut is_same = true;
        for key in keys {
            is_same &= of(item, key)? == of(wanted, key)?;
        }
        if is_same {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn is_in<'a>(wanted: &Value<'a>, list: &List<'a>, work: &Work<'_>) -> Evaluated<'a> {
    for item in list.iter() {
        if equal(&item?, wanted, work)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// The value at an index or a key, if there is one.
fn find<'a>(container: &Value<'a>, at: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
    match (container, at) {
        (Value::List(list), Value::Int(index)) => {
            let index = usize::try_from(*index).ok();
            index.and_then(|index| list.get(index)).transpose()
        }
        (Value::List(list), Value::Uint(index)) => {
            let index = usize::try_from(*index).ok();
            index.and_then(|index| list.get(index)).transpose()
        }
        (Value::List(list), Value::Double(index)) if index.fract() == 0.0 && *index >= 0.0 => {
            list.get(*index as usize).transpose()
        }
        (Value::Map(map), at) => map.get(at).transpose(),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn missing(container: &Value<'_>, at: &Value<'_>) -> EvalError {
    match (container, at) {
        (Value::List(_), Value::Int(index)) => EvalError::IndexOutOfBounds(*index),
        (_, at) => plain_text(at).map_or_else(|error| error, EvalError::NoSuchKey),
    }
}

pub(super) fn optional(value: Option<Value<'_>>) -> Value<'_> {
    Value::Optional(value.map(Into::into))
}
