//! A `serde` deserializer for the JSON that servers write: text without surprises, read with as few steps as it takes.
//!
//! The text is UTF-8 as a whole, so no string in it is checked again; sixteen bytes of a string are looked at together;
//! one without escapes is borrowed. Numbers that are short and whole are read here. Escapes and other numbers are
//! handed to `serde_json`, which knows them all.
//!
//! An error says no more than that the text, or what is asked of it, is not like that: the caller then asks `serde_json`
//! and has its answer or its words. So nothing is accepted here that it refuses, and some things it accepts are not.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use super::reader::ends_scalar;
use super::strings::plain_length;

/// Objects and lists within each other; what is deeper is refused by `serde_json` too.
const MAX_DEPTH: u32 = 127;

/// The longest numbers that are read here, in digits; all of them fit 64 bits.
const MAX_DIGITS: usize = 18;

/// Where reading stands in a text.
pub(crate) struct Json<'de> {
    text: &'de str,
    /// The bytes of the text that have not been read.
    rest: &'de [u8],
    depth: u32,
}

impl<'de> Json<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self {
            text,
            rest: text.as_bytes(),
            depth: 0,
        }
    }

    /// An error unless only white space is left.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(unusual()),
        }
    }

    /// The next byte that is no white space.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> Option<u8> {
        match self.rest {
            [byte, ..] if *byte > b' ' => Some(*byte),
            _ => self.peek_behind_space(),
        }
    }

    #[inline(never)]
    fn peek_behind_space(&mut self) -> Option<u8> {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
        self.rest.first().copied()
    }

    /// Passes over the next byte, if it is this one.
    #[inline(always)]
    pub(super) fn take(&mut self, expected: u8) -> bool {
        if self.peek() != Some(expected) {
            return false;
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        true
    }

    /// Passes over a word.
    fn word(&mut self, word: &str) -> Result<(), Error> {
        self.peek();
        self.rest = self.rest.strip_prefix(word.as_bytes()).ok_or_else(unusual)?;
        Ok(())
    }

    /// A string without escapes, small enough to come back in registers; `None` where there is no such. One copy
    /// serves every visitor.
    #[inline(never)]
    pub(super) fn plain_text(&mut self) -> Option<&'de str> {
        self.peek();
        let rest = self.rest.strip_prefix(b"\"")?;
        let length = plain_length(rest);
        let behind = rest.get(length..)?.strip_prefix(b"\"")?;
        let start = self.text.len() - rest.len();
        let text = self.text.get(start..start + length)?;
        self.rest = behind;
        Some(text)
    }

    /// A string with escapes.
    #[cold]
    pub(super) fn escaped_text(&mut self) -> Result<String, Error> {
        if self.peek() != Some(b'"') {
            return Err(unusual());
        }
        let mut length = 1;
        loop {
            length += plain_length(self.rest.get(length..).unwrap_or_default());
            match self.rest.get(length) {
                Some(b'\\') => length += 2,
                Some(b'"') => break,
                _ => return Err(unusual()),
            }
        }
        serde_json::from_str(self.cut(length + 1)?)
    }

    /// The next bytes as text, which are passed over.
    fn cut(&mut self, length: usize) -> Result<&'de str, Error> {
        let start = self.text.len() - self.rest.len();
        let text = self.text.get(start..start + length).ok_or_else(unusual)?;
        self.rest = self.rest.get(length..).unwrap_or_default();
        Ok(text)
    }

    /// A whole number that is short, and whether it is below zero; `None` where there is no such. Minus zero is not
    /// whole.
    #[inline]
    fn integer(&mut self) -> Option<(bool, u64)> {
        self.peek();
        let (is_negative, digits) = match self.rest {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let (mut value, mut count) = (0u64, 0);
        while let Some(digit @ b'0'..=b'9') = digits.get(count)
            && count < MAX_DIGITS
        {
            value = value * 10 + u64::from(digit - b'0');
            count += 1;
        }
        let has_leading_zero = count > 1 && digits.first() == Some(&b'0');
        let behind = digits.get(count..)?;
        let is_whole = behind.first().is_none_or(|byte| ends_scalar(*byte));
        if count == 0 || has_leading_zero || !is_whole || is_negative && value == 0 {
            return None;
        }
        self.rest = behind;
        Some((is_negative, value))
    }

    fn number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.integer() {
            Some((false, value)) => visitor.visit_u64(value),
            Some((true, value)) => visitor.visit_i64(-(value as i64)),
            None => {
                let length = self.rest.iter().position(|byte| ends_scalar(*byte));
                let text = self.cut(length.unwrap_or(self.rest.len()))?;
                let mut number = serde_json::Deserializer::from_str(text);
                let value = number.deserialize_any(visitor)?;
                number.end()?;
                Ok(value)
            }
        }
    }

    #[inline(always)]
    fn text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.plain_text() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_string(self.escaped_text()?),
        }
    }

    #[inline]
    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.open(b'{')?;
        let value = visitor.visit_map(Elements {
            json: self,
            is_first: true,
        })?;
        self.close(b'}')?;
        Ok(value)
    }

    #[inline]
    fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.open(b'[')?;
        let value = visitor.visit_seq(Elements {
            json: self,
            is_first: true,
        })?;
        self.close(b']')?;
        Ok(value)
    }

    #[inline]
    pub(super) fn open(&mut self, bracket: u8) -> Result<(), Error> {
        if self.depth == MAX_DEPTH || !self.take(bracket) {
            return Err(unusual());
        }
        self.depth += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn close(&mut self, bracket: u8) -> Result<(), Error> {
        self.depth -= 1;
        match self.take(bracket) {
            true => Ok(()),
            false => Err(unusual()),
        }
    }

    /// Goes to the next element of an object or list; false in front of the closing bracket.
    #[inline]
    pub(super) fn go_to_element(&mut self, is_first: &mut bool, close: u8) -> Result<bool, Error> {
        if self.peek() == Some(close) {
            return Ok(false);
        }
        if !std::mem::take(is_first) && (!self.take(b',') || self.peek() == Some(close)) {
            return Err(unusual());
        }
        Ok(true)
    }
}

