//! Type unification.

use std::sync::Arc;

use crate::types::Type;

/// The bindings of type variables.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// The bound variables in order, so that a signature that does not match can be undone.
    trail: Vec<u32>,
}

/// A point to return to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    known: usize,
    bound: usize,
}

impl Bindings {
    /// A new type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Param((self.bound.len() - 1) as u32)
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            known: self.bound.len(),
            bound: self.trail.len(),
        }
    }

    /// Undoes all bindings since.
    pub(super) fn undo(&mut self, mark: Mark) {
        for number in self.trail.drain(mark.bound..) {
            self.bound[number as usize] = None;
        }
        self.bound.truncate(mark.known);
    }

    /// True if a value of `actual` can be used as `wanted`; binds type variables.
    pub(super) fn assign(&mut self, actual: &Type, wanted: &Type) -> bool {
        let (actual, wanted) = (self.known(actual), self.known(wanted));
        match (&actual, &wanted) {
            (Type::Param(a), Type::Param(b)) if a == b => true,
            (_, Type::Param(number)) => self.bind(*number, &actual),
            (Type::Param(number), _) => self.bind(*number, &wanted),
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assign(a, b),
            (Type::Map(a, x), Type::Map(b, y)) => self.assign(a, b) && self.assign(x, y),
            // All types are values of one type.
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => a == b,
        }
    }

    /// Binds a variable. A type that contains itself is refused.
    fn bind(&mut self, number: u32, to: &Type) -> bool {
        if self.mentions(to, number) {
            return false;
        }
        self.bound[number as usize] = Some(to.clone());
        self.trail.push(number);
        true
    }

    fn mentions(&self, found: &Type, number: u32) -> bool {
        match self.known(found) {
            Type::Param(other) => other == number,
            Type::List(of) | Type::Optional(of) | Type::Type(of) => self.mentions(&of, number),
            Type::Map(keys, values) => self.mentions(&keys, number) || self.mentions(&values, number),
            _ => false,
        }
    }

    /// The binding of a type variable, if there is one.
    fn known(&self, found: &Type) -> Type {
        let mut found = found.clone();
        while let Type::Param(number) = found {
            match &self.bound[number as usize] {
                Some(bound) => found = bound.clone(),
                None => return found,
            }
        }
        found
    }

    /// A type without variables; unbound ones become `dyn`.
    pub(super) fn settled(&self, found: &Type) -> Type {
        match self.settled_or_open(found) {
            Type::Param(_) => Type::Dyn,
            Type::List(of) => Type::list(self.settled(&of)),
            Type::Optional(of) => Type::optional(self.settled(&of)),
            Type::Type(of) => Type::Type(Arc::new(self.settled(&of))),
            Type::Map(keys, values) => Type::map(self.settled(&keys), self.settled(&values)),
            other => other,
        }
    }

    /// A type with only unbound variables left.
    pub(super) fn settled_or_open(&self, found: &Type) -> Type {
        match self.known(found) {
            Type::List(of) => Type::list(self.settled_or_open(&of)),
            Type::Optional(of) => Type::optional(self.settled_or_open(&of)),
            Type::Type(of) => Type::Type(Arc::new(self.settled_or_open(&of))),
            Type::Map(keys, values) => Type::map(self.settled_or_open(&keys), self.settled_or_open(&values)),
            other => other,
        }
    }
}

/// `null` is a value of types other than containers and primitives.
fn is_nullable(found: &Type) -> bool {
    matches!(
        found,
        Type::Null
            | Type::Object(_)
            | Type::Message(_)
            | Type::Timestamp
            | Type::Duration
            | Type::Opaque(_)
            | Type::Optional(_)
    )
}
