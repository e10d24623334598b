//! Types of macros: their variables and results.

use super::Checker;
use crate::ast::{Fold, FoldKind, Id};
use crate::types::Type;

impl<'c> Checker<'c> {
    /// The types of index or key, and of the value, of a range.
    fn range(&mut self, id: Id) -> (Type, Type, bool) {
        let range = self.expr(id);
        match self.bindings.settled(&range) {
            Type::List(of) => (Type::Int, (*of).clone(), true),
            Type::Map(keys, values) => ((*keys).clone(), (*values).clone(), false),
            Type::Dyn | Type::Error | Type::Param(_) => (Type::Dyn, Type::Dyn, true),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(id, why);
                (Type::Error, Type::Error, true)
            }
        }
    }

    pub(super) fn fold(&mut self, fold: &'c Fold) -> Type {
        let (first, second, is_list) = self.range(fold.range);
        let depth = self.locals.len();
        match &fold.second {
            Some(name) => {
                self.locals.push((&fold.name, first.clone()));
                self.locals.push((name, second.clone()));
            }
            None => {
                let single = if is_list { second.clone() } else { first.clone() };
                self.locals.push((&fold.name, single));
            }
        }
        if let Some(condition) = fold.condition {
            self.expect(condition, &Type::Bool);
        }
        let made = fold.transform.map(|transform| (transform, self.expr(transform)));
        self.locals.truncate(depth);
        let item = match is_list {
            true => second,
            false => first.clone(),
        };
        let made_type = made.as_ref().map_or(Type::Dyn, |(_, it)| it.clone());
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Type::Bool,
            FoldKind::Filter => Type::list(item),
            FoldKind::Map | FoldKind::TransformList => Type::list(made_type),
            FoldKind::TransformMap => Type::map(first, made_type),
            FoldKind::TransformMapEntry => match (made, self.bindings.settled(&made_type)) {
                (_, made @ (Type::Map(..) | Type::Dyn | Type::Error)) => made,
                (Some((id, _)), other) => {
                    let why = format!("expected type 'map(dyn, dyn)' but found '{other}'");
                    self.issue(id, why);
                    Type::Error
                }
                (None, _) => Type::Error,
            },
        }
    }

    pub(super) fn optional_map(&mut self, target: Id, name: &'c str, body: Id, is_flat: bool) -> Type {
        let on = self.expr(target);
        let of = match self.bindings.settled(&on) {
            Type::Optional(of) => (*of).clone(),
            other if other.is_dyn() => Type::Dyn,
            other => {
                let function = if is_flat { "optFlatMap" } else { "optMap" };
                let why = format!("found no matching overload for '{function}' applied to '{other}.()'");
                self.issue(target, why);
                Type::Error
            }
        };
        self.locals.push((name, of));
        let made = self.expr(body);
        self.locals.pop();
        match is_flat {
            false => Type::optional(made),
            true => {
                let open = self.bindings.fresh();
                if !self.bindings.assign(&made, &Type::optional(open)) {
                    let found = self.bindings.settled(&made);
                    self.issue(
                        body,
                        format!("expected type 'optional_type(dyn)' but found '{found}'"),
                    );
                }
                made
            }
        }
    }
}
