//! Lists of comparable items: order, sum, minimum and maximum.

use std::cmp::Ordering;

use jiff::SignedDuration;

use super::operators::duration;
use super::{Evaluated, Function, Work, no_overload};
use crate::error::EvalError;
use crate::value::{List, Value, compare, equal};

const SORTED: &[&str] = &[
    "list(int).() -> bool",
    "list(uint).() -> bool",
    "list(double).() -> bool",
    "list(bool).() -> bool",
    "list(string).() -> bool",
    "list(bytes).() -> bool",
    "list(timestamp).() -> bool",
    "list(duration).() -> bool",
];
const CHOSEN: &[&str] = &[
    "list(int).() -> int",
    "list(uint).() -> uint",
    "list(double).() -> double",
    "list(bool).() -> bool",
    "list(string).() -> string",
    "list(bytes).() -> bytes",
    "list(timestamp).() -> timestamp",
    "list(duration).() -> duration",
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("isSorted", SORTED, |v, _| {
        let items = items(&v[0])?;
        let mut pairs = items.windows(2).map(|pair| compare(&pair[0], &pair[1]));
        Ok(Value::Bool(pairs.all(|it| it.is_some_and(Ordering::is_le))))
    })
    .costing(|n| n.of(0).max(1)),
    Function::new("min", CHOSEN, |v, _| chosen(&v[0], "min", Ordering::is_lt)).costing(|n| n.of(0).max(1)),
    Function::new("max", CHOSEN, |v, _| chosen(&v[0], "max", Ordering::is_gt)).costing(|n| n.of(0).max(1)),
    Function::new(
        "sum",
        &[
            "list(int).() -> int",
            "list(uint).() -> uint",
            "list(double).() -> double",
            "list(duration).() -> duration",
        ],
        |v, _| sum(&items(&v[0])?),
    )
    .costing(|n| n.of(0).max(1)),
];

fn items<'a>(value: &Value<'a>) -> Result<Vec<Value<'a>>, EvalError> {
    match value {
        Value::List(list) => list.to_vec(),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn chosen<'a>(list: &Value<'a>, name: &str, is_better: fn(Ordering) -> bool) -> Evaluated<'a> {
    let mut items = items(list)?.into_iter();
    let Some(mut best) = items.next() else {
        return Err(EvalError::failed(format!("{name} called on empty list")));
    };
    for item in items {
        match compare(&item, &best) {
            Some(ordering) if is_better(ordering) => best = item,
            Some(_) => {}
            None => return no_overload(),
        }
    }
    Ok(best)
}

/// The sum of an empty list is zero, of the list's type if it is known, else an integer.
fn sum<'a>(items: &[Value<'a>]) -> Evaluated<'a> {
    let mut total = match items.first() {
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Duration(_)) => Value::Duration(SignedDuration::ZERO),
        _ => Value::Int(0),
    };
    for item in items {
        total = match (&total, item) {
            (Value::Int(a), Value::Int(b)) => {
                Value::Int(a.checked_add(*b).ok_or(EvalError::Overflow("integer"))?)
            }
            (Value::Uint(a), Value::Uint(b)) => {
                let sum = a.checked_add(*b);
                Value::Uint(sum.ok_or(EvalError::Overflow("unsigned integer"))?)
            }
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            (Value::Duration(a), Value::Duration(b)) => duration(a.checked_add(*b))?,
            _ => return no_overload(),
        };
    }
    Ok(total)
}

pub(super) fn index_of<'a>(list: &List<'a>, wanted: &Value<'a>, work: &Work<'_>) -> Evaluated<'a> {
    for (index, item) in list.iter().enumerate() {
        if equal(&item?, wanted, work)? {
            return Ok(Value::Int(index as i64));
        }
    }
    Ok(Value::Int(-1))
}

pub(super) fn last_index_of<'a>(list: &List<'a>, wanted: &Value<'a>, work: &Work<'_>) -> Evaluated<'a> {
    for (index, item) in list.to_vec()?.iter().enumerate().rev() {
        if equal(item, wanted, work)? {
            return Ok(Value::Int(index as i64));
        }
    }
    Ok(Value::Int(-1))
}
