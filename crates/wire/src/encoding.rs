//! The two encodings an object can be kept in.

use std::borrow::Cow;
use std::fmt;

/// Keys and values as they stand in an object: labels, annotations.
pub type TextPairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// How an object's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`: every kind has it.
    Json,
    /// `application/vnd.kubernetes.protobuf`: all built-in kinds have it, custom ones do not.
    Protobuf,
}

impl Encoding {
    /// The media type on the wire.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The encoding that a `Content-Type` names, whatever its parameters (`charset`, `stream`) say.
    pub fn from_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        [Self::Json, Self::Protobuf]
            .into_iter()
            .find(|encoding| media_type.eq_ignore_ascii_case(encoding.media_type()))
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.media_type())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_name_encodings() {
        for (text, encoding) in [
            ("application/json", Some(Encoding::Json)),
            ("Application/JSON; charset=utf-8", Some(Encoding::Json)),
            (
                "application/vnd.kubernetes.protobuf;stream=watch",
                Some(Encoding::Protobuf),
            ),
            ("application/yaml", None),
            ("", None),
        ] {
            assert_eq!(Encoding::from_content_type(text), encoding, "{text}");
        }
    }
}
