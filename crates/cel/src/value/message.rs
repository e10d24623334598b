//! Messages, values of a named type that an expression constructs, and conversion of values to JSON.

use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{List, Map, Value};
use crate::functions::conversions::plain_text;
use crate::limits::{MAX_ISSUES, MAX_MADE_BYTES};

/// `Object.spec{replicas: 3}`: the given fields, and their type.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    pub(crate) name: &'a str,
    pub(crate) fields: Rc<BTreeMap<&'a str, Value<'a>>>,
}

impl<'a> Message<'a> {
    pub(crate) fn member(&self, name: &str) -> Option<Value<'a>> {
        self.fields.get(name).cloned()
    }
}

/// The size that a patch may still have. Values that contain others several times are larger than they look.
struct Room(u64);

/// The size of a value without its text.
const VALUE_BYTES: u64 = 10;

impl Default for Room {
    fn default() -> Self {
        Self(MAX_MADE_BYTES as u64)
    }
}

impl Room {
    fn take(&mut self, bytes: u64) -> Result<(), String> {
        let left = self.0.checked_sub(VALUE_BYTES + bytes);
        self.0 = left.ok_or("the patch is too large")?;
        Ok(())
    }
}

impl<'a> Value<'a> {
    /// The JSON of a value for a patch. A nested object must have the type of its path: `Object.spec.template` in
    /// `template` in `spec`.
    pub fn to_patch(&self) -> Result<Json, String> {
        if let Self::Message(message) = self {
            let mut misplaced = Vec::new();
            check_names(self, message.name, &mut misplaced, &mut Room::default());
            if !misplaced.is_empty() {
                return Err(format!("type mismatch: {}", misplaced.join("\n")));
            }
        }
        self.to_json(&mut Room::default())
    }

    /// The value of a field of a message.
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::Message(message) => message.member(name),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn items(&self) -> Option<Vec<Value<'a>>> {
        match self {
            Self::List(list) => list.to_vec().ok(),
            _ => None,
        }
    }

    fn to_json(&self, room: &mut Room) -> Result<Json, String> {
        room.take(self.bytes())?;
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Optional(Some(value)) => value.to_json(room)?,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            // Values JSON cannot represent, such as `NaN`, become text.
            Self::Double(value) => match Number::from_f64(*value) {
                Some(_) if value.fract() == 0.0 && value.abs() < 9e15 => Json::from(*value as i64),
                Some(number) => Json::Number(number),
                None => Json::String(plain_text(self).map_err(|error| error.to_string())?),
            },
            Self::String(text) => Json::String(text.to_string()),
            Self::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
            Self::Timestamp(_) | Self::Duration(_) => {
                Json::String(plain_text(self).map_err(|error| error.to_string())?)
            }
            Self::List(list) => list_json(list, room)?,
            Self::Map(map) => map_json(map, room)?,
            Self::Message(message) => {
                let fields = message.fields.iter();
                let fields = fields.map(|(name, value)| Ok(((*name).to_owned(), value.to_json(room)?)));
                Json::Object(fields.collect::<Result<_, String>>()?)
            }
            Self::Type(_) | Self::Opaque(_) => {
                let name = self.type_of().plain_name();
                return Err(format!("type conversion error from '{name}' to JSON"));
            }
        })
    }
}

fn list_json(list: &List<'_>, room: &mut Room) -> Result<Json, String> {
    let items = list.iter();
    let items = items.map(|item| item.map_err(|error| error.to_string())?.to_json(room));
    Ok(Json::Array(items.collect::<Result<_, String>>()?))
}

fn map_json(map: &Map<'_>, room: &mut Room) -> Result<Json, String> {
    let mut made = JsonMap::new();
    for entry in map.entries() {
        let (key, value) = entry.map_err(|error| error.to_string())?;
        let Some(name) = key.as_str() else {
            let (key, of) = (plain_text(&key), key.type_of().plain_name());
            let key = key.map_err(|error| error.to_string())?;
            return Err(format!("map key {key:?} is of type {of}, not string"));
        };
        room.take(key.bytes())?;
        made.insert(name.to_owned(), value.to_json(room)?);
    }
    Ok(Json::Object(made))
}

/// Checks type names. Maps and lists have none; their content counts as being in their place. What is too large is found
/// again, and refused, when it is written.
fn check_names(value: &Value<'_>, wanted: &str, misplaced: &mut Vec<String>, room: &mut Room) {
    if misplaced.len() == MAX_ISSUES || room.take(0).is_err() {
        return;
    }
    match value {
        Value::Message(message) => {
            if message.name != wanted {
                misplaced.push(format!(
                    "unexpected type name {:?}, expected {wanted:?}, which matches field name path from root Object type",
                    message.name
                ));
            }
            for (name, value) in message.fields.iter() {
                check_names(value, &format!("{wanted}.{name}"), misplaced, room);
            }
        }
        Value::List(List::Made(items)) => {
            for item in items.iter() {
                check_names(item, wanted, misplaced, room);
            }
        }
        Value::Map(Map::Made(entries)) => {
            for (_, value) in entries.values() {
                check_names(value, wanted, misplaced, room);
            }
        }
        _ => {}
    }
}
