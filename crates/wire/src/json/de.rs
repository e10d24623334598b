//! A fast `serde` deserializer for the JSON that servers write.
//!
//! The whole text is known to be UTF-8, so no string is checked again. Strings are scanned sixteen bytes at a time
//! and borrowed if they have no escapes. Short integers are parsed here; escapes and other numbers are handed to
//! `serde_json`.
//!
//! It accepts what `serde_json` accepts and reports the same errors ([`Json::explain`]). `serde_json` does not
//! deserialize the same type a second time for that: each type would be compiled twice, in every program that uses
//! it.

mod key;
mod raw_value;
mod variant;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use self::key::Key;
use self::raw_value::RawValue;
use super::reader::ends_scalar;
use super::strings::plain_length;

/// The nesting limit, the same as in `serde_json`.
const MAX_DEPTH: u32 = 127;

/// The most digits of a number parsed here; they always fit 64 bits.
const MAX_DIGITS: usize = 18;

/// A position in a text.
pub(crate) struct Json<'de> {
    text: &'de str,
    /// The unread bytes of the text.
    rest: &'de [u8],
    depth: u32,
    /// The offset at which the first visitor returned an error; 0 if none has.
    failed_at: usize,
}

impl<'de> Json<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self {
            text,
            rest: text.as_bytes(),
            depth: 0,
            failed_at: 0,
        }
    }

    /// Returns an error unless only white space is left.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(unusual()),
        }
    }

    /// The number of bytes read.
    fn offset(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    /// The error as `serde_json` reports it: a syntax error if there is one, else the visitor's error, with line and
    /// column.
    #[cold]
    pub(crate) fn explain(&self, error: &Error) -> Error {
        if let Err(syntax) = serde_json::from_str::<Value>(self.text) {
            return syntax;
        }
        let mut message = error.to_string();
        // The error has the position within a part that was parsed separately.
        if error.line() > 0
            && let Some(end) = message.rfind(" at line ")
        {
            message.truncate(end);
        }
        let offset = match self.failed_at {
            0 => self.offset(),
            failed_at => failed_at,
        };
        let before = self.text.get(..offset).unwrap_or_default();
        let (line, column) = (
            1 + before.matches('\n').count(),
            before.len() - before.rfind('\n').map_or(0, |at| at + 1),
        );
        Error::custom(format_args!("{message} at line {line} column {column}"))
    }

    /// Records the offset at which a visitor returned an error.
    #[cold]
    #[inline(never)]
    fn refused(&mut self, error: Error) -> Error {
        if self.failed_at == 0 {
            self.failed_at = self.offset();
        }
        error
    }

    /// The error for a value of another type than expected.
    #[cold]
    #[inline(never)]
    fn mismatch(&mut self, expected: &dyn Expected) -> Error {
        let found = match self.peek() {
            Some(b'{') => return Error::invalid_type(Unexpected::Map, expected),
            Some(b'[') => return Error::invalid_type(Unexpected::Seq, expected),
            _ => serde::Deserialize::deserialize(self),
        };
        match found {
            Err(error) => error,
            Ok(Value::Bool(value)) => Error::invalid_type(Unexpected::Bool(value), expected),
            Ok(Value::String(text)) => Error::invalid_type(Unexpected::Str(&text), expected),
            Ok(Value::Number(number)) => {
                let (whole, below_zero, float) = (number.as_u64(), number.as_i64(), number.as_f64());
                let found = whole
                    .map(Unexpected::Unsigned)
                    .or(below_zero.map(Unexpected::Signed));
                let found = found.unwrap_or(Unexpected::Float(float.unwrap_or_default()));
                Error::invalid_type(found, expected)
            }
            Ok(_) => Error::invalid_type(Unexpected::Unit, expected),
        }
    }

    /// The next byte that is not white space.
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

    /// Consumes the next byte if it is the expected one.
    #[inline(always)]
    pub(super) fn take(&mut self, expected: u8) -> bool {
        if self.peek() != Some(expected) {
            return false;
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        true
    }

    /// Consumes a literal.
    fn word(&mut self, word: &str) -> Result<(), Error> {
        self.peek();
        self.rest = self.rest.strip_prefix(word.as_bytes()).ok_or_else(unusual)?;
        Ok(())
    }

    /// A string without escapes; `None` if the next value is not one. Small enough to be returned in registers; one
    /// copy of the code serves every visitor.
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

    /// A string with escapes, for a visitor that expects a string.
    #[cold]
    fn unusual_text(&mut self, expected: &dyn Expected) -> Result<String, Error> {
        match self.peek() {
            Some(b'"') => self.escaped_text(),
            _ => Err(self.mismatch(expected)),
        }
    }

    /// Consumes the next bytes as text.
    fn cut(&mut self, length: usize) -> Result<&'de str, Error> {
        let start = self.text.len() - self.rest.len();
        let text = self.text.get(start..start + length).ok_or_else(unusual)?;
        self.rest = self.rest.get(length..).unwrap_or_default();
        Ok(text)
    }

    /// A short integer and true if it is negative; `None` if the next value is not one. Minus zero is not an integer.
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
                let mut number = serde_json::Deserializer::from_str(self.scalar()?);
                let value = number.deserialize_any(visitor)?;
                number.end()?;
                Ok(value)
            }
        }
    }

    /// Consumes a number and returns its text.
    fn scalar(&mut self) -> Result<&'de str, Error> {
        self.peek();
        let length = self.rest.iter().position(|byte| ends_scalar(*byte));
        self.cut(length.unwrap_or(self.rest.len()))
    }

    #[inline(always)]
    fn text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.plain_text() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => {
                let text = self.unusual_text(&visitor)?;
                visitor.visit_string(text)
            }
        }
    }

    #[inline]
    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        if self.open(b'{').is_err() {
            return Err(self.mismatch(&visitor));
        }
        let value = visitor.visit_map(Elements {
            json: self,
            is_first: true,
        });
        // Also after an error: its position is then the end of what was parsed.
        let closed = self.close(b'}');
        value.and_then(|value| closed.map(|()| value))
    }

    #[inline]
    fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        if self.open(b'[').is_err() {
            return Err(self.mismatch(&visitor));
        }
        let value = visitor.visit_seq(Elements {
            json: self,
            is_first: true,
        });
        // Also after an error: its position is then the end of what was parsed.
        let closed = self.close(b']');
        value.and_then(|value| closed.map(|()| value))
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
            false => Err(Error::custom("trailing characters")),
        }
    }

    /// Moves to the next element of an object or list; returns false before the closing bracket.
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
        let value = match self.peek() {
            Some(b't') => true,
            Some(b'f') => false,
            _ => return Err(self.mismatch(&visitor)),
        };
        self.word(if value { "true" } else { "false" })?;
        visitor.visit_bool(value)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != Some(b'n') {
            return Err(self.mismatch(&visitor));
        }
        self.word("null")?;
        visitor.visit_unit()
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(visitor),
            _ => Err(self.mismatch(&visitor)),
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
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match RawValue::is_meant(name) {
            true => visitor.visit_map(RawValue::read(self)?),
            false => visitor.visit_newtype_struct(self),
        }
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
        match self.peek() {
            Some(b'[') => self.list(visitor),
            _ => self.object(visitor),
        }
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
        match self.peek() {
            Some(b'"') => match self.plain_text() {
                Some(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
                None => visitor.visit_enum(self.escaped_text()?.into_deserializer()),
            },
            Some(b'{') => self.variant(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'[') => self.list(visitor),
            _ => match self.plain_text() {
                Some(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
                None => {
                    let text = self.unusual_text(&visitor)?;
                    visitor.visit_byte_buf(text.into_bytes())
                }
            },
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    // Numbers that may not fit 64 bits.

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => {
                serde_json::Deserializer::from_str(self.scalar()?).deserialize_i128(visitor)
            }
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => {
                serde_json::Deserializer::from_str(self.scalar()?).deserialize_u128(visitor)
            }
            _ => Err(self.mismatch(&visitor)),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 u8 u16 u32 u64 f32 f64 char unit_struct tuple tuple_struct ignored_any
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
            Some(key) => Key::Plain(key),
            None => Key::Escaped(self.json.escaped_text()?),
        };
        let key = seed.deserialize(key).map_err(|error| self.json.refused(error))?;
        match self.json.take(b':') {
            true => Ok(Some(key)),
            false => Err(unusual()),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.json)
            .map_err(|error| self.json.refused(error))
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.json.go_to_element(&mut self.is_first, b']')? {
            true => match seed.deserialize(&mut *self.json) {
                Ok(item) => Ok(Some(item)),
                Err(error) => Err(self.json.refused(error)),
            },
            false => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
