//! Feeds: the changes under a prefix, in order and without gaps.
//!
//! A feed is a position in the shared history. It has no queue: a slow reader costs nothing and delays nobody. If
//! compaction removes changes that it has not read yet, the next read returns [`ReadError::Compacted`]. A feed that had
//! nothing to read never gets that error.

use std::sync::Arc;

use crate::marks::Listener;
use crate::state::SharedState;
use crate::{Change, ReadError, Revision};

/// The largest number of changes in one batch.
const MAX_BATCH: usize = 512;
/// The largest number of changes scanned under one lock. The rest comes with the next batch.
const MAX_SCAN: usize = 4096;

/// Some consecutive changes under a feed's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The changes, oldest first.
    pub changes: Vec<Arc<Change>>,
    /// The revision up to which the reader has seen everything; a new feed can continue from it.
    pub revision: Revision,
}

/// The changes under a prefix after a revision.
#[derive(Debug)]
pub struct Feed {
    state: SharedState,
    prefix: Box<str>,
    position: Revision,
    /// Signals changes under the prefix.
    signal: Listener,
    /// The newest change that cannot be delivered, because its value cannot be decrypted.
    undecryptable: Revision,
    /// Signals every change, for readers that want progress.
    progress: Option<Listener>,
}

impl Feed {
    pub(crate) fn start(state: SharedState, prefix: &str, after: Revision) -> Result<Self, ReadError> {
        let signal = {
            let mvcc = state.mvcc.read();
            if after < mvcc.compacted() {
                return Err(mvcc.compacted_error(after));
            }
            // Under the lock, so that a compaction right after this check is recorded for this feed.
            state.signals.lock().subscribe(prefix)
        };
        Ok(Self {
            signal: signal.ok_or(ReadError::Closed)?,
            state,
            prefix: prefix.into(),
            position: after,
            undecryptable: Revision::ZERO,
            progress: None,
        })
    }

    /// Makes [`Feed::next`] also return, with an empty batch, when the store has advanced without a change under this
    /// prefix. It costs a wake-up per commit, so it is meant for few feeds.
    pub fn with_progress(mut self) -> Self {
        self.progress = self.state.signals.lock().subscribe("");
        self
    }

    /// The revision up to which everything has been delivered.
    pub fn position(&self) -> Revision {
        self.position
    }

    /// A signal for changes under the prefix, for another task.
    pub fn signal(&self) -> Signal {
        Signal(self.signal.clone())
    }

    /// The newest change under the prefix that was compacted since this feed, or an older one of the prefix, was
    /// started. A reader that has seen it has missed nothing.
    pub fn dropped_revision(&self) -> Revision {
        self.signal.marks().dropped.max(self.undecryptable)
    }

    /// Goes back to a revision: later changes are read again, if they are retained.
    pub fn go_back(&mut self, position: Revision) {
        self.position = self.position.min(position);
    }

    /// Continues with the oldest retained change, after [`ReadError::Compacted`]. Returns the revision from which
    /// nothing is missing.
    pub fn skip_dropped(&mut self) -> Revision {
        self.position = self.position.max(self.dropped_revision());
        self.position
    }

    /// Continues with future changes only. Returns the current revision.
    pub fn skip_to_now(&mut self) -> Revision {
        self.position = self.position.max(self.state.mvcc.read().current());
        self.position
    }

    /// Waits for changes. Dropping the future loses nothing.
    ///
    /// After [`Feed::with_progress`] the batch may be empty, but its revision is greater than the last one's.
    pub async fn next(&mut self) -> Result<Batch, ReadError> {
        loop {
            let before = self.position;
            let batch = self.read()?;
            if !batch.changes.is_empty() || (self.progress.is_some() && batch.revision > before) {
                return Ok(batch);
            }
            if batch.revision == before {
                self.wait().await?;
            }
        }
    }

    /// Returns the available changes without waiting. There may be none, but the revision is current: this is how a
    /// reader of a quiet prefix learns that it is up to date.
    pub fn read(&mut self) -> Result<Batch, ReadError> {
        // Before reading, so that a change during the read wakes the next wait.
        self.signal.mark_unchanged();
        if let Some(progress) = &mut self.progress {
            progress.mark_unchanged();
        }
        let mvcc = self.state.mvcc.read();
        if self.position < self.signal.marks().dropped {
            return Err(mvcc.compacted_error(self.position));
        }
        let mut changes = Vec::new();
        let mut position = self.position.max(mvcc.history().floor());
        let mut scanned = 0;
        let mut history = mvcc.changes_after(position);
        let is_at_the_end = loop {
            let Some(change) = history.next() else { break true };
            // Changes of one revision stay in one batch, because the position is a revision.
            if change.revision > position && (changes.len() >= MAX_BATCH || scanned >= MAX_SCAN) {
                break false;
            }
            if change.key.starts_with(&*self.prefix) {
                // Treated like compacted history: the reader must read the current state.
                if !mvcc.seals().is_empty() && mvcc.seals().is_undecryptable(change.revision) {
                    self.undecryptable = change.revision;
                    return Err(mvcc.compacted_error(self.position));
                }
                changes.push(change.clone());
            }
            position = change.revision;
            scanned += 1;
        };
        if is_at_the_end {
            position = position.max(mvcc.current());
        }
        self.position = position;
        Ok(Batch {
            changes,
            revision: position,
        })
    }

    async fn wait(&mut self) -> Result<(), ReadError> {
        let woken = match &mut self.progress {
            None => self.signal.changed().await,
            // The progress signal includes that of the prefix.
            Some(progress) => progress.changed().await,
        };
        woken.map_err(|_| ReadError::Closed)
    }
}

/// Signals that something changed under a prefix, to a task that has other means to find out what.
#[derive(Clone, Debug)]
pub struct Signal(Listener);

impl Signal {
    /// True if something has happened since the last [`Signal::reset`]. It takes one load from memory.
    pub fn has_changed(&self) -> bool {
        self.0.has_changed()
    }

    /// Resets the signal: only later changes count.
    pub fn reset(&mut self) {
        self.0.mark_unchanged();
    }

    /// Waits for a change after the last [`Signal::reset`]. Dropping the future loses nothing.
    pub async fn changed(&mut self) -> Result<(), ReadError> {
        self.0.changed().await.map_err(|_| ReadError::Closed)
    }
}
