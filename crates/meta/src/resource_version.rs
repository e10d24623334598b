//! The version of an object or a list: opaque text that can be compared since Kubernetes v1.35.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A `resourceVersion`.
///
/// Clients send back what they were given. Two versions of one resource that are both decimal numbers without
/// leading zeros compare by value: by length, then as text, so that no size of number overflows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(Box<str>);

impl ResourceVersion {
    /// Takes the text as it is.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Not set: a read asks for the most recent state.
    pub fn unset() -> Self {
        Self::default()
    }

    /// `"0"`: a read is content with any state the server has at hand.
    pub fn any() -> Self {
        Self::new("0")
    }

    /// The text on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether no version is set.
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is `"0"`, "any state".
    pub fn is_any(&self) -> bool {
        &*self.0 == "0"
    }

    /// Which of two versions of the same resource is newer; `None` unless both are decimal numbers greater
    /// than zero without leading zeros, the only ones with an order.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let (a, b) = (self.number()?, other.number()?);
        Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
    }

    /// The digits, if this version has an order.
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
    fn other_versions_have_no_order() {
        for (a, b) in [("", "1"), ("0", "1"), ("01", "1"), ("1a", "1"), ("-1", "1")] {
            assert_eq!(compare(a, b), None, "{a:?} {b:?}");
        }
    }
}
