//! The recent changes, oldest first, one per revision: what feeds read from.
//!
//! Because every revision is exactly one change, the place of a revision is a subtraction, and a feed needs to
//! remember nothing but the last revision it saw.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::UnixMillis;
use crate::{Change, Revision};

/// The changes of the revisions `floor + 1 ..= floor + len`.
#[derive(Debug)]
pub(crate) struct History {
    floor: Revision,
    entries: VecDeque<Entry>,
    /// Bytes of superseded values: what the history costs beyond the current state.
    superseded_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) change: Arc<Change>,
    written_at: UnixMillis,
}

impl Entry {
    fn superseded_bytes(&self) -> u64 {
        self.change
            .previous
            .as_ref()
            .map_or(0, |(value, _)| value.len() as u64)
    }
}

impl History {
    /// No changes, the first one being that of `floor + 1`.
    pub(crate) fn new(floor: Revision) -> Self {
        Self {
            floor,
            entries: VecDeque::new(),
            superseded_bytes: 0,
        }
    }

    pub(crate) fn push(&mut self, change: Arc<Change>, written_at: UnixMillis) {
        debug_assert_eq!(change.revision, self.floor.plus(self.entries.len() as u64 + 1));
        let entry = Entry { change, written_at };
        self.superseded_bytes += entry.superseded_bytes();
        self.entries.push_back(entry);
    }

    /// Takes the oldest change out, if it is not newer than `revision`.
    pub(crate) fn pop(&mut self, revision: Revision) -> Option<Arc<Change>> {
        if self.floor >= revision {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.floor = self.floor.next();
        self.superseded_bytes -= entry.superseded_bytes();
        Some(entry.change)
    }

    /// The changes after a revision.
    pub(crate) fn after(&self, revision: Revision) -> impl Iterator<Item = &Arc<Change>> {
        let start = revision.since(self.floor).min(self.entries.len() as u64) as usize;
        self.entries.range(start..).map(|entry| &entry.change)
    }

    /// When the oldest change was written.
    pub(crate) fn oldest_written_at(&self) -> Option<UnixMillis> {
        self.entries.front().map(|entry| entry.written_at)
    }

    /// The revision before the oldest change.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// The newest revision written at or before a time; the floor if all changes are younger.
    pub(crate) fn revision_at(&self, time: UnixMillis) -> Revision {
        let count = self.entries.partition_point(|entry| entry.written_at <= time);
        self.floor.plus(count as u64)
    }

    /// The revision to compact at so that at most so many changes and superseded bytes are left.
    pub(crate) fn revision_within(&self, revisions: u64, superseded_bytes: u64) -> Revision {
        let mut drop = (self.entries.len() as u64).saturating_sub(revisions) as usize;
        let dropped: u64 = self.entries.range(..drop).map(Entry::superseded_bytes).sum();
        let mut bytes = self.superseded_bytes - dropped;
        while bytes > superseded_bytes {
            bytes -= self.entries[drop].superseded_bytes();
            drop += 1;
        }
        self.floor.plus(drop as u64)
    }

    /// How many changes there are.
    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Bytes of values that only the history keeps alive.
    pub(crate) fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }
}
