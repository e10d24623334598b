//! Text and bytes that must never reach a log.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A token, password or key. It prints as `[redacted]`; only [`Secret::expose`] returns the text, so a search for
/// that word finds every use.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent to the server it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True if the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOnly)
    }
}

/// Serde's own errors would show a value that is not text, such as an unquoted password of digits.
struct TextOnly;

impl Visitor<'_> for TextOnly {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::new(text))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Secret, E> {
        Ok(Secret(text))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Secret, E> {
        not_quoted()
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
        not_quoted()
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Secret, E> {
        not_quoted()
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
        not_quoted()
    }
}

fn not_quoted<E: de::Error>() -> Result<Secret, E> {
    Err(E::custom("not a text; numbers need quotes here"))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn errors_do_not_show_what_should_have_been_a_secret() {
        for json in ["1234567", "-7", "1.5", "true", "[1234567]", "{\"a\": 1234567}"] {
            let error = serde_json::from_str::<Secret>(json).unwrap_err().to_string();
            assert!(
                !error.contains(json) && !error.contains("1234567"),
                "{json}: {error}"
            );
        }
        assert_eq!(serde_json::from_str::<Secret>("\"x\"").unwrap().expose(), "x");
        assert_eq!(serde_json::from_str::<Option<Secret>>("null").unwrap(), None);
    }
}
