//! The recent changes, oldest first: the source of feeds.
//!
//! Our own engines give every change its own revision without gaps, so the index of a revision is a subtraction. etcd's
//! revisions have gaps, since it counts foreign writes, and foreign writers may change several keys in one revision;
//! then the index is found by binary search. In both cases a feed only remembers the last revision it saw.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::UnixMillis;
use crate::{Change, Revision};

/// Every change after `floor`.
#[derive(Clone, Debug)]
pub(crate) struct History {
    floor: Revision,
    entries: VecDeque<Entry>,
    /// The bytes of superseded values: the cost of the history beyond the current state.
    superseded_bytes: u64,
}

#[derive(Clone, Debug)]
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
    /// An empty history; the first change will be later than `floor`.
    pub(crate) fn new(floor: Revision) -> Self {
        Self {
            floor,
            entries: VecDeque::new(),
            superseded_bytes: 0,
        }
    }

    pub(crate) fn push(&mut self, change: Arc<Change>, written_at: UnixMillis) {
        debug_assert!(change.revision > self.floor && change.revision >= self.newest());
        let entry = Entry { change, written_at };
        self.superseded_bytes += entry.superseded_bytes();
        self.entries.push_back(entry);
    }

    /// True if there is a change that is not newer than `revision`.
    pub(crate) fn has_before(&self, revision: Revision) -> bool {
        let oldest = self.entries.front();
        oldest.is_some_and(|entry| entry.change.revision <= revision)
    }

    /// Removes the oldest change, if it is not newer than `revision`.
    pub(crate) fn pop(&mut self, revision: Revision) -> Option<Arc<Change>> {
        let entry = self
            .entries
            .pop_front_if(|entry| entry.change.revision <= revision)?;
        self.floor = entry.change.revision;
        self.superseded_bytes -= entry.superseded_bytes();
        Some(entry.change)
    }

    /// The changes after a revision.
    pub(crate) fn after(&self, revision: Revision) -> impl Iterator<Item = &Arc<Change>> {
        let start = self.place_after(revision);
        self.entries.range(start..).map(|entry| &entry.change)
    }

    /// The number of changes that are not later than a revision.
    fn place_after(&self, revision: Revision) -> usize {
        let dense = revision.since(self.floor).min(self.entries.len() as u64) as usize;
        let is_before = |index: usize| self.entries[index].change.revision <= revision;
        let is_there =
            (dense == 0 || is_before(dense - 1)) && (dense == self.entries.len() || !is_before(dense));
        match is_there {
            true => dense,
            false => self
                .entries
                .partition_point(|entry| entry.change.revision <= revision),
        }
    }

    /// The revision of the newest change; the floor if there is none.
    fn newest(&self) -> Revision {
        self.revision_of(self.entries.len())
    }

    /// The revision of the last of that many changes; the floor for none.
    fn revision_of(&self, count: usize) -> Revision {
        let last = count.checked_sub(1).map(|index| &self.entries[index].change);
        last.map_or(self.floor, |change| change.revision)
    }

    /// True if the oldest change has the same revision as the last one removed.
    pub(crate) fn is_within_revision(&self) -> bool {
        let oldest = self.entries.front();
        oldest.is_some_and(|entry| entry.change.revision == self.floor)
    }

    /// The time at which the oldest change was written.
    pub(crate) fn oldest_written_at(&self) -> Option<UnixMillis> {
        self.entries.front().map(|entry| entry.written_at)
    }

    /// The revision before the oldest change.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// The newest revision written at or before a time; the floor if all changes are later.
    pub(crate) fn revision_at(&self, time: UnixMillis) -> Revision {
        let count = self.entries.partition_point(|entry| entry.written_at <= time);
        self.revision_of(count)
    }

    /// The revision to compact at so that at most that many changes and superseded bytes remain.
    pub(crate) fn revision_within(&self, revisions: u64, superseded_bytes: u64) -> Revision {
        let mut drop = (self.entries.len() as u64).saturating_sub(revisions) as usize;
        let dropped: u64 = self.entries.range(..drop).map(Entry::superseded_bytes).sum();
        let mut bytes = self.superseded_bytes - dropped;
        while bytes > superseded_bytes {
            bytes -= self.entries[drop].superseded_bytes();
            drop += 1;
        }
        self.revision_of(drop)
    }

    /// The number of changes.
    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The bytes of values that only the history retains.
    pub(crate) fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn history(revisions: &[u64]) -> History {
        let mut history = History::new(Revision::new(10));
        for (index, &revision) in revisions.iter().enumerate() {
            let change = Change {
                revision: Revision::new(revision),
                key: Key::from("a"),
                value: None,
                previous: None,
                create_revision: Revision::FIRST,
            };
            history.push(Arc::new(change), index as u64);
        }
        history
    }

    /// The revisions of the changes after each of these.
    fn after(history: &History, revision: u64) -> Vec<u64> {
        let changes = history.after(Revision::new(revision));
        changes.map(|change| change.revision.get()).collect()
    }

    #[test]
    fn revisions_may_have_gaps_and_several_changes() {
        let mut history = history(&[12, 15, 15, 15, 16, 20]);
        for (revision, count) in [
            (10, 6),
            (11, 6),
            (12, 5),
            (14, 5),
            (15, 2),
            (16, 1),
            (19, 1),
            (20, 0),
            (99, 0),
        ] {
            assert_eq!(after(&history, revision).len(), count, "after {revision}");
        }
        assert_eq!(history.revision_at(1), Revision::new(15));
        assert_eq!(history.revision_within(1, u64::MAX), Revision::new(16));
        let mut gone = 0;
        while history.pop(Revision::new(15)).is_some() {
            gone += 1;
        }
        assert_eq!((gone, history.floor()), (4, Revision::new(15)));
        assert_eq!(after(&history, 0), [16, 20]);
        assert_eq!(history.revision_at(1), Revision::new(15));
    }
}
