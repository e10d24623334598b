//! Evaluates a checked tree. Every step is charged to a budget in cel-go's cost units. When the budget is used up the
//! evaluation ends, and no operator absorbs that error.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ast::{Entry, Expr, Fold, FoldKind, Id, Item, MessageField, Select};
use crate::check::{Checked, Meaning};
use crate::error::EvalError;
use crate::functions::{Evaluated, Function, Sizes, Work};
use crate::limits::MAX_MADE_ITEMS;
use crate::program::Program;
use crate::value::{Map, Message, Value};

/// The cost of resolving a name.
const NAME: u64 = 1;
/// The maximum number of values of a call, including its target.
pub(crate) const MAX_ARGUMENTS: usize = 4;
/// The cost of constructing a list, whatever its size.
const LIST: u64 = 10;
/// The cost of constructing a map, whatever its size.
const MAP: u64 = 30;
/// The cost of constructing a message, whatever its size.
const MESSAGE: u64 = 40;

/// A literal of this many items has no cost besides that of its kind.
const FREE_ITEMS: usize = 20;
/// The number of further items that cost as much as a name: literals among them cost nothing, but take memory.
const ITEMS_PER_COST: usize = 2;
/// A call that reads or returns this many bytes costs at least one, whatever its function counts.
const READ_BYTES_PER_COST: u64 = 640;
/// The same for bytes, which are decoded from text each time they are read.
const DECODED_BYTES_PER_COST: u64 = 64;

/// The result and the cost of an evaluation.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The value, or the error.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost, also after an error.
    pub cost: u64,
}

pub(crate) fn evaluate<'a>(program: &'a Program, variables: &[Value<'a>], budget: u64) -> Evaluation<'a> {
    let mut evaluator = Evaluator {
        program,
        checked: program.checked(),
        variables,
        locals: Vec::new(),
        cost: 0,
        budget,
    };
    let result = evaluator.expr(program.root());
    Evaluation {
        result,
        cost: evaluator.cost,
    }
}

struct Evaluator<'a, 'v> {
    program: &'a Program,
    checked: &'a Checked,
    variables: &'v [Value<'a>],
    /// The macro variables, the outermost first.
    locals: Vec<Value<'a>>,
    cost: u64,
    budget: u64,
}

