//! Support for `serde_json::value::RawValue`, which asks for itself under a private name.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess};
use serde_json::Error;

use super::{Json, unusual};

/// The name of the struct and of its only field.
const TOKEN: &str = "$serde_json::private::RawValue";

/// The text of a value, in the form of that struct.
pub(super) struct RawValue<'de> {
    text: &'de str,
    is_named: bool,
}

impl<'de> RawValue<'de> {
    #[inline]
    pub(super) fn is_meant(name: &str) -> bool {
        name == TOKEN
    }

    /// Skips the next value and keeps its text.
    #[cold]
    pub(super) fn read(json: &mut Json<'de>) -> Result<Self, Error> {
        json.peek();
        let rest = json.text.get(json.offset()..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
        values.next().ok_or_else(unusual)??;
        let text = json.cut(values.byte_offset())?;
        Ok(Self {
            text,
            is_named: false,
        })
    }
}

impl<'de> MapAccess<'de> for RawValue<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match std::mem::replace(&mut self.is_named, true) {
            false => seed.deserialize(BorrowedStrDeserializer::new(TOKEN)).map(Some),
            true => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(BorrowedStrDeserializer::new(self.text))
    }
}
