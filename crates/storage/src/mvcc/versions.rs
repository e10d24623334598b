//! The versions of one key, oldest first.
//!
//! A worked history of key `a`, with writes to other keys in between:
//!
//! ```text
//! revision      2        5        7          9
//! write         a=x      a=y      a deleted  a=z
//! created       2        2        2          9
//!
//! read at       1     2..4   5..6   7..8   9..
//!               -     x      y      -      z
//! ```
//!
//! Each write supersedes exactly one version, so compaction needs no search: when the history drops the change of
//! revision 5, it drops version 2, which that change superseded and which is the oldest here. Dropping the change of
//! revision 7 drops version 5 and, because nobody reads a deletion later, version 7 itself. After compaction at 8 only
//! version 9 is left; if `a` had not been written again, the key would be gone.
//!
//! Most keys have one version. It is stored inline; only superseded ones need an allocation.

use std::collections::VecDeque;

use crate::{Revision, Value};

/// The value of a key from one revision on, or its absence.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) mod_revision: Revision,
    pub(crate) create_revision: Revision,
    /// `None` from a deletion on.
    pub(crate) value: Option<Value>,
}

/// The result of compacting a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// Versions that can still be read.
    Something,
    /// Nothing: the key can be removed.
    Nothing,
}

/// All retained versions of a key.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    latest: Version,
    /// Superseded versions that are still within the history.
    older: VecDeque<Version>,
}

impl Versions {
    pub(crate) fn new(latest: Version) -> Self {
        Self {
            latest,
            older: VecDeque::new(),
        }
    }

    pub(crate) fn latest(&self) -> &Version {
        &self.latest
    }

    pub(crate) fn latest_mut(&mut self) -> &mut Version {
        &mut self.latest
    }

    /// Adds a newer version.
    pub(crate) fn push(&mut self, version: Version) {
        debug_assert!(version.mod_revision > self.latest.mod_revision);
        self.older.push_back(std::mem::replace(&mut self.latest, version));
    }

    /// The version at a revision.
    pub(crate) fn at(&self, revision: Revision) -> Option<&Version> {
        if self.latest.mod_revision <= revision {
            return Some(&self.latest);
        }
        let newer = self
            .older
            .partition_point(|version| version.mod_revision <= revision);
        newer.checked_sub(1).map(|index| &self.older[index])
    }

    /// Drops the version that the write of `revision` superseded, and that write itself if it is a deletion. Reports
    /// dropped versions, oldest first.
    pub(crate) fn compact(&mut self, revision: Revision, mut dropped: impl FnMut(Revision)) -> Remains {
        while let Some(oldest) = self.older.front() {
            let superseded = oldest.mod_revision < revision;
            let deletion = oldest.mod_revision == revision && oldest.value.is_none();
            if !superseded && !deletion {
                return Remains::Something;
            }
            dropped(oldest.mod_revision);
            self.older.pop_front();
        }
        self.older.shrink_to_fit();
        if self.latest.mod_revision == revision && self.latest.value.is_none() {
            dropped(revision);
            return Remains::Nothing;
        }
        Remains::Something
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(mod_revision: u64, create_revision: u64, value: Option<&'static str>) -> Version {
        Version {
            mod_revision: Revision::new(mod_revision),
            create_revision: Revision::new(create_revision),
            value: value.map(Value::from),
        }
    }

    /// The history of the module's documentation.
    fn example() -> Versions {
        let mut versions = Versions::new(version(2, 2, Some("x")));
        versions.push(version(5, 2, Some("y")));
        versions.push(version(7, 2, None));
        versions.push(version(9, 9, Some("z")));
        versions
    }

    fn read(versions: &Versions) -> String {
        (1..=10)
            .map(
                |revision| match versions.at(Revision::new(revision)).map(|found| &found.value) {
                    Some(Some(value)) => char::from(value.bytes()[0]),
                    Some(None) | None => '-',
                },
            )
            .collect()
    }

    #[test]
    fn readers_see_the_version_of_their_revision() {
        assert_eq!(read(&example()), "-xxxyy--zz");
    }

    #[test]
    fn compaction_drops_what_was_superseded() {
        let mut versions = example();
        let mut compact = |revision| {
            let mut dropped = Vec::new();
            let remains = versions.compact(Revision::new(revision), |revision| dropped.push(revision.get()));
            (remains, dropped, read(&versions))
        };
        assert_eq!(compact(2), (Remains::Something, vec![], "-xxxyy--zz".into()));
        assert_eq!(compact(5), (Remains::Something, vec![2], "----yy--zz".into()));
        assert_eq!(compact(7), (Remains::Something, vec![5, 7], "--------zz".into()));
        assert_eq!(compact(9), (Remains::Something, vec![], "--------zz".into()));
    }

    #[test]
    fn a_deleted_key_is_forgotten() {
        let mut versions = Versions::new(version(2, 2, Some("x")));
        versions.push(version(3, 2, None));
        let mut dropped = Vec::new();
        assert_eq!(
            versions.compact(Revision::new(3), |revision| dropped.push(revision.get())),
            Remains::Nothing
        );
        assert_eq!(dropped, [2, 3]);
    }
}
