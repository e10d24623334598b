//! Estimates the maximum cost of an expression from the maximum sizes of its variables, as Kubernetes does before it
//! accepts a rule. Unknown sizes count as the largest possible.

use crate::ast::{Ast, Expr, Fold, FoldKind, Id, Literal};
use crate::check::{Checked, Meaning};
use crate::declared::{DYN, Declared, Shape};
use crate::functions::Sizes;
use crate::types::Type;

/// The maximum cost of an evaluation.
pub(crate) fn estimate(ast: &Ast, root: Id, checked: &Checked, variables: &[(String, Declared)]) -> u64 {
    let mut estimator = Estimator {
        ast,
        checked,
        variables,
        locals: Vec::new(),
    };
    estimator.expr(root).cost
}

/// The maximum cost of an expression and the maximum size of its result.
#[derive(Clone, Copy)]
struct Estimate<'d> {
    cost: u64,
    size: u64,
    /// Its declaration, if it comes from a variable or contains one.
    declared: &'d Declared,
    /// The size of its items, if it is a constructed list.
    item_size: u64,
}

struct Estimator<'d> {
    ast: &'d Ast,
    checked: &'d Checked,
    variables: &'d [(String, Declared)],
    locals: Vec<Estimate<'d>>,
}

impl<'d> Estimator<'d> {
    fn expr(&mut self, id: Id) -> Estimate<'d> {
        match self.ast.expr(id) {
            Expr::Literal(literal) => made(0, literal_size(literal)),
            Expr::Ident(_) => match self.checked.meanings[id as usize] {
                Meaning::Local(index) => Estimate {
                    cost: 1,
                    ..self.locals[index]
                },
                Meaning::Variable(index) => of(&self.variables[index].1, 1),
                _ => made(1, 1),
            },
            Expr::Select { .. } if let Meaning::Variable(index) = self.checked.meanings[id as usize] => {
                of(&self.variables[index].1, 1)
            }
            Expr::Select { operand, field, mode } => {
                let from = self.expr(*operand);
                match mode {
                    crate::ast::Select::Test => made(from.cost, 1),
                    _ => of(from.declared.member(field), from.cost.saturating_add(1)),
                }
            }
            Expr::Call {
                function,
                target,
                arguments,
            } => self.call(id, function, *target, arguments),
            Expr::List(items) => {
                let within: Vec<_> = items.iter().map(|item| self.expr(item.value)).collect();
                let made = made(10, items.len() as u64);
                Estimate {
                    cost: within
                        .iter()
                        .fold(made.cost, |sum, it| sum.saturating_add(it.cost)),
                    item_size: within.iter().map(|it| it.size).max().unwrap_or(0),
                    ..made
                }
            }
            Expr::Map(entries) => {
                let mut sum = made(30, entries.len() as u64);
                for entry in entries {
                    let (key, value) = (self.expr(entry.key), self.expr(entry.value));
                    sum.cost = sum.cost.saturating_add(key.cost).saturating_add(value.cost);
                    sum.item_size = sum.item_size.max(value.size).max(key.size);
                }
                sum
            }
            Expr::Message { fields, .. } => {
                let within = fields.iter().map(|field| self.expr(field.value).cost);
                made(within.fold(40, u64::saturating_add), 1)
            }
            Expr::Fold(fold) => self.fold(fold),
            Expr::OptionalMap { target, body, .. } => {
                let on = self.expr(*target);
                self.locals.push(of(on.declared.element(), 1));
                let within = self.expr(*body);
                self.locals.pop();
                Estimate {
                    cost: on.cost.saturating_add(within.cost),
                    ..within
                }
            }
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, arguments: &[Id]) -> Estimate<'d> {
        let Meaning::Function(called, is_member) = self.checked.meanings[id as usize] else {
            return made(1, u64::MAX);
        };
        let target = target.filter(|_| is_member);
        let all = target.iter().chain(arguments);
        let taken: Vec<Estimate<'d>> = all.map(|argument| self.expr(*argument)).collect();
        let total = taken.iter().fold(0u64, |sum, it| sum.saturating_add(it.cost));
        match (function, &taken[..]) {
            ("_&&_" | "_||_", _) => return made(total, 1),
            ("_?_:_", [condition, yes, no]) => {
                let larger = if yes.size >= no.size { yes } else { no };
                return Estimate {
                    cost: condition.cost.saturating_add(yes.cost.max(no.cost)),
                    ..*larger
                };
            }
            ("_[_]" | "_[?_]", [container, _]) => {
                let item = element(container);
                return Estimate {
                    cost: total.saturating_add(1),
                    ..item
                };
            }
            ("dyn" | "value", [inner, ..]) => {
                return Estimate {
                    cost: total.saturating_add(1),
                    ..*inner
                };
            }
            _ => {}
        }
        let mut sizes: Vec<u64> = taken.iter().map(|it| it.size).collect();
        if let (true, Some(container)) = (called.name == "@in", arguments.last())
            && matches!(self.checked.types[*container as usize], Type::Map(..))
        {
            sizes[1] = 1;
        }
        let given = match called.growth {
            Some(growth) => growth(&sizes),
            None => unknown_size(&self.checked.types[id as usize]),
        };
        let cost = match called.is_estimated_plain {
            true => 1,
            false => (called.cost)(&Sizes {
                taken: &sizes,
                given: join_size(called.name, &taken).unwrap_or(given),
            }),
        };
        Estimate {
            item_size: sizes.first().copied().unwrap_or(u64::MAX),
            ..made(total.saturating_add(cost), given)
        }
    }

    fn fold(&mut self, fold: &Fold) -> Estimate<'d> {
        let range = self.expr(fold.range);
        let is_map = matches!(self.checked.types[fold.range as usize], Type::Map(..));
        let depth = self.locals.len();
        let value = Estimate {
            cost: 1,
            ..element(&range)
        };
        // The length of keys is unknown; Kubernetes ignores it.
        let key = made(1, if is_map { 0 } else { 1 });
        match (&fold.second, is_map) {
            (Some(_), _) => self.locals.extend([key, value]),
            (None, true) => self.locals.push(key),
            (None, false) => self.locals.push(value),
        }
        let within = [fold.condition, fold.transform].map(|body| body.map(|body| self.expr(body)));
        self.locals.truncate(depth);
        let body = within
            .iter()
            .flatten()
            .fold(0u64, |sum, it| sum.saturating_add(it.cost));
        let (start, step) = match fold.kind {
            FoldKind::All => (1, 3),
            FoldKind::Exists => (1, 4),
            FoldKind::ExistsOne => (2, 2),
            FoldKind::Map | FoldKind::TransformList => (11, 12),
            FoldKind::Filter => (11, 13),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => (31, 12),
        };
        let steps = range.size.saturating_mul(body.saturating_add(step));
        let cost = range.cost.saturating_add(start).saturating_add(steps);
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => made(cost, 1),
            FoldKind::Filter if !is_map => Estimate { cost, ..range },
            _ => Estimate {
                item_size: within[1].map_or(u64::MAX, |it| it.size),
                ..made(cost, range.size)
            },
        }
    }
}

