//! The revision counter of a store: every mutation takes the next number.

use std::fmt;

/// A revision of a store. Revisions grow with every mutation, by one unless the store shares an etcd, and are never
/// reused.
///
/// An empty store is at [`Revision::FIRST`] and its first write has the next one, as in etcd. So a reader of an empty
/// store gets a revision it can resume from, and never 0, which in the Kubernetes API means "any".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Before all writes: a feed from here delivers the whole history.
    pub const ZERO: Self = Self(0);
    /// The revision of an empty store.
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

    /// The revision of the previous mutation.
    pub(crate) const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The number of revisions since an earlier one; 0 if `earlier` is not earlier.
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

/// The revision that a read returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAt {
    /// Includes every write that anyone acknowledged before the read (linearizable).
    #[default]
    Latest,
    /// The local copy. A shared store may have newer writes; etcd is not asked.
    Visible,
    /// A revision.
    Revision(Revision),
}

impl ReadAt {
    /// The revision, if one is named.
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
