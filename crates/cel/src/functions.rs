//! The functions of expressions: the standard library of CEL and Kubernetes' own.
//!
//! A function is a row of a table: its name, its signatures for the checker, its cost by the sizes of its arguments,
//! and its implementation. Sizes are actual ones during evaluation and maximum ones in estimates, so that one cost
//! function serves both.

pub(crate) mod authorization;
pub(crate) mod conversions;
mod format;
mod json_pointer;
mod lists;
pub(crate) mod named_formats;
mod net;
mod operators;
mod optional;
mod quantity;
mod regex;
pub(crate) mod semver;
mod sets;
mod strings;
pub(crate) mod time;
pub(crate) mod url;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;

use ::regex::Regex;

use crate::error::EvalError;
use crate::types::Signature;
use crate::value::Value;

pub(crate) type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// A row of a table.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// `string.(int) -> string` has a target, `(string) -> int` has none.
    signatures: &'static [&'static str],
    pub(crate) cost: fn(&Sizes<'_>) -> u64,
    /// True if estimates charge only a plain call, as Kubernetes does where it ignores the size of the argument.
    pub(crate) is_estimated_plain: bool,
    /// The maximum size of a result; `None` leaves it to its type.
    pub(crate) growth: Option<fn(&[u64]) -> u64>,
    pub(crate) call: Call,
}

/// The implementation: gets the values, the target first, and the work context.
pub(crate) type Call = for<'a> fn(&[Value<'a>], &Work<'_>) -> Evaluated<'a>;

/// The context of a call, which counts work beyond what the sizes of its values tell.
pub(crate) struct Work<'p> {
    /// The pattern, if it was compiled before.
    pub(crate) pattern: Option<&'p Regex>,
    done: Cell<u64>,
    most: u64,
}

impl<'p> Work<'p> {
    /// Work within a budget.
    pub(crate) fn within(budget: u64, pattern: Option<&'p Regex>) -> Self {
        Self {
            pattern,
            done: Cell::new(0),
            most: budget.saturating_mul(STEPS_PER_COST),
        }
    }

    /// Counts one step.
    pub(crate) fn step(&self) -> Result<(), EvalError> {
        self.steps(1)
    }

    /// Counts the items of a constructed list, which take more memory than their share of its cost.
    pub(crate) fn made(&self, items: usize) -> Result<(), EvalError> {
        self.steps(STEPS_PER_COST / 2 * items as u64)
    }

    /// Counts several steps at once.
    pub(crate) fn steps(&self, count: u64) -> Result<(), EvalError> {
        self.done.set(self.done.get() + count);
        match self.done.get() > self.most {
            true => Err(EvalError::CostExceeded),
            false => Ok(()),
        }
    }

    /// The cost of the steps. The first few are included in the call.
    pub(crate) fn cost(&self) -> u64 {
        self.done.get() / STEPS_PER_COST
    }
}

/// The number of steps that cost as much as a call.
const STEPS_PER_COST: u64 = 10;

/// The sizes of a call's arguments and result.
pub(crate) struct Sizes<'s> {
    pub(crate) taken: &'s [u64],
    pub(crate) given: u64,
}

impl Sizes<'_> {
    /// The size of an argument; 0 if it is missing.
    fn of(&self, index: usize) -> u64 {
        self.taken.get(index).copied().unwrap_or(0)
    }
}

impl Function {
    const fn new(name: &'static str, signatures: &'static [&'static str], call: Call) -> Self {
        Self {
            name,
            signatures,
            cost: |_| 1,
            is_estimated_plain: false,
            growth: None,
            call,
        }
    }

    const fn costing(mut self, cost: fn(&Sizes<'_>) -> u64) -> Self {
        self.cost = cost;
        self
    }

    /// Reads a text; see `is_estimated_plain`.
    const fn reading(mut self) -> Self {
        self.cost = |sizes| tenth(sizes.of(0)).max(1);
        self.is_estimated_plain = true;
        self
    }

    const fn growing(mut self, growth: fn(&[u64]) -> u64) -> Self {
        self.growth = Some(growth);
        self
    }
}

/// A function with its parsed signatures.
pub(crate) struct Declaration {
    pub(crate) signatures: Vec<Signature>,
    pub(crate) function: &'static Function,
}

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Declaration> {
    DECLARATIONS.get(name)
}

/// All functions, by subject.
const TABLES: [&[Function]; 16] = [
    operators::FUNCTIONS,
    conversions::FUNCTIONS,
    time::FUNCTIONS,
    strings::FUNCTIONS,
    format::FUNCTIONS,
    lists::FUNCTIONS,
    self::regex::FUNCTIONS,
    sets::FUNCTIONS,
    quantity::FUNCTIONS,
    net::FUNCTIONS,
    url::FUNCTIONS,
    named_formats::FUNCTIONS,
    semver::FUNCTIONS,
    optional::FUNCTIONS,
    authorization::FUNCTIONS,
    json_pointer::FUNCTIONS,
];

static DECLARATIONS: LazyLock<HashMap<&'static str, Declaration>> = LazyLock::new(|| {
    let rows = TABLES.into_iter().flatten();
    let declared = rows.map(|function| {
        let signatures = function.signatures.iter().map(|text| Signature::read(text));
        let declaration = Declaration {
            signatures: signatures.collect(),
            function,
        };
        (function.name, declaration)
    });
    declared.collect()
});

/// The cost of traversing a text of this size.
pub(crate) fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// The error of a function without a value for these types.
fn no_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::NoSuchOverload)
}

/// Refuses to construct a value that is too large, before allocating it. The error ends the evaluation, because the
/// work was not paid for.
fn must_fit(size: usize, most: usize) -> Result<(), EvalError> {
    match size > most {
        true => Err(EvalError::CostExceeded),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_has_more_values_than_there_is_room_for() {
        let signatures = DECLARATIONS.values().flat_map(|it| &it.signatures);
        let most = signatures.map(|it| it.arguments.len() + usize::from(it.target.is_some()));
        assert_eq!(most.max(), Some(crate::eval::MAX_ARGUMENTS));
    }

    #[test]
    fn no_function_stands_in_two_tables() {
        let rows: usize = TABLES.iter().map(|table| table.len()).sum();
        assert_eq!(rows, DECLARATIONS.len());
    }
}