/// A constructed value of a size.
fn made<'d>(cost: u64, size: u64) -> Estimate<'d> {
    Estimate {
        cost,
        size,
        declared: &DYN,
        item_size: u64::MAX,
    }
}

/// A declared value. Primitives have no size: comparing them is free, as in Kubernetes.
fn of(declared: &Declared, cost: u64) -> Estimate<'_> {
    let is_plain = matches!(declared.shape, Shape::Bool | Shape::Int | Shape::Double);
    Estimate {
        cost,
        size: if is_plain { 0 } else { declared.max_size },
        declared,
        item_size: declared.element().max_size,
    }
}

/// An item or value of a container.
fn element<'d>(container: &Estimate<'d>) -> Estimate<'d> {
    match container.declared.shape {
        Shape::List(_) | Shape::Map(_) | Shape::Optional(_) => of(container.declared.element(), 1),
        _ => made(1, container.item_size),
    }
}

/// The size of joined texts: their number times their maximum length.
fn join_size(function: &str, taken: &[Estimate<'_>]) -> Option<u64> {
    let [list, separator @ ..] = taken else {
        return None;
    };
    let between = separator.first().map_or(0, |it| it.size);
    (function == "join").then(|| {
        let each = element(list).size.saturating_add(between);
        list.size.saturating_mul(each)
    })
}

fn literal_size(literal: &Literal) -> u64 {
    match literal {
        Literal::String(text) => text.len() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

/// The size of a value of unknown size: the largest possible.
fn unknown_size(found: &Type) -> u64 {
    match found {
        Type::String | Type::Bytes | Type::List(_) | Type::Map(..) | Type::Dyn => u64::MAX,
        _ => 1,
    }
}
