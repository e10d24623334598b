//! Which types fit which, while some are not known yet.

use std::sync::Arc;

use crate::types::Type;

/// What stands for types that are found out on the way.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// Those that were bound, in order, so that a signature that does not fit leaves nothing behind.
    trail: Vec<u32>,
}

/// How far the bindings were at some time.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    known: usize,
    bound: usize,
}

impl Bindings {
    /// A type that is not known yet.
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

    /// Forgets what was found out since.
    pub(super) fn undo(&mut self, mark: Mark) {
        for number in self.trail.drain(mark.bound..) {
            self.bound[number as usize] = None;
        }
        self.bound.truncate(mark.known);
    }

    /// Whether a value of a type can stand where another is wanted; what is not known yet is known then.
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
            // Types as values are all of one kind.
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => a == b,
        }
    }

    /// A type that holds a name for itself has no end, and does not fit.
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

    /// The type behind a name, if it is known.
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

    /// A type without names for others; what is still unknown can be anything.
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

    /// A type in which names stand only for what is still unknown.
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

/// Of the types that are no containers or plain values, `null` is a value too.
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
