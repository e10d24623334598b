//! Parses a JSON body into a value and reports duplicate keys.
//!
//! The first pass is as fast as parsing can be and only notices *that* a key was duplicated. A second pass, which
//! tracks paths, runs only for such bodies.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{STRICT_LIMIT, StrictError, syntax};
use crate::json::de::Json;
use crate::limits::OBJECT_LIMIT;

/// A parsed body.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// The value; the last of several equal keys counts.
    pub value: Value,
    /// The duplicate keys, at most [`STRICT_LIMIT`].
    pub duplicates: Vec<StrictError>,
}

/// A body that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Larger than any object may be.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Go's syntax error.
    #[error("{message}")]
    Syntax {
        /// The text.
        message: String,
    },
}

/// Parses a JSON body of at most [`OBJECT_LIMIT`] bytes. The nesting limit is that of `serde_json`.
pub fn read_body(body: &[u8]) -> Result<Body, BodyError> {
    if body.len() > OBJECT_LIMIT {
        return Err(BodyError::TooLarge { limit: OBJECT_LIMIT });
    }
    let (value, has_duplicates) = read_quickly(body).map_or_else(|| read_any(body), Ok)?;
    let duplicates = if has_duplicates {
        duplicates(body)
    } else {
        Vec::new()
    };
    Ok(Body { value, duplicates })
}

/// Parses nearly every body; `None` leaves it to [`read_any`]. Returns the value, and true if a key was duplicated.
fn read_quickly(body: &[u8]) -> Option<(Value, bool)> {
    let mut has_duplicates = false;
    let mut json = Json::new(std::str::from_utf8(body).ok()?);
    let value = json.tree(&mut has_duplicates).ok()?;
    json.end().ok()?;
    Some((value, has_duplicates))
}

/// Parses a body as Go decodes it into a struct: the objects of equal keys are merged; of other values the last one
/// counts. `None` if it is not JSON.
pub fn read_body_into_one(body: &[u8]) -> Option<Value> {
    let mut has_duplicates = false;
    let seed = Plain {
        has_duplicates: &mut has_duplicates,
        equal_keys: EqualKeys::GrowTogether,
    };
    read(body, seed).ok()
}

fn read_any(body: &[u8]) -> Result<(Value, bool), BodyError> {
    let mut has_duplicates = false;
    let seed = Plain {
        has_duplicates: &mut has_duplicates,
        equal_keys: EqualKeys::LastCounts,
    };
    let value = read(body, seed).map_err(|error| BodyError::Syntax {
        message: syntax::message(body).unwrap_or_else(|| error.to_string()),
    })?;
    Ok((value, has_duplicates))
}

fn duplicates(body: &[u8]) -> Vec<StrictError> {
    let mut found = Duplicates::default();
    // The first pass has parsed the same bytes without an error.
    let _ = read(body, Tracking(&mut found));
    found.found
}

fn read<'de, S: DeserializeSeed<'de>>(body: &'de [u8], seed: S) -> Result<S::Value, serde_json::Error> {
    // The whole body is checked for UTF-8 at once, not string by string.
    let Ok(text) = std::str::from_utf8(body) else {
        let error = serde_json::from_slice::<Value>(body).err();
        return Err(error.unwrap_or_else(|| serde_json::Error::custom("a body that is not UTF-8")));
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// Parses a value and notices duplicate keys.
struct Plain<'a> {
    has_duplicates: &'a mut bool,
    equal_keys: EqualKeys,
}

/// The treatment of equal keys.
#[derive(Clone, Copy)]
enum EqualKeys {
    LastCounts,
    GrowTogether,
}

impl Plain<'_> {
    /// The same for a nested value.
    fn within(&mut self) -> Plain<'_> {
        Plain {
            has_duplicates: self.has_duplicates,
            equal_keys: self.equal_keys,
        }
    }
}

/// Merges an object's entries into another, as Go decodes both into one struct.
fn grow(found: &mut Value, again: Value) {
    match (found, again) {
        (Value::Object(found), Value::Object(again)) => {
            for (key, value) in again {
                grow(found.entry(key).or_insert(Value::Null), value);
            }
        }
        (found, again) => *found = again,
    }
}

impl<'de> DeserializeSeed<'de> for Plain<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self.within())? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(self.within())?;
            match (self.equal_keys, entries.get_mut(&key)) {
                (EqualKeys::GrowTogether, Some(found)) => grow(found, value),
                _ => *self.has_duplicates |= entries.insert(key, value).is_some(),
            }
        }
        Ok(Value::Object(entries))
    }
}

/// The position of the second pass and its findings.
#[derive(Default)]
struct Duplicates {
    path: String,
    found: Vec<StrictError>,
}

struct Tracking<'a>(&'a mut Duplicates);

impl<'de> DeserializeSeed<'de> for Tracking<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tracking<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        let mut index = 0;
        loop {
            self.0.path.push_str(&format!("[{index}]"));
            let item = list.next_element_seed(Tracking(self.0))?;
            self.0.path.truncate(length);
            if item.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !self.0.path.is_empty() {
                self.0.path.push('.');
            }
            self.0.path.push_str(&key);
            if !seen.insert(key) {
                self.0.complain().map_err(A::Error::custom)?;
            }
            map.next_value_seed(Tracking(self.0))?;
            self.0.path.truncate(length);
        }
        Ok(())
    }
}

impl Duplicates {
    /// Records the current path; returns an error to end the pass at the limit.
    fn complain(&mut self) -> Result<(), &'static str> {
        let complaint = StrictError::Duplicate {
            path: self.path.clone(),
        };
        if !self.found.contains(&complaint) {
            self.found.push(complaint);
        }
        if self.found.len() < STRICT_LIMIT {
            Ok(())
        } else {
            Err("enough")
        }
    }
}
