//! What can be wrong with JSON, and where.

use std::borrow::Cow;

/// JSON that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {offset}: {kind}")]
pub struct JsonError {
    /// Where, from the start of the object, or of the body while it is being split.
    pub offset: usize,
    /// What is wrong there.
    pub kind: JsonErrorKind,
}

/// What can be wrong with JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The bytes end within a value.
    #[error("truncated")]
    Truncated,
    /// Another token or type than the place asks for.
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
    /// More brackets within each other than any real object has.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// A part larger than its limit.
    #[error("{part} is larger than {limit} bytes")]
    TooLarge {
        /// Which part.
        part: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A list that has `items` twice: which one is meant?
    #[error("items stands twice in the list")]
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

/// An error that says what should have stood at `offset`.
pub(crate) fn expected(what: &'static str, offset: usize) -> JsonError {
    JsonErrorKind::Expected(what.into()).at(offset)
}
