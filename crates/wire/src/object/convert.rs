//! Decoding an object: the price is paid here, by whoever asks.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Object;
use crate::protobuf::Message;
use crate::schema::Schema;
use crate::{Encoding, WireError, json};

impl Object {
    /// The object as a typed struct.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, WireError> {
        match self.encoding() {
            Encoding::Json => {
                serde_json::from_slice(&self.typed_json()?).map_err(|error| self.decode_error(&error))
            }
            Encoding::Protobuf => {
                let api_version = self.api_version();
                Message::of_kind(Schema::builtin(), &api_version, self.kind(), self.bytes())
                    .and_then(|message| message.decode())
                    .map_err(|error| self.decode_error(&error))
            }
        }
    }

    /// The object as a tree.
    pub fn to_value(&self) -> Result<Value, WireError> {
        self.decode()
    }

    /// The object as JSON that states its type; borrowed where it was sent like that.
    pub fn to_json(&self) -> Result<Cow<'_, [u8]>, WireError> {
        match self.encoding() {
            Encoding::Json => self.typed_json(),
            Encoding::Protobuf => Ok(Cow::Owned(self.to_value()?.to_string().into_bytes())),
        }
    }

    /// The bytes, with the type put in front where they do not state it.
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

    fn decode_error(&self, error: &dyn std::fmt::Display) -> WireError {
        WireError::Decode {
            kind: self.group_version_kind().to_string(),
            key: self.key().to_string(),
            reason: error.to_string(),
        }
    }
}
