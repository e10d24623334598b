//! Errors in JSON, with their offset.

use std::borrow::Cow;

/// JSON that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {offset}: {kind}")]
pub struct JsonError {
    /// The offset, from the start of the object, or of the body while it is being split.
    pub offset: usize,
    /// The kind of error.
    pub kind: JsonErrorKind,
}

/// The kinds of error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The input ends within a value.
    #[error("truncated")]
    Truncated,
    /// Another token or type than expected.
    #[error("expected {0}")]
    Expected(Cow<'static, str>),
    /// Text that is not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// A string with an unknown escape or a bare control character.
    #[error("invalid string")]
    Text,
    /// A time that is not RFC 3339.
    #[error("invalid time: {0}")]
    Time(String),
    /// Nested deeper than allowed.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// A part larger than its limit.
    #[error("{part} is larger than {limit} bytes")]
    TooLarge {
        /// The part.
        part: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A list with two `items` members.
    #[error("items occurs twice in the list")]
    DuplicateItems,
    /// Something other than white space after the end.
    #[error("unexpected bytes after the end")]
    TrailingBytes,
}

impl JsonErrorKind {
    /// An error of this kind at `offset`.
    pub(crate) fn at(self, offset: usize) -> JsonError {
        JsonError { offset, kind: self }
    }
}

/// The error for something other than `what` at `offset`.
pub(crate) fn expected(what: &'static str, offset: usize) -> JsonError {
    JsonErrorKind::Expected(what.into()).at(offset)
}