#[cold]
pub(super) fn unusual() -> Error {
    Error::custom("not the JSON of a server")
}

impl<'de> Deserializer<'de> for &mut Json<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'"') => self.text(visitor),
            Some(b'{') => self.object(visitor),
            Some(b'[') => self.list(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            _ => self.number(visitor),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.peek() == Some(b't');
        self.word(if value { "true" } else { "false" })?;
        visitor.visit_bool(value)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.word("null")?;
        visitor.visit_unit()
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(visitor),
            _ => Err(unusual()),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() == Some(b'n') {
            self.word("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.object(visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.object(visitor)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = self.plain_text().ok_or_else(unusual)?;
        visitor.visit_enum(BorrowedStrDeserializer::new(variant))
    }

    forward_to_deserialize_any! {
        i8 i16 u8 u16 u32 u64 f64 char unit_struct tuple tuple_struct ignored_any
    }

    // What `serde_json` reads in ways of its own.

    fn deserialize_i128<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(unusual())
    }

    fn deserialize_u128<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(unusual())
    }

    fn deserialize_f32<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(unusual())
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(unusual())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(unusual())
    }
}

/// The members of an object, or the items of a list.
struct Elements<'j, 'de> {
    json: &'j mut Json<'de>,
    is_first: bool,
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if !self.json.go_to_element(&mut self.is_first, b'}')? {
            return Ok(None);
        }
        let key = match self.json.plain_text() {
            Some(key) => seed.deserialize(BorrowedStrDeserializer::new(key))?,
            None => seed.deserialize(self.json.escaped_text()?.into_deserializer())?,
        };
        match self.json.take(b':') {
            true => Ok(Some(key)),
            false => Err(unusual()),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.json)
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.json.go_to_element(&mut self.is_first, b']')? {
            true => seed.deserialize(&mut *self.json).map(Some),
            false => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
