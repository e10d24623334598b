//! One history per resource, shared by all its watchers.
//!
//! A task reads the store's feed for the resource's prefix and appends each change. A watcher is a position in
//! that history: it owns no queue, so a slow one costs nothing and holds nobody back. One that falls so far behind
//! that its next change has been dropped is told so, and its stream ends; it resumes from its version.
//!
//! What is sent for a change is worked out at most once per form (encoding, event kind) and shared by everyone who
//! wants that form.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use watchkeeper_storage::{Change, Feed, ReadError, Revision, Store};

/// The most changes kept per resource. A watcher further behind must list again.
pub(crate) const MAX_CHANGES: usize = 100_000;

/// The most changes handed to a watcher at once.
const MAX_BATCH: usize = 256;

/// How many of the newest changes keep their encoded forms: all current watchers are within this distance, and a
/// laggard pays for its own encoding.
const ENCODED_CHANGES: usize = 1_024;

/// The history of one resource.
pub(crate) struct WatchCache {
    history: RwLock<History>,
    /// The revision up to which the history is complete; watchers wait on it.
    complete: watch::Sender<Revision>,
    /// The task that appends. It holds the store open, so it must not outlive the cache.
    follower: OnceLock<AbortHandle>,
}

impl Drop for WatchCache {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.get() {
            follower.abort();
        }
    }
}

struct History {
    changes: VecDeque<Arc<CachedChange>>,
    /// The history holds every change after this revision.
    since: Revision,
    /// The store is closed: nothing will come any more.
    closed: bool,
}

/// A change with the forms it has been sent in.
pub(crate) struct CachedChange {
    pub(crate) change: Arc<Change>,
    forms: Mutex<HashMap<Form, Bytes>>,
}

/// What a sent change depends on besides the change: an encoding and a transformation, numbered by whoever encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form(pub(crate) u16);

/// Why a watcher gets no more changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The history no longer reaches back to the watcher; it begins after this revision.
    TooOld(Revision),
    /// The store is closed.
    Closed,
}

impl CachedChange {
    /// The change in one form, encoded by the first who asks.
    pub(crate) fn form(&self, form: Form, encode: impl FnOnce(&Change) -> Bytes) -> Bytes {
        self.forms
            .lock()
            .entry(form)
            .or_insert_with(|| encode(&self.change))
            .clone()
    }
}

impl WatchCache {
    /// Starts following a prefix of the store. The task ends with the store or with the last handle.
    pub(crate) fn start(store: &Store, prefix: &str) -> Result<Arc<Self>, ReadError> {
        let (feed, since) = oldest_feed(store, prefix)?;
        let cache = Arc::new(Self {
            history: RwLock::new(History {
                changes: VecDeque::new(),
                since,
                closed: false,
            }),
            complete: watch::Sender::new(since),
            follower: OnceLock::new(),
        });
        let following = follow(Arc::downgrade(&cache), store.clone(), prefix.to_owned(), feed);
        cache
            .follower
            .get_or_init(|| tokio::spawn(following).abort_handle());
        Ok(cache)
    }

    /// The changes after a revision, oldest first; none if the watcher is up to date. The second value is the
    /// revision the watcher has then seen.
    pub(crate) fn after(&self, position: Revision) -> Result<(Vec<Arc<CachedChange>>, Revision), Lost> {
        let history = self.history.read();
        if position < history.since {
            return Err(Lost::TooOld(history.since));
        }
        if history.closed {
            return Err(Lost::Closed);
        }
        let first = history
            .changes
            .partition_point(|cached| cached.change.revision <= position);
        let batch: Vec<_> = history.changes.range(first..).take(MAX_BATCH).cloned().collect();
        let delivered = batch.last().map_or(position, |last| last.change.revision);
        if first + batch.len() < history.changes.len() {
            return Ok((batch, delivered));
        }
        // May still name the revision before the newest changes: they are appended first and announced after that.
        let complete = *self.complete.borrow();
        Ok((batch, delivered.max(complete)))
    }

    /// Tells when there is something after the revision last seen.
    pub(crate) fn progress(&self) -> watch::Receiver<Revision> {
        self.complete.subscribe()
    }

    /// The history holds every change after this revision.
    pub(crate) fn since(&self) -> Revision {
        self.history.read().since
    }

