//! Decoding of objects, on demand.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Object;
use crate::{Encoding, RawObject, WireError, json};

impl Object {
    /// The object as a typed struct.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, WireError> {
        RawObject::item(self.encoding(), self.bytes()).decode(self.group_version_kind())
    }

    /// The object as a tree.
    pub fn to_value(&self) -> Result<Value, WireError> {
        self.decode()
    }

    /// The object as JSON that states its type; borrowed if it was sent like that.
    pub fn to_json(&self) -> Result<Cow<'_, [u8]>, WireError> {
        match self.encoding() {
            Encoding::Json => self.typed_json(),
            Encoding::Protobuf => {
                let raw = RawObject::item(self.encoding(), self.bytes());
                Ok(Cow::Owned(raw.protobuf_to_json(self.group_version_kind())?))
            }
        }
    }

    /// The bytes, with the type inserted if they do not state it.
    fn typed_json(&self) -> Result<Cow<'_, [u8]>, WireError> {
        let bytes = self.bytes();
        let stated = json::header(bytes)?;
        if !stated.kind.is_empty() || self.kind().is_empty() {
            return Ok(Cow::Borrowed(bytes));
        }
        let rest = bytes.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
        let comma = match rest.trim_ascii_start().first() {
            Some(b'}') => "",
            _ => ",",
        };
        let (kind, api_version) = (Value::from(self.kind()), Value::from(&*self.api_version()));
        let mut out = format!(r#"{{"kind":{kind},"apiVersion":{api_version}{comma}"#).into_bytes();
        out.extend_from_slice(rest);
        Ok(Cow::Owned(out))
    }
}
