//! The mailbox of one subscriber: a bounded queue that falls back to a difference when it overflows.
//!
//! The driver posts batches, the subscriber takes notices; neither waits for the other. When a batch does not fit,
//! the mailbox remembers the snapshot before it and accepts nothing more. Once the subscriber has emptied the queue,
//! it receives the difference between that snapshot and the current one: no object is missed, only intermediate
//! states are. The snapshots share what has not changed, so falling behind costs little memory.
//!
//! Batches and snapshots have a generation. A mailbox knows the generation it has reached, so that a batch that is
//! already contained in a snapshot is not delivered twice.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Notice;
use crate::delta::{Cause, Delta};
use crate::store::Snapshot;

/// The queue of one subscriber.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// The first list, delivered before the queue. It is the whole store, so nothing of it is queued.
    first_list: Option<Arc<Snapshot>>,
    queue: VecDeque<Notice>,
    capacity: usize,
    /// Every change up to this generation was queued, or will be part of the difference to `behind`.
    up_to: u64,
    /// While overflowed: the state the subscriber has seen once the queue is empty.
    behind: Option<Arc<Snapshot>>,
    /// The number of changes that were coalesced because the queue was full.
    coalesced: u64,
    told_synced: bool,
    closed: bool,
}

/// The next item of a mailbox.
#[derive(Debug)]
pub(super) enum Taken {
    /// Deliver every object of this snapshot and then, if it is complete, the end of the list.
    FirstList(Arc<Snapshot>),
    Notice(Notice),
    Empty,
    Closed,
}

impl Mailbox {
    /// For a subscriber that has seen `snapshot`.
    pub(super) fn new(capacity: usize, snapshot: &Snapshot) -> Self {
        Self {
            first_list: None,
            queue: VecDeque::new(),
            capacity: capacity.max(1),
            up_to: snapshot.generation(),
            behind: None,
            coalesced: 0,
            told_synced: snapshot.is_synced(),
            closed: false,
        }
    }

    /// Posts a batch that was published as `after`.
    pub(super) fn post(&mut self, deltas: &[Delta], before: &Arc<Snapshot>, after: &Arc<Snapshot>) {
        if self.closed || after.generation() <= self.up_to {
            return;
        }
        if self.behind.is_some() {
            self.coalesced += deltas.len() as u64;
            return;
        }
        let is_initial = |delta: &Delta| delta.cause() == Cause::Initial;
        // Lists come before changes: if the last delta is initial, all are.
        let is_listed = deltas.len() == after.len() && deltas.last().is_some_and(is_initial);
        if is_listed && before.is_empty() && self.queue.is_empty() {
            self.up_to = after.generation();
            self.told_synced = after.is_synced();
            self.first_list = Some(after.clone());
            return;
        }
        // A first list is accepted whatever its length: it is shared with the store.
        let initial = deltas.first().is_some_and(is_initial);
        if !initial && self.queue.len() + deltas.len() > self.capacity {
            self.behind = Some(before.clone());
            self.coalesced += deltas.len() as u64;
            return;
        }
        self.up_to = after.generation();
        self.queue.extend(deltas.iter().cloned().map(Notice::Change));
        self.mark_synced(after);
    }

    /// The next notice. `present` is called only if the subscriber has to catch up.
    pub(super) fn take(&mut self, present: impl FnOnce() -> Arc<Snapshot>) -> Taken {
        if let Some(state) = self.first_list.take() {
            return Taken::FirstList(state);
        }
        if self.queue.is_empty()
            && let Some(behind) = self.behind.take()
        {
            let present = present();
            self.up_to = present.generation();
            let changes = present.changes_since(&behind, Cause::Watch);
            self.queue.extend(changes.into_iter().map(Notice::Change));
            self.mark_synced(&present);
        }
        match self.queue.pop_front() {
            Some(notice) => Taken::Notice(notice),
            None if self.closed => Taken::Closed,
            None => Taken::Empty,
        }
    }

    /// Closes the mailbox. Queued notices can still be taken.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// True if the subscriber has seen this state.
    pub(super) fn has_told(&self, state: &Snapshot) -> bool {
        let is_empty = self.first_list.is_none() && self.queue.is_empty();
        is_empty && self.behind.is_none() && self.up_to >= state.generation()
    }

    /// The number of queued notices.
    pub(super) fn len(&self) -> usize {
        let listed = self.first_list.as_ref().map_or(0, |state| state.len());
        listed + self.queue.len()
    }

