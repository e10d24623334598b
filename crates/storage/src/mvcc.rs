//! The core of the store: every key's versions, the history of changes, and expirations.
//!
//! Records go in, in the order of their revisions; values at any retained revision and changes after any retained
//! revision come out. It takes no lock, reads no clock and touches no disk, so recovery, the live store and the
//! property tests all run the same code.
//!
//! Three views of one sequence of writes (`a` is created, changed and deleted, `b` is created):
//!
//! ```text
//! revision   history                     versions of a    versions of b
//! 1          (an empty store)
//! 2          a = x                       2:x
//! 3          a = y, was x since 2        2:x 3:y
//! 4          b = 1                       2:x 3:y          4:1
//! 5          a gone, was y since 3       2:x 3:y 5:gone   4:1
//! ```
//!
//! Compaction at 3 drops the history up to 3; the change of 3 superseded version 2, which is dropped. Reads at 3 and
//! feeds after 3 still work, at 2 no more. Compaction at 5 leaves only `b`, with an empty history. The cost of
//! compaction is the number of changes dropped, however many keys there are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

mod expiry;
mod history;
#[cfg(test)]
mod model_test;
mod parts;
mod seals;
mod versions;

use expiry::Expiry;
use history::History;
use parts::Parts;
pub use parts::SharedPart;
use seals::Seals;
use versions::{Remains, Version, Versions};

use crate::model::{Record, UnixMillis};
use crate::transform::Seal;
use crate::{Change, Key, KeyValue, ReadError, Revision};

/// The state of a store. Clones share all of it; the first write to one of them copies what it changes, once.
#[derive(Clone, Debug)]
pub(crate) struct Mvcc {
    keys: Arc<BTreeMap<Key, Versions>>,
    history: Arc<History>,
    expiry: Arc<Expiry>,
    seals: Arc<Seals>,
    parts: Arc<Parts>,
    current: Revision,
    compacted: Revision,
}