    /// Adds what the feed has brought, then lets go of what the store has compacted. The history reaches back to the
    /// last change that went, not to the compaction: a quiet resource loses nothing by it, nor do its watchers.
    fn append(&self, changes: Vec<Arc<Change>>, complete: Revision, compacted: Revision) {
        let mut history = self.history.write();
        for change in changes {
            let forms = Mutex::new(HashMap::new());
            history
                .changes
                .push_back(Arc::new(CachedChange { change, forms }));
            if let Some(old) = history.changes.len().checked_sub(ENCODED_CHANGES + 1) {
                history.changes[old].forms.lock().clear();
            }
        }
        while history.changes.len() > MAX_CHANGES
            || history
                .changes
                .front()
                .is_some_and(|oldest| oldest.change.revision <= compacted)
        {
            if let Some(dropped) = history.changes.pop_front() {
                history.since = dropped.change.revision;
            }
        }
        drop(history);
        self.complete.send_replace(complete);
    }

    /// Tells every watcher that the store is closed.
    fn close(&self) {
        self.history.write().closed = true;
        self.complete.send_modify(|_| {});
    }

    /// Begins anew after a gap: whoever had not seen it all is told.
    fn restart(&self, since: Revision) {
        let mut history = self.history.write();
        history.changes.clear();
        history.since = since;
        drop(history);
        self.complete.send_replace(since);
    }
}

/// The feed that reaches back as far as the store does.
fn oldest_feed(store: &Store, prefix: &str) -> Result<(Feed, Revision), ReadError> {
    loop {
        let since = store.compacted_revision();
        match store.watch(prefix, since) {
            // Compacted between the two lines.
            Err(ReadError::Compacted { .. }) => {}
            feed => return feed.map(|feed| (feed, since)),
        }
    }
}

/// Appends what the feed brings until the store closes or nobody holds the cache.
async fn follow(cache: Weak<WatchCache>, store: Store, prefix: String, mut feed: Feed) {
    loop {
        let batch = feed.next().await;
        let Some(cache) = cache.upgrade() else { return };
        match batch {
            Ok(batch) => cache.append(batch.changes, batch.revision, store.compacted_revision()),
            Err(ReadError::Compacted { .. }) => match oldest_feed(&store, &prefix) {
                Ok((newer, since)) => {
                    cache.restart(since);
                    feed = newer;
                }
                Err(_) => return cache.close(),
            },
            Err(_) => return cache.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchkeeper_storage::StoreOptions;

    fn cache(since: u64, complete: u64) -> WatchCache {
        WatchCache {
            history: RwLock::new(History {
                changes: VecDeque::new(),
                since: Revision::new(since),
                closed: false,
            }),
            complete: watch::Sender::new(Revision::new(complete)),
            follower: OnceLock::new(),
        }
    }

    fn change(revision: u64) -> Arc<Change> {
        Arc::new(Change {
            revision: Revision::new(revision),
            key: "/a".into(),
            value: Some(Bytes::new()),
            previous: None,
            create_revision: Revision::new(revision),
        })
    }

    fn append(cache: &WatchCache, revision: u64, compacted: u64) {
        let complete = Revision::new(revision);
        cache.append(vec![change(revision)], complete, Revision::new(compacted));
    }

    /// The revisions of what a watcher is handed, and the position it then has.
    fn after(cache: &WatchCache, position: u64) -> Result<(Vec<u64>, u64), Lost> {
        let (batch, seen) = cache.after(Revision::new(position))?;
        let revisions = batch.iter().map(|cached| cached.change.revision.get());
        Ok((revisions.collect(), seen.get()))
    }

    #[test]
    fn a_change_read_before_it_is_announced_is_not_handed_out_again() {
        let cache = cache(1, 4);
        append(&cache, 7, 0);
        // As a watcher on another thread finds it between the two.
        cache.complete.send_replace(Revision::new(4));
        assert_eq!(after(&cache, 4), Ok((vec![7], 7)));
        assert_eq!(after(&cache, 7), Ok((vec![], 7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_history_that_nobody_holds_lets_go_of_the_store() {
        let store = Store::memory(StoreOptions::default());
        let mut feed = store.watch("", store.current_revision()).unwrap();
        let cache = WatchCache::start(&store, "/").unwrap();
        // Lets the follower begin to wait.
        tokio::task::yield_now().await;
        drop((cache, store));
        let hour = std::time::Duration::from_secs(3600);
        let ended = tokio::time::timeout(hour, feed.next()).await;
        assert_eq!(ended.map(|batch| batch.unwrap_err()), Ok(ReadError::Closed));
    }

    #[test]
    fn only_what_was_dropped_is_too_old() {
        let cache = cache(1, 1);
        append(&cache, 3, 0);
        append(&cache, 5, 0);
        append(&cache, 9, 4);
        assert_eq!(after(&cache, 2), Err(Lost::TooOld(Revision::new(3))));
        assert_eq!(after(&cache, 3), Ok((vec![5, 9], 9)));
        append(&cache, 20, 19);
        assert_eq!(after(&cache, 8), Err(Lost::TooOld(Revision::new(9))));
        assert_eq!(after(&cache, 9), Ok((vec![20], 20)));
    }
}