    /// The number of changes that were coalesced because the queue was full.
    pub(super) fn coalesced(&self) -> u64 {
        self.coalesced
    }

    fn mark_synced(&mut self, state: &Snapshot) {
        if state.is_synced() && !self.told_synced {
            self.told_synced = true;
            self.queue.push_back(Notice::Synced);
        }
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_meta::ResourceVersion;

    use super::*;
    use crate::store::tests::object;
    use crate::store::{self, Store, Writer};
    use crate::watcher::Event;

    fn listed() -> (Store, Writer) {
        let (store, mut writer) = store::new();
        writer.apply(0, Event::InitDone(ResourceVersion::new("1")), &mut Vec::new());
        writer.publish();
        (store, writer)
    }

    /// A published change with the snapshots before and after it.
    fn change(store: &Store, writer: &mut Writer, text: &str) -> (Vec<Delta>, Arc<Snapshot>, Arc<Snapshot>) {
        let (before, mut deltas) = (store.snapshot(), Vec::new());
        writer.apply(0, Event::Modified(object(text)), &mut deltas);
        writer.publish();
        (deltas, before, store.snapshot())
    }

    #[test]
    fn a_batch_is_told_once_whether_the_snapshot_or_the_batch_comes_first() {
        let (store, mut writer) = listed();
        let (deltas, before, after) = change(&store, &mut writer, "a/x@2");
        let mut joined_before = Mailbox::new(10, &before);
        let mut joined_after = Mailbox::new(10, &after);
        for mailbox in [&mut joined_before, &mut joined_after] {
            mailbox.post(&deltas, &before, &after);
        }
        assert_eq!((joined_before.len(), joined_after.len()), (1, 0));
    }

    #[test]
    fn the_first_list_is_told_from_the_store_before_what_has_changed_since() {
        let (store, mut writer) = store::new();
        let (before, mut deltas) = (store.snapshot(), Vec::new());
        let mut mailbox = Mailbox::new(2, &before);
        let objects = ["a/x@1", "a/y@2", "a/z@3"].map(|text| Event::InitApply(object(text)));
        let done = Event::InitDone(ResourceVersion::new("5"));
        for event in [Event::Init].into_iter().chain(objects).chain([done]) {
            writer.apply(0, event, &mut deltas);
        }
        writer.publish();
        let listed = store.snapshot();
        mailbox.post(&deltas, &before, &listed);
        let (deltas, before, after) = change(&store, &mut writer, "a/x@6");
        mailbox.post(&deltas, &before, &after);
        assert_eq!(mailbox.len(), 4);
        let Taken::FirstList(state) = mailbox.take(|| store.snapshot()) else {
            panic!("the list comes first");
        };
        assert_eq!((state.generation(), state.len()), (listed.generation(), 3));
        assert!(!mailbox.has_told(&after));
        let Taken::Notice(Notice::Change(delta)) = mailbox.take(|| store.snapshot()) else {
            panic!("the list says by itself that it is complete");
        };
        assert_eq!(delta, deltas[0]);
        assert!(mailbox.has_told(&after));
    }

    /// The store shows a change before it is posted: a resync at that moment must not deliver it early.
    #[test]
    fn a_state_is_told_once_its_changes_were_taken() {
        let (store, mut writer) = listed();
        let mut mailbox = Mailbox::new(10, &store.snapshot());
        let (deltas, before, after) = change(&store, &mut writer, "a/x@2");
        assert!(!mailbox.has_told(&after), "not posted");
        mailbox.post(&deltas, &before, &after);
        assert!(!mailbox.has_told(&after), "not taken");
        mailbox.take(|| store.snapshot());
        assert!(mailbox.has_told(&after));
    }

    #[test]
    fn a_subscriber_that_is_behind_counts_as_told_once_it_has_caught_up() {
        let (store, mut writer) = listed();
        let mut mailbox = Mailbox::new(1, &store.snapshot());
        for version in 2..5 {
            let (deltas, before, after) = change(&store, &mut writer, &format!("a/x@{version}"));
            mailbox.post(&deltas, &before, &after);
        }
        mailbox.take(|| store.snapshot());
        assert!(!mailbox.has_told(&store.snapshot()), "two steps are left");
        assert!(matches!(mailbox.take(|| store.snapshot()), Taken::Notice(_)));
        assert!(mailbox.has_told(&store.snapshot()));
        assert_eq!(mailbox.coalesced(), 2);
    }
}
