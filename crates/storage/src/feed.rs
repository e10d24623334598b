//! Reading the changes under a prefix, in order and without a gap.
//!
//! A feed is a position in the history that all feeds share. It owns no queue: a slow reader costs nothing, holds
//! nobody back, and if it is so slow that the history has been compacted past changes it had yet to see, the next
//! read says [`ReadError::Compacted`]. A feed that merely had nothing to read never gets that error.

use std::sync::Arc;

use crate::marks::Listener;
use crate::state::SharedState;
use crate::{Change, ReadError, Revision};

/// The most changes in one batch.
const MAX_BATCH: usize = 512;
/// The most changes looked at under one hold of the lock. What is left comes with the next batch.
const MAX_SCAN: usize = 4096;

/// Some consecutive changes under a feed's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The changes, oldest first.
    pub changes: Vec<Arc<Change>>,
    /// The reader has now seen everything up to and including this revision: where a new feed would go on.
    pub revision: Revision,
}

/// The changes under a prefix after a revision.
#[derive(Debug)]
pub struct Feed {
    state: SharedState,
    prefix: Box<str>,
    position: Revision,
    /// Tells of changes under the prefix.
    signal: Listener,
    /// The newest change that could not be told, because its value cannot be decrypted.
    untold: Revision,
    /// Tells of every change, if the reader wants to know how far the store is.
    progress: Option<Listener>,
}

impl Feed {
    pub(crate) fn start(state: SharedState, prefix: &str, after: Revision) -> Result<Self, ReadError> {
        let signal = {
            let mvcc = state.mvcc.read();
            if after < mvcc.compacted() {
                return Err(mvcc.compacted_error(after));
            }
            // Under the lock, so that a compaction right after this check is noted for this feed.
            state.signals.lock().subscribe(prefix)
        };
        Ok(Self {
            signal: signal.ok_or(ReadError::Closed)?,
            state,
            prefix: prefix.into(),
            position: after,
            untold: Revision::ZERO,
            progress: None,
        })
    }

    /// Lets [`Feed::next`] also return when the store has moved on without a change for this prefix, with an empty
    /// batch. It costs a wake-up per commit of anyone, so it is meant for few feeds.
    pub fn with_progress(mut self) -> Self {
        self.progress = self.state.signals.lock().subscribe("");
        self
    }

    /// The revision up to which everything has been delivered.
    pub fn position(&self) -> Revision {
        self.position
    }

    /// Tells somebody else of changes under the prefix, too.
    pub fn signal(&self) -> Signal {
        Signal(self.signal.clone())
    }

    /// The newest change under the prefix that the store has forgotten since this feed or an older one of the prefix
    /// was started. A reader that has seen it has missed nothing.
    pub fn dropped_revision(&self) -> Revision {
        self.signal.marks().dropped.max(self.untold)
    }

    /// Goes back to a revision: what came after it is read again, if it is there.
    pub fn go_back(&mut self, position: Revision) {
        self.position = self.position.min(position);
    }

    /// Goes on with the oldest change there is, after a read that said [`ReadError::Compacted`]. Returns the revision
    /// from which nothing is missing.
    pub fn skip_dropped(&mut self) -> Revision {
        self.position = self.position.max(self.dropped_revision());
        self.position
    }

    /// Goes on with what happens from now on. Returns the revision before that.
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

    /// What there is by now, without waiting: perhaps no changes, but the newest revision known to hold none. This
    /// is how a reader of a quiet prefix learns that it is up to date.
    pub fn read(&mut self) -> Result<Batch, ReadError> {
        // Seen before reading, so that what comes during the read wakes the next wait.
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
            // Several changes of one revision stay together, because the position is a revision.
            if change.revision > position && (changes.len() >= MAX_BATCH || scanned >= MAX_SCAN) {
                break false;
            }
            if change.key.starts_with(&*self.prefix) {
                // It is as if history had lost it: whoever goes on without it must read the current state.
                if !mvcc.seals().is_empty() && mvcc.seals().is_untold(change.revision) {
                    self.untold = change.revision;
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
            // The signal of everything includes that of the prefix.
            Some(progress) => progress.changed().await,
        };
        woken.map_err(|_| ReadError::Closed)
    }
}

/// Tells that something has happened under a prefix, to whoever has other ways to find out what.
#[derive(Clone, Debug)]
pub struct Signal(Listener);

impl Signal {
    /// True if something has happened since the last [`Signal::reset`]. It takes one load from memory.
    pub fn has_changed(&self) -> bool {
        self.0.has_changed()
    }

    /// Whoever waits is about to look: only what happens from now on is worth a wake-up.
    pub fn reset(&mut self) {
        self.0.mark_unchanged();
    }

    /// Waits for a change after the last [`Signal::reset`]. Dropping the future loses nothing.
    pub async fn changed(&mut self) -> Result<(), ReadError> {
        self.0.changed().await.map_err(|_| ReadError::Closed)
    }
}
