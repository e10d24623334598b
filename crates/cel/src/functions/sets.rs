//! Lists as sets: order and duplicates are ignored.

use super::{Evaluated, Function, Sizes, Work, no_overload};
use crate::error::EvalError;
use crate::value::{List, Value, contains};

const PAIR: &[&str] = &["(list(A), list(A)) -> bool"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("sets.contains", PAIR, |v, work| {
        compared(v, work, |a, b, work| all_in(b, a, work))
    })
    .costing(product),
    Function::new("sets.equivalent", PAIR, |v, work| {
        compared(v, work, |a, b, work| {
            Ok(all_in(a, b, work)? && all_in(b, a, work)?)
        })
    })
    .costing(|n| product(n).saturating_mul(2)),
    Function::new("sets.intersects", PAIR, |v, work| {
        compared(v, work, |a, b, work| {
            for item in a {
                if contains(b, item, work)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    })
    .costing(product),
];

/// A relation between two lists.
type Relation<'a> = fn(&[Value<'a>], &[Value<'a>], &Work<'_>) -> Result<bool, EvalError>;

fn product(sizes: &Sizes<'_>) -> u64 {
    sizes.of(0).saturating_mul(sizes.of(1)).max(1)
}

fn compared<'a>(v: &[Value<'a>], work: &Work<'_>, holds: Relation<'a>) -> Evaluated<'a> {
    match (&v[0], &v[1]) {
        // The other list may be long, and its size does not count beside none.
        (Value::List(a), Value::List(b)) if a.len() == 0 || b.len() == 0 => {
            let first = |list: &List<'a>| {
                list.get(0)
                    .transpose()
                    .map(|item| item.into_iter().collect::<Vec<_>>())
            };
            Ok(Value::Bool(holds(&first(a)?, &first(b)?, work)?))
        }
        (Value::List(a), Value::List(b)) => Ok(Value::Bool(holds(&a.to_vec()?, &b.to_vec()?, work)?)),
        _ => no_overload(),
    }
}

fn all_in(items: &[Value<'_>], list: &[Value<'_>], work: &Work<'_>) -> Result<bool, EvalError> {
    for item in items {
        if !contains(list, item, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}
