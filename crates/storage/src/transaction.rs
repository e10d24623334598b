//! A batch of writes: compare-and-swap against the visible state and the writes staged before.
//!
//! Nothing here is visible to readers. If the engine rejects the batch, dropping it undoes everything.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::millis;
use crate::model::{ImportedChange, Record, UnixMillis};
use crate::mvcc::Mvcc;
use crate::space::Outcome;
use crate::transform::Seal;
use crate::{Key, KeyValue, Revision, WriteError};

/// A command of a writer.
#[derive(Debug)]
pub(crate) enum Command {
    /// Creates or updates a key.
    Put {
        key: Key,
        value: Bytes,
        /// The revision of the value to replace; `None` to create the key.
        expected: Option<Revision>,
        ttl: Option<Duration>,
    },
    /// Deletes a key.
    Delete { key: Key, expected: Revision },
    /// Compacts the history up to a revision.
    Compact { revision: Revision },
    /// Applies changes with their own revisions.
    Import { changes: Vec<ImportedChange> },
}

impl Command {
    /// The bytes that it adds to a commit.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            Self::Delete { key, .. } => key.len(),
            Self::Compact { .. } => 0,
            Self::Import { changes } => changes.iter().map(ImportedChange::size).sum(),
        }
    }
}

/// A batch under construction.
#[derive(Debug)]
pub(crate) struct Transaction {
    now: UnixMillis,
    /// The revision of the last staged record, or the visible one.
    current: Revision,
    pub(crate) records: Vec<Record>,
    /// The newest record of each key among the first records. It is filled lazily: most batches have one record.
    staged: HashMap<Key, usize>,
    looked_through: usize,
    pub(crate) compacted: Option<Revision>,
    /// The bytes available for further records.
    room: u64,
    /// The space outcome: records if a write was refused.
    pub(crate) outcome: Outcome,
}

impl Transaction {
    pub(crate) fn begin(mvcc: &Mvcc, now: UnixMillis, room: u64) -> Self {
        Self {
            now,
            current: mvcc.current(),
            records: Vec::new(),
            staged: HashMap::new(),
            looked_through: 0,
            compacted: None,
            room,
            outcome: Outcome::Fits,
        }
    }

    /// Stages a command and returns its revision, or the reason it fails.
    pub(crate) fn stage(&mut self, mvcc: &Mvcc, command: Command) -> Result<Revision, WriteError> {
        match command {
            Command::Put {
                key,
                value,
                expected,
                ttl,
            } => {
                let found = self.expect(mvcc, &key, expected)?;
                self.take_room(&key, &value, found.as_ref())?;
                let expires_at = ttl.map(|ttl| self.now.saturating_add(millis(ttl)));
                Ok(self.push(key, Some(value), found, expires_at))
            }
            Command::Delete { key, expected } => {
                let found = self.expect(mvcc, &key, Some(expected))?;
                Ok(self.push(key, None, found, None))
            }
            Command::Compact { revision } => {
                let current = mvcc.current();
                if revision > current {
                    return Err(WriteError::Future {
                        requested: revision,
                        current,
                    });
                }
                if revision > mvcc.history().floor() {
                    self.compact(revision);
                }
                Ok(revision)
            }
            Command::Import { changes } => self.import(mvcc, changes),
        }
    }

    /// Refuses a write that would exceed the quota.
    fn take_room(&mut self, key: &Key, value: &Bytes, found: Option<&KeyValue>) -> Result<(), WriteError> {
        let size = (key.len() + value.len()) as u64;
        let grows = found.is_none_or(|found| value.len() > found.value.len());
        if grows && size > self.room {
            self.outcome = Outcome::Refused;
            return Err(WriteError::NoSpace);
        }
        self.room = self.room.saturating_sub(size);
        Ok(())
    }

    /// Stages changes that already have revisions. Several may share one.
    fn import(&mut self, mvcc: &Mvcc, changes: Vec<ImportedChange>) -> Result<Revision, WriteError> {
        let in_order = changes.is_sorted_by_key(|change| change.revision);
        if let Some(first) = changes.iter().map(|change| change.revision).min()
            && (first <= self.current || !in_order)
        {
            return Err(WriteError::Past {
                requested: first,
                current: self.current,
            });
        }
        for change in changes {
            let found = self.latest(mvcc, &change.key);
            if found.is_none() && change.value.is_none() {
                continue;
            }
            self.current = change.revision;
            self.records
                .push(change.into_record(found.map(|found| found.create_revision)));
        }
        Ok(self.current)
    }

    /// Compacts at a visible revision, or at a later one that is already staged.
    pub(crate) fn compact(&mut self, revision: Revision) {
        self.compacted = self.compacted.max(Some(revision));
    }

    /// The current state of a key, if it is the expected one.
    fn expect(
        &mut self,
        mvcc: &Mvcc,
        key: &Key,
        expected: Option<Revision>,
    ) -> Result<Option<KeyValue>, WriteError> {
        let current = self.latest(mvcc, key);
        if current.as_ref().map(|found| found.mod_revision) != expected {
            return Err(WriteError::Conflict { current });
        }
        Ok(current)
    }

    fn latest(&mut self, mvcc: &Mvcc, key: &Key) -> Option<KeyValue> {
        for (index, record) in self.records.iter().enumerate().skip(self.looked_through) {
            self.staged.insert(record.key.clone(), index);
        }
        self.looked_through = self.records.len();
        let Some(&index) = self.staged.get(key) else {
            return mvcc.latest(key);
        };
        let record = &self.records[index];
        Some(KeyValue {
            key: record.key.clone(),
            value: record.value.clone()?,
            create_revision: record.create_revision,
            mod_revision: record.revision,
        })
    }

    fn push(
        &mut self,
        key: Key,
        value: Option<Bytes>,
        found: Option<KeyValue>,
        expires_at: Option<UnixMillis>,
    ) -> Revision {
        let revision = self.current.next();
        self.current = revision;
        // The key of the index: one allocation per key, however often it is written.
        let (key, create_revision) =
            found.map_or((key, revision), |found| (found.key, found.create_revision));
        self.records.push(Record {
            revision,
            key,
            value: value.map(Into::into),
            create_revision,
            written_at: self.now,
            expires_at,
            seal: Seal::Current,
        });
        revision
    }
}