impl Mvcc {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::recovering(Revision::ZERO)
    }

    /// An empty store, to be filled with the records that a compaction left and then all later ones.
    pub(crate) fn recovering(compacted: Revision) -> Self {
        let floor = compacted.max(Revision::FIRST);
        Self {
            keys: Arc::default(),
            history: Arc::new(History::new(floor)),
            expiry: Arc::default(),
            seals: Arc::default(),
            parts: Arc::default(),
            current: floor,
            compacted,
        }
    }

    /// Lets values share parts, from now on.
    pub(crate) fn sharing(mut self, part: Option<SharedPart>) -> Self {
        self.parts = Arc::new(Parts::found_by(part));
        self
    }

    /// The newest revision.
    pub(crate) fn current(&self) -> Revision {
        self.current
    }

    /// The oldest revision that can be read; zero as long as nothing was compacted.
    pub(crate) fn compacted(&self) -> Revision {
        self.compacted
    }

    /// Makes a record the newest version of its key, and returns the change.
    pub(crate) fn apply(&mut self, record: Record) -> Arc<Change> {
        debug_assert!(record.revision >= self.current);
        self.current = record.revision;
        let written_at = record.written_at;
        let change = Arc::new(self.supersede(record));
        Arc::make_mut(&mut self.history).push(change.clone(), written_at);
        change
    }

    /// Advances to a revision without a change here.
    pub(crate) fn advance(&mut self, revision: Revision) {
        self.current = self.current.max(revision);
    }

    /// Adds a record from before the compacted revision, and reports each version that became obsolete.
    pub(crate) fn restore(&mut self, record: Record, dropped: impl FnMut(Revision)) {
        let revision = record.revision;
        let change = self.supersede(record);
        self.compact_key(&change.key, revision, dropped);
        self.forget_changes(revision);
    }

    /// Drops the versions of a key that a change has superseded. If it is the newest one, its value may be split.
    fn compact_key(&mut self, key: &Key, revision: Revision, mut dropped: impl FnMut(Revision)) {
        let keys = Arc::make_mut(&mut self.keys);
        let Some(versions) = keys.get_mut(key) else { return };
        let seals = &mut self.seals;
        let remains = versions.compact(revision, |version| {
            if !seals.is_empty() {
                Arc::make_mut(seals).forget(key, version);
            }
            dropped(version);
        });
        if remains == Remains::Nothing {
            keys.remove(key);
            return;
        }
        let latest = versions.latest_mut();
        if self.parts.are_shared()
            && latest.mod_revision <= revision
            && let Some(value) = &latest.value
            && let Some(split) = Arc::make_mut(&mut self.parts).split(value)
        {
            latest.value = Some(split);
        }
    }

    fn forget_changes(&mut self, revision: Revision) {
        if !self.seals.is_empty() {
            Arc::make_mut(&mut self.seals).forget_changes(revision);
        }
    }

    fn supersede(&mut self, record: Record) -> Change {
        let version = Version {
            mod_revision: record.revision,
            create_revision: record.create_revision,
            value: record.value.clone(),
        };
        let (key, previous) = match Arc::make_mut(&mut self.keys).entry(record.key) {
            Entry::Vacant(entry) => {
                let key = entry.key().clone();
                entry.insert(Versions::new(version));
                (key, None)
            }
            Entry::Occupied(mut entry) => {
                let latest = entry.get().latest();
                let previous = latest.value.clone().map(|value| (value, latest.mod_revision));
                entry.get_mut().push(version);
                (entry.key().clone(), previous)
            }
        };
        if record.seal != Seal::Current || !self.seals.is_empty() {
            let replaced = previous.as_ref().map(|(_, since)| *since);
            Arc::make_mut(&mut self.seals).note(&key, record.revision, replaced, record.seal);
        }
        // Most keys never expire; this avoids copying the map for them.
        if record.expires_at.is_some() || self.expiry.has(&key) {
            Arc::make_mut(&mut self.expiry).set(&key, record.expires_at);
        }
        Change {
            revision: record.revision,
            key,
            value: record.value,
            previous,
            create_revision: record.create_revision,
        }
    }

    /// The current value of a key.
    pub(crate) fn latest(&self, key: &str) -> Option<KeyValue> {
        let (key, versions) = self.keys.get_key_value(key)?;
        key_value(key, versions.latest())
    }

    /// The value of a key at a revision.
    pub(crate) fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, ReadError> {
        let at = self.readable(at)?;
        let found = self.keys.get_key_value(key);
        let found = found.and_then(|(key, versions)| key_value(key, versions.at(at)?));
        found.map(|found| self.unlocked(found)).transpose()
    }

    /// Rejects a value that could not be decrypted.
    pub(crate) fn unlocked(&self, found: KeyValue) -> Result<KeyValue, ReadError> {
        match self.seals.why_locked(&found.key, found.mod_revision) {
            None => Ok(found),
            Some(why) => Err(ReadError::Undecryptable {
                key: found.key,
                why: why.clone(),
            }),
        }
    }

    /// The form in which versions were stored.
    pub(crate) fn seals(&self) -> &Seals {
        &self.seals
    }

    /// The revision at which a read is served, or why it cannot be.
    pub(crate) fn readable(&self, at: Option<Revision>) -> Result<Revision, ReadError> {
        let requested = at.unwrap_or(self.current);
        if requested > self.current {
            return Err(ReadError::Future {
                requested,
                current: self.current,
            });
        }
        if requested < self.compacted {
            return Err(self.compacted_error(requested));
        }
        Ok(requested)
    }

    pub(crate) fn compacted_error(&self, requested: Revision) -> ReadError {
        ReadError::Compacted {
            requested,
            compacted: self.compacted,
            current: self.current,
        }
    }

    /// Visits the values between two keys at a readable revision, in order, for at most `budget` keys. Returns the key
    /// to continue after, if there may be more.
    pub(crate) fn walk(
        &self,
        bounds: (Bound<&str>, Bound<&str>),
        at: Revision,
        budget: usize,
        mut visit: impl FnMut(&Key, &Version),
    ) -> Option<Key> {
        let mut keys = self.keys.range::<str, _>(bounds);
        let mut last = None;
        for (key, versions) in keys.by_ref().take(budget) {
            if let Some(version) = versions.at(at).filter(|version| version.value.is_some()) {
                visit(key, version);
            }
            last = Some(key);
        }
        keys.next()?;
        last.cloned()
    }

    /// The retained changes after a revision, oldest first.
    pub(crate) fn changes_after(&self, revision: Revision) -> impl Iterator<Item = &Arc<Change>> {
        self.history.after(revision)
    }

    /// Drops the oldest change, unless it is newer than `revision`, with the versions that only it retained. Returns
    /// the change, and reports each dropped version.
    pub(crate) fn compact_one(
        &mut self,
        revision: Revision,
        dropped: impl FnMut(Revision),
    ) -> Option<Arc<Change>> {
        if !self.history.has_before(revision) {
            return None;
        }
        let change = Arc::make_mut(&mut self.history).pop(revision)?;
        self.compacted = change.revision;
        self.compact_key(&change.key, change.revision, dropped);
        self.forget_changes(change.revision);
        Some(change)
    }

    /// The expired keys, with the revision at which it is safe to delete each.
    pub(crate) fn expired(&self, now: UnixMillis, limit: usize) -> Vec<(Key, Revision)> {
        self.expiry
            .due(now)
            .take(limit)
            .filter_map(|key| Some((key.clone(), self.keys.get(key)?.latest().mod_revision)))
            .collect()
    }

    /// The time of the next expiry.
    pub(crate) fn next_expiry(&self) -> Option<UnixMillis> {
        self.expiry.next()
    }

    /// The number of keys with a value.
    pub(crate) fn len(&self) -> usize {
        let is_there = |versions: &&Versions| versions.latest().value.is_some();
        self.keys.values().filter(is_there).count()
    }

    /// The revision that created a key, if it exists.
    pub(crate) fn created(&self, key: &str) -> Option<Revision> {
        let latest = self.keys.get(key)?.latest();
        latest.value.is_some().then_some(latest.create_revision)
    }

    /// Every key with its current value, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = KeyValue> {
        let all = self.keys.iter();
        all.filter_map(|(key, versions)| key_value(key, versions.latest()))
    }

    /// The expiry time of a key.
    pub(crate) fn expires_at(&self, key: &str) -> Option<UnixMillis> {
        self.expiry.of(key)
    }

    /// The history, for the retention policy.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }
}

/// A version as readers see it; `None` for a deletion.
pub(crate) fn key_value(key: &Key, version: &Version) -> Option<KeyValue> {
    Some(KeyValue {
        key: key.clone(),
        value: version.value.clone()?,
        create_revision: version.create_revision,
        mod_revision: version.mod_revision,
    })
}
