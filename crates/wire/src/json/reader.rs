//! A cursor over one JSON value that reads what it is asked for and skips the rest.

use std::borrow::Cow;

use watchkeeper_meta::Time;

use super::error::{JsonError, JsonErrorKind, expected};
use super::scan::Nesting;
use super::strings::{plain_length, unescaped_length};
use crate::utf8;

/// A position within JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// The position within an object or a list.
pub(crate) struct Members {
    first: bool,
    close: u8,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Starts at `position`.
    pub(super) fn new_at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position }
    }

    /// Offset of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The next byte that is not white space.
    pub(crate) fn peek(&mut self) -> Result<u8, JsonError> {
        while let Some(&byte) = self.bytes.get(self.position) {
            if !is_space(byte) {
                return Ok(byte);
            }
            self.position += 1;
        }
        Err(JsonErrorKind::Truncated.at(self.position))
    }

    /// Returns an error unless only white space is left.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Ok(_) => Err(JsonErrorKind::TrailingBytes.at(self.position)),
            Err(_) => Ok(()),
        }
    }

    /// Enters an object; its members are then read one by one. `null` is an object without members.
    pub(crate) fn object(&mut self) -> Result<Option<Members>, JsonError> {
        self.enter(b'{', b'}', "an object")
    }

    /// Enters a list. `null` is a list without elements.
    pub(crate) fn list(&mut self) -> Result<Option<Members>, JsonError> {
        self.enter(b'[', b']', "a list")
    }

    fn enter(&mut self, open: u8, close: u8, what: &'static str) -> Result<Option<Members>, JsonError> {
        match self.peek()? {
            byte if byte == open => {
                self.position += 1;
                Ok(Some(Members { first: true, close }))
            }
            b'n' => self.literal("null").map(|()| None),
            _ => Err(expected(what, self.position)),
        }
    }

    /// Text; `null` is empty, as in Go.
    pub(crate) fn text(&mut self) -> Result<Cow<'a, str>, JsonError> {
        match self.peek()? {
            b'"' => self.string(),
            b'n' => self.literal("null").map(|()| Cow::Borrowed("")),
            _ => Err(expected("a string", self.position)),
        }
    }

    /// A time; `null` is `None`.
    pub(crate) fn time(&mut self) -> Result<Option<Time>, JsonError> {
        self.peek()?;
        let start = self.position;
        match self.text()?.as_ref() {
            "" => Ok(None),
            text => match text.parse() {
                Ok(time) => Ok(Some(time)),
                Err(_) => Err(JsonErrorKind::Time(text.to_owned()).at(start)),
            },
        }
    }

    /// An integer; `null` is `None`.
    pub(crate) fn integer(&mut self) -> Result<Option<i64>, JsonError> {
        if self.peek()? == b'n' {
            return self.literal("null").map(|()| None);
        }
        let start = self.position;
        self.skip_scalar();
        let text = std::str::from_utf8(&self.bytes[start..self.position]);
        match text.ok().and_then(|text| text.parse().ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(expected("a whole number", start)),
        }
    }

    /// `true` or `false`; `null` is false.
    pub(crate) fn boolean(&mut self) -> Result<bool, JsonError> {
        match self.peek()? {
            b't' => self.literal("true").map(|()| true),
            b'f' => self.literal("false").map(|()| false),
            b'n' => self.literal("null").map(|()| false),
            _ => Err(expected("true or false", self.position)),
        }
    }

    /// A member's key and the colon after it.
    pub(crate) fn key(&mut self) -> Result<Cow<'a, str>, JsonError> {
        if self.peek()? != b'"' {
            return Err(expected("a key", self.position));
        }
        let key = self.string()?;
        self.token(b':', "a colon")?;
        Ok(key)
    }

    /// Skips a value and returns its bytes. Only brackets and quotes are checked.
    pub(crate) fn skip(&mut self) -> Result<&'a [u8], JsonError> {
        self.skip_within(0)
    }

    /// Like [`skip`](Self::skip), for a value nested `levels` deep in its object.
    pub(super) fn skip_within(&mut self, levels: u32) -> Result<&'a [u8], JsonError> {
        let first = self.peek()?;
        let start = self.position;
        match first {
            b'{' | b'[' => {
                let rest = &self.bytes[start..];
                let end = Nesting::within(levels)
                    .close(rest)
                    .map_err(|error| error.kind.at(start + error.offset))?;
                let length = end.ok_or_else(|| JsonErrorKind::Truncated.at(self.bytes.len()))?;
                self.position += length;
            }
            b'"' => self.skip_string()?,
            _ => self.skip_scalar(),
        }
        match &self.bytes[start..self.position] {
            [] => Err(expected("a value", start)),
            value => Ok(value),
        }
    }

    /// A string whose opening quote is the next byte.
    #[inline]
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let from = self.position + 1;
        let rest = &self.bytes[from..];
        let length = plain_length(rest);
        match rest.get(length) {
            Some(b'"') => {
                self.position = from + length + 1;
                match utf8::check(&rest[..length]) {
                    Ok(text) => Ok(Cow::Borrowed(text)),
                    Err(error) => Err(JsonErrorKind::Utf8.at(from + error.valid_up_to())),
                }
            }
            _ => self.unusual_string(),
        }
    }

    /// A string with an escape, an invalid byte, or no end.
    #[cold]
    fn unusual_string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let start = self.position;
        let from = start + 1;
        let length = unescaped_length(&self.bytes[from..]);
        match self.bytes.get(from + length) {
            None => return Err(JsonErrorKind::Truncated.at(self.bytes.len())),
            Some(b'"') => {
                self.position = from + length + 1;
                return plain(&self.bytes[from..from + length], from).map(Cow::Borrowed);
            }
            Some(_) => self.skip_string()?,
        }
        // Escapes are rare in headers; `serde_json` handles them all.
        match serde_json::from_slice::<String>(&self.bytes[start..self.position]) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(_) => Err(JsonErrorKind::Text.at(start)),
        }
    }

    /// Skips a string whose opening quote is the next byte.
    fn skip_string(&mut self) -> Result<(), JsonError> {
        let mut at = self.position + 1;
        loop {
            at += unescaped_length(self.bytes.get(at..).unwrap_or_default());
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.position = at + 1;
                    return Ok(());
                }
                Some(_) => at += 2,
                None => return Err(JsonErrorKind::Truncated.at(self.bytes.len())),
            }
        }
    }

    /// Skips a number or a literal, up to a byte that may follow a value.
    fn skip_scalar(&mut self) {
        let rest = &self.bytes[self.position..];
        let length = rest.iter().position(|&byte| ends_scalar(byte));
        self.position += length.unwrap_or(rest.len());
    }

    fn literal(&mut self, word: &'static str) -> Result<(), JsonError> {
        let start = self.position;
        self.skip_scalar();
        match &self.bytes[start..self.position] == word.as_bytes() {
            true => Ok(()),
            false => Err(expected("a value", start)),
        }
    }

    fn token(&mut self, byte: u8, what: &'static str) -> Result<(), JsonError> {
        if self.peek()? != byte {
            return Err(expected(what, self.position));
        }
        self.position += 1;
        Ok(())
    }
}

