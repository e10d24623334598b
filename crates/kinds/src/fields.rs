//! Selectable fields of built-in kinds.

/// A selectable field.
pub struct Selectable {
    /// The name in a selector.
    pub(crate) name: &'static str,
    /// The JSON pointers of its value; the first one present counts.
    pub(crate) pointers: &'static [&'static str],
    /// Its text if unset: booleans and numbers have a zero value.
    pub(crate) zero: &'static str,
    /// The current name, if this is an old one.
    pub(crate) now: Option<&'static str>,
}

impl Selectable {
    /// A text.
    pub(crate) const fn at(name: &'static str, pointers: &'static [&'static str]) -> Self {
        Self {
            name,
            pointers,
            zero: "",
            now: None,
        }
    }

    /// A boolean.
    pub(crate) const fn boolean(name: &'static str, pointers: &'static [&'static str]) -> Self {
        Self {
            zero: "false",
            ..Self::at(name, pointers)
        }
    }

    /// A number.
    pub(crate) const fn number(name: &'static str, pointers: &'static [&'static str]) -> Self {
        Self {
            zero: "0",
            ..Self::at(name, pointers)
        }
    }

    /// An old name of a field.
    pub(crate) const fn renamed(name: &'static str, now: &'static str) -> Self {
        Self {
            now: Some(now),
            ..Self::at(name, &[])
        }
    }
}
