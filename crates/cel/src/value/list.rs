//! Lists: those of JSON, read item by item, and constructed ones.

use std::rc::Rc;

use serde_json::Value as Json;

use super::Value;
use crate::declared::{Declared, Identity, Shape};
use crate::error::EvalError;

#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum List<'a> {
    Json {
        items: &'a [Json],
        /// Its declaration.
        declared: &'a Declared,
    },
    Made(Rc<[Value<'a>]>),
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Made(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Json { items, declared } => {
                let item = items.get(index)?;
                Some(Value::from_json(item, declared.element()))
            }
            Self::Made(items) => items.get(index).cloned().map(Ok),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(crate) fn to_vec(&self) -> Result<Vec<Value<'a>>, EvalError> {
        self.iter().collect()
    }

    /// The identity of its items.
    pub(crate) fn identity(&self) -> &Identity {
        match self {
            Self::Json {
                declared:
                    Declared {
                        shape: Shape::List(list),
                        ..
                    },
                ..
            } => &list.identity,
            _ => &Identity::Place,
        }
    }
}
