//! The key of a member: text, or a type that can be parsed from text.

use serde::de::{Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

/// A key.
pub(super) enum Key<'de> {
    Plain(&'de str),
    Escaped(String),
}

impl Key<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Escaped(text) => text,
        }
    }

    /// The text, if it is a number.
    fn number(&self) -> Result<&str, Error> {
        let text = self.as_str();
        match text.as_bytes() {
            [b'-' | b'0'..=b'9', ..] if !text.ends_with(|end: char| end.is_ascii_whitespace()) => Ok(text),
            _ => Err(Error::custom(
                "invalid value: expected key to be a number in quotes",
            )),
        }
    }
}

/// Numbers are written in quotes.
macro_rules! deserialize_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            // Not `from_str`: the text may not outlive the key.
            let mut number = serde_json::Deserializer::from_reader(self.number()?.as_bytes());
            let value = Deserializer::$method(&mut number, visitor)?;
            number.end()?;
            Ok(value)
        })*
    };
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Error;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Plain(text) => visitor.visit_borrowed_str(text),
            Self::Escaped(text) => visitor.visit_string(text),
        }
    }

    deserialize_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.as_str() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.as_str().to_owned().into_deserializer())
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
