//! The two encodings of an object.

use std::borrow::Cow;
use std::fmt;

/// Keys and values in the order of the object: labels, annotations.
pub type TextPairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// The encoding of an object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`: available for every kind.
    Json,
    /// `application/vnd.kubernetes.protobuf`: available for built-in kinds only.
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

    /// The encoding named by a `Content-Type`; parameters (`charset`, `stream`) are ignored.
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
