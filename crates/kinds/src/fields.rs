//! Which fields a field selector may name.

/// A field that selectors may name.
pub struct Selectable {
    /// The name in a selector.
    pub(crate) name: &'static str,
    /// Where its value stands; the first that is there counts.
    pub(crate) pointers: &'static [&'static str],
    /// What it reads as when it is not set: booleans and numbers have a value of their own.
    pub(crate) zero: &'static str,
    /// The name it has now, if selectors may still use this one.
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
