//! The one counter of a store: every mutation takes the next number.

use std::fmt;

/// A moment in a store's life. Revisions grow with every mutation, by one unless the store shares an etcd with somebody
/// else, and are never used twice.
///
/// An empty store is at [`Revision::FIRST`] and its first write is the one after, as in etcd. So a reader of an
/// empty store gets a revision that it can resume from, and never 0, which on some wires means "any".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Before everything: a feed from here delivers the whole history.
    pub const ZERO: Self = Self(0);
    /// Where an empty store is.
    pub const FIRST: Self = Self(1);

    /// A revision from a number that [`Revision::get`] gave.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision of the next mutation.
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The revision of the mutation before.
    pub(crate) const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// How many revisions lie between an earlier one and this one; 0 if `earlier` is not earlier.
    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `count` revisions later.
    #[cfg(test)]
    pub(crate) const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl From<u64> for Revision {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<Revision> for u64 {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Which moment of a store a read shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAt {
    /// Everything that was acknowledged before the read began, by whomever.
    #[default]
    Latest,
    /// What is visible here. To a shared store others may have written more, and nobody is asked.
    Visible,
    /// A revision.
    Revision(Revision),
}

impl ReadAt {
    /// The revision, if it is named.
    pub(crate) fn named(self) -> Option<Revision> {
        match self {
            Self::Revision(revision) => Some(revision),
            Self::Latest | Self::Visible => None,
        }
    }
}

impl From<Option<Revision>> for ReadAt {
    /// The latest, unless a revision is named.
    fn from(named: Option<Revision>) -> Self {
        named.map_or(Self::Latest, Self::Revision)
    }
}