impl<'a> Evaluator<'a, '_> {
    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        match self.cost > self.budget {
            true => Err(EvalError::CostExceeded),
            false => Ok(()),
        }
    }

    fn expr(&mut self, id: Id) -> Evaluated<'a> {
        match self.program.ast().expr(id) {
            Expr::Literal(literal) => Ok(Value::literal(literal)),
            Expr::Ident(_) => self.name(id),
            Expr::Select { operand, field, mode } => self.select(id, *operand, field, *mode),
            Expr::Call {
                function,
                target,
                arguments,
            } => match (&**function, &arguments[..]) {
                ("_&&_", [left, right]) => self.logic(*left, *right, false),
                ("_||_", [left, right]) => self.logic(*left, *right, true),
                ("_?_:_", [condition, yes, no]) => match self.expr(*condition)? {
                    Value::Bool(true) => self.expr(*yes),
                    Value::Bool(false) => self.expr(*no),
                    _ => Err(EvalError::NoSuchOverload),
                },
                _ => self.call(id, *target, arguments),
            },
            Expr::List(items) => self.list(items),
            Expr::Map(entries) => self.map(entries),
            Expr::Message { name, fields } => self.message(name, fields),
            Expr::Fold(fold) => self.fold(fold),
            Expr::OptionalMap {
                target,
                body,
                is_flat,
                ..
            } => self.optional_map(*target, *body, *is_flat),
        }
    }

    fn name(&mut self, id: Id) -> Evaluated<'a> {
        self.charge(NAME)?;
        match self.checked.meanings[id as usize] {
            Meaning::Local(index) => Ok(self.locals[index].clone()),
            Meaning::Variable(index) => match self.variables.get(index) {
                Some(value) => Ok(value.clone()),
                None => Err(EvalError::failed("no such attribute")),
            },
            _ => self.type_name(id),
        }
    }

    /// Charges for a value that was decoded to be read.
    fn decoded(&mut self, value: &Value<'a>) -> Result<(), EvalError> {
        match value {
            Value::Bytes(bytes) => self.charge(bytes.len() as u64 / DECODED_BYTES_PER_COST),
            _ => Ok(()),
        }
    }

    fn type_name(&self, id: Id) -> Evaluated<'a> {
        match &self.checked.types[id as usize] {
            crate::types::Type::Type(of) => Ok(Value::Type((**of).clone())),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn select(&mut self, id: Id, operand: Id, field: &'a str, mode: Select) -> Evaluated<'a> {
        if matches!(
            self.checked.meanings[id as usize],
            Meaning::Type | Meaning::Variable(_)
        ) {
            return self.name(id);
        }
        let of = self.expr(operand)?;
        if mode != Select::Test {
            self.charge(NAME)?;
        }
        let (of, was_optional) = match of {
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            Value::Optional(None) => (Value::Optional(None), true),
            other => (other, false),
        };
        let found = match &of {
            Value::Map(map) => {
                let found = map.member(field).transpose()?;
                found.as_ref().map_or(Ok(()), |found| self.decoded(found))?;
                found
            }
            Value::Message(message) => message.member(field),
            Value::Optional(None) => None,
            _ if mode == Select::Test && was_optional => None,
            _ => return Err(EvalError::NoSuchOverload),
        };
        match mode {
            Select::Test => Ok(Value::Bool(found.is_some())),
            Select::Plain if !was_optional => found.ok_or_else(|| EvalError::NoSuchKey(field.to_owned())),
            _ => Ok(Value::Optional(found.map(Rc::new))),
        }
    }

    /// `&&` and `||`: a decisive operand decides even if the other one fails.
    fn logic(&mut self, left: Id, right: Id, decisive: bool) -> Evaluated<'a> {
        let left = self.expr(left);
        match &left {
            Ok(Value::Bool(value)) if *value == decisive => return left,
            Err(EvalError::CostExceeded) => return left,
            _ => {}
        }
        let right = self.expr(right);
        match (left, right) {
            (_, Ok(Value::Bool(value))) if value == decisive => Ok(Value::Bool(decisive)),
            (_, Err(EvalError::CostExceeded)) => Err(EvalError::CostExceeded),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decisive)),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn call(&mut self, id: Id, target: Option<Id>, arguments: &'a [Id]) -> Evaluated<'a> {
        let Meaning::Function(function, is_member) = self.checked.meanings[id as usize] else {
            return Err(EvalError::NoSuchOverload);
        };
        let target = target.filter(|_| is_member);
        // On the stack: most steps of an expression are calls.
        let mut values = [const { Value::Null }; MAX_ARGUMENTS];
        let mut count = 0;
        for argument in target.iter().chain(arguments) {
            *values.get_mut(count).ok_or(EvalError::NoSuchOverload)? = self.expr(*argument)?;
            count += 1;
        }
        self.apply(function, id, &values[..count])
    }

    fn apply(&mut self, function: &Function, id: Id, values: &[Value<'a>]) -> Evaluated<'a> {
        let pattern = match self.checked.patterns.is_empty() {
            true => None,
            false => self.checked.patterns.get(&id),
        };
        let work = Work::within(self.budget - self.cost, pattern);
        let result = (function.call)(values, &work);
        let given = result.as_ref().map_or(1, Value::size);
        let mut taken = [0; MAX_ARGUMENTS];
        let mut read = result.as_ref().map_or(0, Value::bytes);
        for (size, value) in taken.iter_mut().zip(values) {
            read = read.saturating_add(value.bytes());
            *size = match value {
                Value::Map(_) if function.name == "@in" => 1,
                value => value.size(),
            };
        }
        let sizes = Sizes {
            taken: &taken[..values.len()],
            given,
        };
        let cost = (function.cost)(&sizes).max(read / READ_BYTES_PER_COST);
        self.charge(cost.saturating_add(work.cost()))?;
        result
    }

    fn list(&mut self, items: &'a [Item]) -> Evaluated<'a> {
        self.charge(LIST + many(items.len()))?;
        let mut made = Vec::with_capacity(items.len());
        for item in items {
            let value = self.expr(item.value)?;
            match (item.is_optional, value) {
                (false, value) => made.push(value),
                (true, Value::Optional(value)) => made.extend(value.map(|value| (*value).clone())),
                (true, _) => return Err(EvalError::NoSuchOverload),
            }
        }
        Ok(Value::list(made))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Evaluated<'a> {
        self.charge(MAP + many(entries.len()))?;
        let mut made = Vec::with_capacity(entries.len());
        for entry in entries {
            let (key, value) = (self.expr(entry.key)?, self.expr(entry.value)?);
            match (entry.is_optional, value) {
                (false, value) => made.push((key, value)),
                (true, Value::Optional(value)) => {
                    made.extend(value.map(|value| (key, (*value).clone())));
                }
                (true, _) => return Err(EvalError::NoSuchOverload),
            }
        }
        Ok(Value::Map(Map::of_entries(made)?))
    }

    fn message(&mut self, name: &'a str, fields: &'a [MessageField]) -> Evaluated<'a> {
        self.charge(MESSAGE)?;
        let mut made = BTreeMap::new();
        for field in fields {
            let value = match (field.is_optional, self.expr(field.value)?) {
                (false, value) => value,
                (true, Value::Optional(Some(value))) => (*value).clone(),
                (true, Value::Optional(None)) => continue,
                (true, _) => return Err(EvalError::NoSuchOverload),
            };
            made.insert(&*field.name, value);
        }
        let fields = Rc::new(made);
        Ok(Value::Message(Message { name, fields }))
    }

    fn optional_map(&mut self, target: Id, body: Id, is_flat: bool) -> Evaluated<'a> {
        match self.expr(target)? {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => {
                self.locals.push((*value).clone());
                let made = self.expr(body);
                self.locals.pop();
                match is_flat {
                    true => made,
                    false => Ok(Value::Optional(Some(Rc::new(made?)))),
                }
            }
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.expr(fold.range)?;
        let depth = self.locals.len();
        let result = self.fold_over(fold, &range);
        self.locals.truncate(depth);
        result
    }

    /// The costs follow from cel-go's expansion of the macro: reading the accumulator, testing the loop condition,
    /// and constructing a one-item list if items are collected.
    fn fold_over(&mut self, fold: &'a Fold, range: &Value<'a>) -> Evaluated<'a> {
        let mut state = State::default();
        self.charge(match fold.kind {
            FoldKind::Map | FoldKind::Filter | FoldKind::TransformList => LIST,
            FoldKind::TransformMap | FoldKind::TransformMapEntry => MAP,
            _ => 0,
        })?;
        match range {
            Value::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    let (index, item) = (Value::Int(index as i64), item?);
                    self.decoded(&item)?;
                    if self.step(fold, &mut state, index, item.clone(), item)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for entry in map.entries() {
                    let (key, value) = entry?;
                    self.decoded(&value)?;
                    if self.step(fold, &mut state, key.clone(), value, key)? {
                        break;
                    }
                }
            }
            _ => return Err(EvalError::NoSuchOverload),
        }
        self.charge(match fold.kind {
            FoldKind::ExistsOne => 2,
            _ => 1,
        })?;
        state.finish(fold.kind)
    }

    /// Processes one item; returns true if the result is decided.
    fn step(
        &mut self,
        fold: &'a Fold,
        state: &mut State<'a>,
        key: Value<'a>,
        value: Value<'a>,
        single: Value<'a>,
    ) -> Result<bool, EvalError> {
        let depth = self.locals.len();
        match &fold.second {
            Some(_) => self.locals.extend([key.clone(), value]),
            None => self.locals.push(single.clone()),
        }
        let holds = match fold.condition {
            None => Ok(true),
            Some(condition) => match self.expr(condition) {
                Ok(Value::Bool(holds)) => Ok(holds),
                Ok(_) => Err(EvalError::NoSuchOverload),
                Err(error) => Err(error),
            },
        };
        let is_enough = match (fold.kind, holds) {
            (_, Err(EvalError::CostExceeded)) => return Err(EvalError::CostExceeded),
            (FoldKind::All | FoldKind::Exists, holds) => {
                let decisive = fold.kind == FoldKind::Exists;
                self.charge(if decisive { 4 } else { 3 })?;
                match holds {
                    Ok(holds) if holds == decisive => state.decided = true,
                    Ok(_) => {}
                    Err(error) => state.error = state.error.take().or(Some(error)),
                }
                state.decided
            }
            (FoldKind::ExistsOne, holds) => {
                let holds = holds?;
                self.charge(if holds { 2 } else { 1 })?;
                state.count += u64::from(holds);
                false
            }
            (_, holds) => {
                match holds? {
                    true => self.collect(fold, state, key, single)?,
                    false => self.charge(NAME)?,
                }
                false
            }
        };
        self.locals.truncate(depth);
        Ok(is_enough)
    }

    fn collect(
        &mut self,
        fold: &'a Fold,
        state: &mut State<'a>,
        key: Value<'a>,
        single: Value<'a>,
    ) -> Result<(), EvalError> {
        self.charge(LIST + 2 * NAME)?;
        let made = match fold.transform {
            Some(transform) => self.expr(transform)?,
            None => {
                self.charge(NAME)?;
                single
            }
        };
        match (fold.kind, made) {
            (FoldKind::TransformMap, made) => state.entries.push((key, made)),
            (FoldKind::TransformMapEntry, Value::Map(map)) => {
                for entry in map.entries() {
                    state.entries.push(entry?);
                }
            }
            (FoldKind::TransformMapEntry, _) => return Err(EvalError::NoSuchOverload),
            (_, made) => state.items.push(made),
        }
        match state.items.len() + state.entries.len() > MAX_MADE_ITEMS {
            true => Err(EvalError::CostExceeded),
            false => Ok(()),
        }
    }
}

/// The cost of a literal with many items.
fn many(items: usize) -> u64 {
    (items.saturating_sub(FREE_ITEMS) / ITEMS_PER_COST) as u64
}

/// The accumulator of a macro.
#[derive(Default)]
struct State<'a> {
    /// True if an item has decided: against `all`, or for `exists`.
    decided: bool,
    /// The first error of an item; irrelevant if another item decides.
    error: Option<EvalError>,
    count: u64,
    items: Vec<Value<'a>>,
    entries: Vec<(Value<'a>, Value<'a>)>,
}

impl<'a> State<'a> {
    fn finish(self, kind: FoldKind) -> Evaluated<'a> {
        match kind {
            FoldKind::All | FoldKind::Exists if self.decided => Ok(Value::Bool(kind == FoldKind::Exists)),
            FoldKind::All | FoldKind::Exists => match self.error {
                Some(error) => Err(error),
                None => Ok(Value::Bool(kind == FoldKind::All)),
            },
            FoldKind::ExistsOne => Ok(Value::Bool(self.count == 1)),
            FoldKind::Map | FoldKind::Filter | FoldKind::TransformList => Ok(Value::list(self.items)),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                Ok(Value::Map(Map::of_entries(self.entries)?))
            }
        }
    }
}
