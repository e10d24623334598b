//! Macros: `has`, and iteration over lists and maps.

use super::Parser;
use crate::ast::{Expr, Fold, FoldKind, Id, Item, Literal, Select};
use crate::error::Issue;

/// A macro by its name and number of arguments. `None` if it is an ordinary call.
fn fold_kind(name: &str, arguments: usize) -> Option<(FoldKind, Names)> {
    use FoldKind::*;
    Some(match (name, arguments) {
        ("all", 2) => (All, Names::One),
        ("exists", 2) => (Exists, Names::One),
        ("exists_one" | "existsOne", 2) => (ExistsOne, Names::One),
        ("map", 2 | 3) => (Map, Names::One),
        ("filter", 2) => (Filter, Names::One),
        ("all", 3) => (All, Names::Two),
        ("exists", 3) => (Exists, Names::Two),
        ("exists_one" | "existsOne", 3) => (ExistsOne, Names::Two),
        ("transformList", 3 | 4) => (TransformList, Names::Two),
        ("transformMap", 3 | 4) => (TransformMap, Names::Two),
        ("transformMapEntry", 3 | 4) => (TransformMapEntry, Names::Two),
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Names {
    One,
    Two,
}

impl Parser {
    pub(super) fn global_call(&mut self, offset: u32, name: &str, arguments: Vec<Id>) -> Result<Id, Issue> {
        let [argument] = arguments[..] else {
            return self.call(offset, name, None, arguments);
        };
        if name != "has" {
            return self.call(offset, name, None, arguments);
        }
        match self.ast.expr(argument) {
            Expr::Select {
                operand,
                field,
                mode: Select::Plain,
            } => {
                let (operand, field) = (*operand, field.clone());
                let mode = Select::Test;
                self.ast.add(offset, Expr::Select { operand, field, mode })
            }
            _ => Err(Issue::at(
                self.ast.offset(argument),
                "invalid argument to has() macro",
            )),
        }
    }

    pub(super) fn member_call(
        &mut self,
        offset: u32,
        target: Id,
        name: &str,
        arguments: Vec<Id>,
    ) -> Result<Id, Issue> {
        if let ("optMap" | "optFlatMap", [variable, body]) = (name, &arguments[..]) {
            let (name, body, is_flat) = (self.variable(*variable)?, *body, name == "optFlatMap");
            let bound = Expr::OptionalMap {
                target,
                name,
                body,
                is_flat,
            };
            return self.ast.add(offset, bound);
        }
        if let ("bind", [variable, value, body]) = (name, &arguments[..])
            && self.ast.expr(target) == &Expr::Ident("cel".into())
        {
            return self.bind(offset, *variable, *value, *body);
        }
        match fold_kind(name, arguments.len()) {
            Some((kind, names)) => self.fold(offset, target, kind, names, &arguments),
            None => self.call(offset, name, Some(target), arguments),
        }
    }

    /// `cel.bind(name, value, body)` expands to `[value].map(name, body)[0]`.
    fn bind(&mut self, offset: u32, variable: Id, value: Id, body: Id) -> Result<Id, Issue> {
        let item = Item {
            value,
            is_optional: false,
        };
        let list = self.ast.add(offset, Expr::List(vec![item]))?;
        let bodies = self.fold(offset, list, FoldKind::Map, Names::One, &[variable, body])?;
        let first = self.ast.add(offset, Expr::Literal(Literal::Int(0)))?;
        self.call(offset, "_[_]", None, vec![bodies, first])
    }

    fn fold(
        &mut self,
        offset: u32,
        range: Id,
        kind: FoldKind,
        names: Names,
        arguments: &[Id],
    ) -> Result<Id, Issue> {
        let name = self.variable(arguments[0])?;
        let (second, bodies) = match names {
            Names::One => (None, &arguments[1..]),
            Names::Two => (Some(self.variable(arguments[1])?), &arguments[2..]),
        };
        if second.as_ref() == Some(&name) {
            let why = format!("duplicate variable name: {name}");
            return Err(Issue::at(self.ast.offset(arguments[1]), why));
        }
        let makes = !matches!(
            kind,
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter
        );
        let (condition, transform) = match (makes, bodies) {
            (false, [condition]) => (Some(*condition), None),
            (true, [transform]) => (None, Some(*transform)),
            (_, [condition, transform, ..]) => (Some(*condition), Some(*transform)),
            _ => (None, None),
        };
        let fold = Fold {
            kind,
            range,
            name,
            second,
            condition,
            transform,
        };
        self.ast.add(offset, Expr::Fold(Box::new(fold)))
    }

    fn variable(&self, id: Id) -> Result<Box<str>, Issue> {
        match self.ast.expr(id) {
            Expr::Ident(name) => Ok(name.clone()),
            _ => Err(Issue::at(self.ast.offset(id), "argument must be a simple name")),
        }
    }
}
