//! Versions whose stored form is outdated or unreadable. Without encryption there are none, and lookups are skipped.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::transform::Seal;
use crate::{Key, Revision};

type Version = (Key, Revision);

/// The stored form of versions, if it is not the current one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seals {
    stale: HashSet<Version>,
    locked: HashMap<Version, Arc<str>>,
    /// Changes with a new or previous value that cannot be decrypted.
    undecryptable: BTreeSet<Revision>,
}

impl Seals {
    pub(crate) fn is_empty(&self) -> bool {
        self.stale.is_empty() && self.locked.is_empty() && self.undecryptable.is_empty()
    }

    /// Records the stored form of a version, which replaces another one.
    pub(crate) fn note(&mut self, key: &Key, revision: Revision, replaced: Option<Revision>, seal: Seal) {
        let replaces_locked = replaced.is_some_and(|replaced| self.why_locked(key, replaced).is_some());
        if replaces_locked || matches!(seal, Seal::Locked(_)) {
            self.undecryptable.insert(revision);
        }
        match seal {
            Seal::Current => {}
            Seal::Stale => drop(self.stale.insert((key.clone(), revision))),
            Seal::Locked(why) => drop(self.locked.insert((key.clone(), revision), why)),
        }
    }

    /// Forgets a version.
    pub(crate) fn forget(&mut self, key: &Key, revision: Revision) {
        let version = (key.clone(), revision);
        self.stale.remove(&version);
        self.locked.remove(&version);
    }

    /// Forgets changes up to a revision.
    pub(crate) fn forget_changes(&mut self, revision: Revision) {
        self.undecryptable
            .retain(|&undecryptable| undecryptable > revision);
    }

    pub(crate) fn is_stale(&self, key: &str, revision: Revision) -> bool {
        !self.stale.is_empty() && self.stale.contains(&(key.into(), revision))
    }

    /// The reason a version cannot be read, if it cannot.
    pub(crate) fn why_locked(&self, key: &str, revision: Revision) -> Option<&Arc<str>> {
        match self.locked.is_empty() {
            true => None,
            false => self.locked.get(&(key.into(), revision)),
        }
    }

    /// True if a change cannot be delivered.
    pub(crate) fn is_undecryptable(&self, revision: Revision) -> bool {
        self.undecryptable.contains(&revision)
    }
}
