//! State shared by readers, feeds and the writer: the MVCC core behind a lock that is never held for long.
//!
//! Nobody holds the lock across an `.await` or a disk write, or visits more than a bounded number of keys or changes
//! while holding it: a long range is many short ones at one revision, which MVCC makes equivalent. So a reader waits
//! for microseconds at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::model::{Record, UnixMillis};
use crate::mvcc::Mvcc;
use crate::signals::Signals;
use crate::space::Space;
use crate::{Change, ReadError, Retention, Revision};

/// The number of records or changes handled under one write lock.
const APPLY_STEP: usize = 128;

/// The visible state of a store.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) mvcc: RwLock<Mvcc>,
    /// Locked after `mvcc`, never before.
    pub(crate) signals: Mutex<Signals>,
    pub(crate) clock: Clock,
    pub(crate) retention: Retention,
    pub(crate) space: Space,
    /// The next deadline of maintenance.
    pub(crate) due: watch::Sender<Option<UnixMillis>>,
    closed: AtomicBool,
    /// Set when the engine has failed for good.
    failed: AtomicBool,
}

impl State {
    /// The state of a store without a data file.
    #[cfg(any(test, feature = "etcd"))]
    pub(crate) fn new(mvcc: Mvcc, clock: Clock, retention: Retention) -> Self {
        Self::within(mvcc, clock, retention, Space::default())
    }

    pub(crate) fn within(mvcc: Mvcc, clock: Clock, retention: Retention, space: Space) -> Self {
        let state = Self {
            mvcc: RwLock::new(mvcc),
            signals: Mutex::new(Signals::new()),
            clock,
            retention,
            space,
            due: watch::Sender::new(None),
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        };
        state.reschedule();
        state
    }

    /// Fails if the store is closed.
    pub(crate) fn open(&self) -> Result<(), ReadError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(ReadError::Closed);
        }
        Ok(())
    }

    /// True if the engine accepts writes.
    pub(crate) fn is_writable(&self) -> bool {
        self.open().is_ok() && !self.failed.load(Ordering::Acquire)
    }

    /// Records that the engine has failed for good.
    pub(crate) fn note_failure(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.signals.lock().close();
    }

    /// Makes durable records visible, and wakes the feeds they concern. Records of the same revision, which etcd may
    /// have, become visible together.
    pub(crate) fn publish(&self, records: Vec<Record>) {
        let mut records = records.into_iter().peekable();
        while records.peek().is_some() {
            let mut changes: Vec<Arc<Change>> = Vec::new();
            {
                let mut mvcc = self.mvcc.write();
                while let Some(record) = records.next_if(|record| {
                    let last = changes.last();
                    changes.len() < APPLY_STEP || last.is_some_and(|last| last.revision == record.revision)
                }) {
                    changes.push(mvcc.apply(record));
                }
            }
            let signals = self.signals.lock();
            changes.iter().for_each(|change| signals.changed(change));
        }
        self.reschedule();
    }

    /// Advances to a revision without a change here.
    #[cfg(feature = "etcd")]
    pub(crate) fn advance(&self, revision: Revision) {
        self.mvcc.write().advance(revision);
        self.signals.lock().moved(revision);
    }

    /// Replaces the state by another one. Feeds behind the start of its history get an error.
    #[cfg(feature = "etcd")]
    pub(crate) fn replace(&self, mvcc: Mvcc) {
        let floor = mvcc.history().floor();
        {
            let mut replaced = self.mvcc.write();
            *replaced = mvcc;
            // Under both locks, as in `compact_step`.
            self.signals.lock().lost(floor);
        }
        self.reschedule();
    }

    /// Drops the history up to a revision. Returns the dropped versions, oldest first.
    pub(crate) fn compact(&self, revision: Revision) -> Vec<Revision> {
        let mut gone = Vec::new();
        while self.compact_step(revision, &mut gone) >= APPLY_STEP {}
        gone.sort_unstable();
        self.reschedule();
        gone
    }

    fn compact_step(&self, revision: Revision, gone: &mut Vec<Revision>) -> usize {
        let mut mvcc = self.mvcc.write();
        let signals = self.signals.lock();
        let mut steps = 0;
        // The changes of one revision are dropped together: a feed that has read up to it would otherwise miss the rest
        // unnoticed.
        while (steps < APPLY_STEP || mvcc.history().is_within_revision())
            && let Some(change) = mvcc.compact_one(revision, |version| gone.push(version))
        {
            // Under both locks, so that no feed can read between the drop and its record.
            signals.dropped(&change);
            steps += 1;
        }
        steps
    }

    fn reschedule(&self) {
        let mvcc = self.mvcc.read();
        let next = [mvcc.next_expiry(), self.retention.due(&mvcc)];
        let next = next.into_iter().flatten().min();
        drop(mvcc);
        self.due
            .send_if_modified(|due| std::mem::replace(due, next) != next);
    }
}

/// Shared by a store, its feeds and its writer.
pub(crate) type SharedState = Arc<State>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::feed::Feed;
    use crate::transform::Seal;

    fn record(revision: u64, key: String) -> Record {
        Record {
            revision: Revision::new(revision),
            key: Key::from(key),
            value: Some("".into()),
            create_revision: Revision::new(revision),
            written_at: 0,
            expires_at: None,
            seal: Seal::Current,
        }
    }

    /// In between, a feed would not notice that changes are missing.
    #[cfg(feature = "etcd")]
    #[test]
    fn a_replaced_state_is_visible_only_after_the_loss_is_recorded() {
        let state = Arc::new(State::new(Mvcc::new(), Clock::start(), Retention::default()));
        let mut feed = Feed::start(state.clone(), "", Revision::FIRST).unwrap();
        let noting = state.signals.lock();
        let replacing = std::thread::spawn({
            let (state, other) = (state.clone(), Mvcc::recovering(Revision::new(9)));
            move || state.replace(other)
        });
        // The other thread now waits for the signals, or is about to. As long as the state can be read, it is the old
        // one.
        for _ in 0..10_000 {
            if let Some(mvcc) = state.mvcc.try_read() {
                assert_eq!(mvcc.current(), Revision::FIRST);
            }
            std::thread::yield_now();
        }
        drop(noting);
        replacing.join().unwrap();
        assert!(feed.read().unwrap_err().is_compacted());
    }

    #[test]
    fn the_changes_of_a_revision_are_compacted_together() {
        let state = Arc::new(State::new(Mvcc::new(), Clock::start(), Retention::default()));
        let others = (0..APPLY_STEP).map(|number| record(5, format!("/a/{number}")));
        state.publish(others.chain([record(5, "/b/1".to_owned())]).collect());
        let mut feed = Feed::start(state.clone(), "/b/", Revision::new(4)).unwrap();
        state.compact_step(Revision::new(5), &mut Vec::new());
        assert!(matches!(feed.read(), Err(ReadError::Compacted { .. })));
    }
}
