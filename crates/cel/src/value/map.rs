//! Maps and objects: those of JSON, read on demand, and constructed ones.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use super::{Text, Value};
use crate::declared::{Declared, Object};
use crate::error::EvalError;
use crate::functions::Work;
use crate::functions::conversions::plain_text;

#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum Map<'a> {
    Json {
        members: &'a JsonMap<String, Json>,
        /// Its declaration.
        declared: &'a Declared,
    },
    Object {
        members: &'a JsonMap<String, Json>,
        object: &'a Arc<Object>,
    },
    Made(Rc<BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>>),
}

/// A key. Equal numbers are one key, whatever their types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub enum Key<'a> {
    Bool(bool),
    Number(i128),
    String(Text<'a>),
}

impl<'a> Key<'a> {
    pub(crate) fn new(value: &Value<'a>) -> Result<Self, EvalError> {
        Ok(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Number(i128::from(*value)),
            Value::Uint(value) => Self::Number(i128::from(*value)),
            Value::Double(value) if value.fract() == 0.0 => Self::Number(*value as i128),
            Value::String(text) => Self::String(text.clone()),
            other => {
                let name = other.type_of().plain_name();
                return Err(EvalError::failed(format!("unsupported key type: {name}")));
            }
        })
    }
}

impl<'a> Map<'a> {
    /// A constructed map; duplicate keys are an error.
    pub(crate) fn of_entries(entries: Vec<(Value<'a>, Value<'a>)>) -> Result<Self, EvalError> {
        let mut made = BTreeMap::new();
        for (key, value) in entries {
            let found = Key::new(&key)?;
            if made.insert(found, (key.clone(), value)).is_some() {
                let key = plain_text(&key)?;
                return Err(EvalError::failed(format!(
                    "insert failed: key {key} already exists"
                )));
            }
        }
        Ok(Self::Made(made.into()))
    }

    /// The number of members, declared or not.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { members, .. } | Self::Object { members, .. } => members.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    /// A member by its name in expressions.
    pub(crate) fn member(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Json { members, declared } => {
                let member = members.get(name)?;
                Some(Value::from_json(member, declared.element()))
            }
            Self::Object { members, object } => {
                let field = object.fields.get(name)?;
                let member = members.get(&field.name)?;
                Some(Value::from_json(member, &field.declared))
            }
            Self::Made(entries) => {
                let key = Key::String(Text::Made(name.into()));
                entries.get(&key).map(|(_, value)| Ok(value.clone()))
            }
        }
    }

    pub(crate) fn get(&self, key: &Value<'a>) -> Option<Result<Value<'a>, EvalError>> {
        match (self, key) {
            (Self::Made(entries), key) => match Key::new(key) {
                Ok(key) => entries.get(&key).map(|(_, value)| Ok(value.clone())),
                Err(error) => Some(Err(error)),
            },
            (_, Value::String(name)) => self.member(name),
            _ => None,
        }
    }

    /// Keys and values, read one by one. Of an object, only the declared fields.
    pub(crate) fn entries(&self) -> Box<dyn Iterator<Item = Entry<'a>> + '_> {
        match self {
            Self::Json { members, declared } => Box::new(members.iter().map(|(name, value)| {
                let value = Value::from_json(value, declared.element())?;
                Ok((Value::String(Text::Borrowed(name)), value))
            })),
            Self::Object { members, object } => {
                let fields = object.fields.iter();
                Box::new(fields.filter_map(|(name, field)| {
                    let value = Value::from_json(members.get(&field.name)?, &field.declared);
                    Some(value.map(|value| (Value::String(Text::Borrowed(name)), value)))
                }))
            }
            Self::Made(entries) => Box::new(entries.values().cloned().map(Ok)),
        }
    }

    /// The number of entries.
    pub(crate) fn count(&self, work: &Work<'_>) -> Result<usize, EvalError> {
        let Self::Object { members, object } = self else {
            return Ok(self.len());
        };
        let mut count = 0;
        for field in object.fields.values() {
            work.step()?;
            count += usize::from(members.contains_key(&field.name));
        }
        Ok(count)
    }
}

/// A key with its value, or the error of reading it.
type Entry<'a> = Result<(Value<'a>, Value<'a>), EvalError>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::declared::Shape;

    #[test]
    fn entries_are_read_when_somebody_asks() {
        let (json, times) = (
            json!({"a": "2024-01-01T00:00:00Z", "b": "never"}),
            Declared::plain(Shape::Map(Declared::plain(Shape::Timestamp).into())),
        );
        let Ok(Value::Map(map)) = Value::from_json(&json, &times) else {
            panic!("no map")
        };
        let read: Vec<bool> = map.entries().map(|entry| entry.is_ok()).collect();
        assert_eq!(read, [true, false]);
    }
}