impl Members {
    /// Moves to the next element; after the last one, consumes the closing bracket and returns `false`.
    pub(crate) fn next(&mut self, reader: &mut Reader<'_>) -> Result<bool, JsonError> {
        let byte = reader.peek()?;
        if byte == self.close {
            reader.position += 1;
            return Ok(false);
        }
        if !std::mem::take(&mut self.first) {
            reader.token(b',', "a comma or the closing bracket")?;
            if reader.peek()? == self.close {
                return Err(expected("a value after the comma", reader.position));
            }
        }
        Ok(true)
    }

    /// Moves to the value of the next member and returns its key; `None` after the last one.
    pub(crate) fn next_key<'a>(
        &mut self,
        reader: &mut Reader<'a>,
    ) -> Result<Option<Cow<'a, str>>, JsonError> {
        if !self.next(reader)? {
            return Ok(None);
        }
        reader.key().map(Some)
    }
}

/// Text without escapes. Control characters are refused.
fn plain(bytes: &[u8], offset: usize) -> Result<&str, JsonError> {
    if let Some(at) = bytes.iter().position(|&byte| byte < 0x20) {
        return Err(JsonErrorKind::Text.at(offset + at));
    }
    std::str::from_utf8(bytes).map_err(|error| JsonErrorKind::Utf8.at(offset + error.valid_up_to()))
}

/// JSON's white space.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// True if a number or a literal ends before this byte.
pub(crate) fn ends_scalar(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[')
}
