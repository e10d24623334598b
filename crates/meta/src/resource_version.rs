//! The version of an object or a list: opaque text, comparable since Kubernetes v1.35.

use std::cmp::Ordering;
use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::field_error::{FieldError, FieldPath};
use crate::quote::quote;

/// A `resourceVersion`.
///
/// Clients send back the text they were given. Two versions of one resource that are both decimal numbers without
/// leading zeros compare by value: by length, then as text, so that numbers of any size compare.
///
/// A version that comes from a file or a person is parsed. Spaces and line ends are never part of one:
///
/// ```
/// use watchkeeper_meta::ResourceVersion;
///
/// let version: ResourceVersion = "1200".parse()?;
/// assert!(version.compare(&"999".parse()?).is_some_and(|order| order.is_gt()));
/// assert!("1200\n".parse::<ResourceVersion>().is_err());
/// # Ok::<(), watchkeeper_meta::ParseResourceVersionError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(Box<str>);

/// A text that no server uses as a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a resourceVersion: it has a space or a control character")]
pub struct ParseResourceVersionError {
    /// The text given.
    pub text: String,
}

impl ResourceVersion {
    /// Takes the text as it is.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Unset: a read returns the most recent state.
    pub fn unset() -> Self {
        Self::default()
    }

    /// `"0"`: a read may return any state the server has cached.
    pub fn any() -> Self {
        Self::new("0")
    }

    /// The text on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if no version is set.
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// True if this is `"0"`, "any state".
    pub fn is_any(&self) -> bool {
        &*self.0 == "0"
    }

    /// The order of two versions of the same resource. `None` unless both are decimal numbers greater than zero
    /// without leading zeros; no others are ordered.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let (a, b) = (self.number()?, other.number()?);
        Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
    }

    /// The version as a number, as a server's store counts; unset is 0. Other text is refused with Kubernetes'
    /// message.
    pub fn to_revision(&self) -> Result<u64, FieldError> {
        if self.is_unset() {
            return Ok(0);
        }
        // Rust accepts a plus sign, Go does not.
        let digits = self.0.bytes().all(|byte| byte.is_ascii_digit());
        let why = match self.0.parse::<u64>() {
            Ok(revision) if digits => return Ok(revision),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let detail = format!("strconv.ParseUint: parsing {}: {why}", quote(&self.0));
        Err(FieldError::invalid(
            &FieldPath::new("resourceVersion"),
            &*self.0,
            detail,
        ))
    }

    /// The digits, if this version is ordered.
    fn number(&self) -> Option<&str> {
        let digits = self.0.bytes().all(|byte| byte.is_ascii_digit());
        (digits && !self.0.is_empty() && !self.0.starts_with('0')).then_some(&*self.0)
    }
}

impl From<u64> for ResourceVersion {
    fn from(revision: u64) -> Self {
        Self::new(revision.to_string())
    }
}

impl FromStr for ResourceVersion {
    type Err = ParseResourceVersionError;

    /// Takes any text without spaces and control characters, because versions are opaque. An empty text is
    /// [unset](ResourceVersion::unset), as on the wire.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            true => Err(ParseResourceVersionError {
                text: text.to_owned(),
            }),
            false => Ok(Self::new(text)),
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(a: &str, b: &str) -> Option<Ordering> {
        ResourceVersion::new(a).compare(&ResourceVersion::new(b))
    }

    #[test]
    fn decimal_versions_compare_by_value() {
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("10", "10"), Some(Ordering::Equal));
        assert_eq!(
            compare("340282366920938463463374607431768211456", "7"),
            Some(Ordering::Greater)
        );
    }

    #[test]
    fn stores_count_with_numbers() {
        let revision = |text: &str| {
            let version = ResourceVersion::new(text);
            version.to_revision().map_err(|error| error.to_string())
        };
        assert_eq!(
            (revision(""), revision("0"), revision("12")),
            (Ok(0), Ok(0), Ok(12))
        );
        for (text, why) in [
            ("abc", "invalid syntax"),
            ("-1", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("99999999999999999999", "value out of range"),
        ] {
            let message = format!(
                r#"resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}"#
            );
            assert_eq!(revision(text), Err(message));
        }
    }

    #[test]
    fn a_version_is_parsed_as_it_is_printed() {
        for text in ["", "0", "12", "340282366920938463463374607431768211456", "3/a-b"] {
            let version: ResourceVersion = text.parse().unwrap();
            assert_eq!((version.as_str(), version.to_string()), (text, text.to_owned()));
        }
        for text in [" ", "12\n", " 12", "1 2", "1\u{0}"] {
            let error = text.parse::<ResourceVersion>().unwrap_err().to_string();
            let why = "is not a resourceVersion: it has a space or a control character";
            assert_eq!(error, format!("{text:?} {why}"));
        }
    }

    #[test]
    fn other_versions_have_no_order() {
        for (a, b) in [("", "1"), ("0", "1"), ("01", "1"), ("1a", "1"), ("-1", "1")] {
            assert_eq!(compare(a, b), None, "{a:?} {b:?}");
        }
    }
}
