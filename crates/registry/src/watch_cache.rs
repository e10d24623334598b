//! One history per resource, shared by all its watchers.
//!
//! Whoever looks first after a change takes it from the store's feed for the resource's prefix; nobody has to be woken
//! for that alone. A watcher is a position in that history: it owns no queue, so a slow one costs nothing and holds
//! nobody back. One that falls so far behind that its next change has been dropped is told so, and its stream ends; it
//! resumes from its version.
//!
//! The history begins when somebody begins to watch, and goes with the last watcher: the store has everything still, and
//! who comes with an older version makes the history go back. It remembers how far it can: whoever comes back has missed
//! nothing if nothing of this resource was compacted.
//!
//! What is sent for a change is worked out at most once per form (encoding, event kind) and shared by everyone who
//! wants that form.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use watchkeeper_storage::{Change, Feed, ReadError, Revision, Signal, Store};

/// The most changes kept per resource. A watcher further behind must list again.
pub(crate) const MAX_CHANGES: usize = 100_000;

/// The most changes handed to a watcher at once.
const MAX_BATCH: usize = 256;

/// How many of the newest changes keep their encoded forms: all current watchers are within this distance, and a
/// laggard pays for its own encoding.
const ENCODED_CHANGES: usize = 1_024;

/// The history of one resource.
pub(crate) struct WatchCache {
    history: Mutex<History>,
    signal: Signal,
}

/// Somebody who watches; the history keeps its changes until the last of them goes.
pub(crate) struct Watcher(Arc<WatchCache>);

impl Watcher {
    /// Whether others watch as well, who may want what this one sends. It may be wrong about those who come or go just
    /// now; then something is worked out twice, or kept in vain.
    pub(crate) fn is_in_company(&self) -> bool {
        // One is the registry's.
        Arc::strong_count(&self.0) > 2
    }
}

impl Deref for Watcher {
    type Target = WatchCache;

    fn deref(&self) -> &WatchCache {
        &self.0
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.history.lock().leave();
    }
}

struct History {
    watchers: usize,
    /// Brings what the history does not have yet.
    feed: Feed,
    /// What happened after `begin`, up to where the feed is.
    changes: VecDeque<Arc<CachedChange>>,
    begin: Revision,
    /// The history can go back to this revision: everything after it is here or in the store.
    since: Revision,
}

/// A change with the forms it has been sent in.
pub(crate) struct CachedChange {
    pub(crate) change: Arc<Change>,
    forms: Mutex<HashMap<Form, Bytes>>,
}

/// What a sent change depends on besides the change: an encoding and a transformation, numbered by whoever encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form(pub(crate) u16);

/// The history no longer reaches back to a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld;

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
    /// The history under a prefix, as far back as the store has it.
    pub(crate) fn open(store: &Store, prefix: &str) -> Result<Self, ReadError> {
        let (feed, since) = oldest_feed(store, prefix)?;
        let signal = feed.signal();
        let changes = VecDeque::new();
        let history = Mutex::new(History {
            watchers: 0,
            feed,
            changes,
            begin: since,
            since,
        });
        Ok(Self { history, signal })
    }

    /// Somebody begins to watch.
    pub(crate) fn enter(self: Arc<Self>) -> Watcher {
        self.history.lock().enter();
        Watcher(self)
    }

    /// The changes after a revision, oldest first; none if the watcher is up to date. The second value is the
    /// revision the watcher has then seen.
    pub(crate) fn after(&self, position: Revision) -> Result<(Vec<Arc<CachedChange>>, Revision), TooOld> {
        let mut history = self.history.lock();
        history.reach(position);
        if position < history.since {
            return Err(TooOld);
        }
        let changes = &history.changes;
        let first = history.seen(position);
        let mut batch: Vec<_> = changes.range(first..).take(MAX_BATCH).cloned().collect();
        // The changes of one revision, of which a shared store may have several, stay together: the position is one.
        if let Some(last) = batch.last().map(|last| last.change.revision) {
            let rest = changes.range(first + batch.len()..);
            let same = rest.take_while(|cached| cached.change.revision == last);
            batch.extend(same.cloned());
        }
        let seen = match batch.last() {
            Some(last) if first + batch.len() < changes.len() => last.change.revision,
            _ => history.feed.position().max(position),
        };
        Ok((batch, seen))
    }

    /// Tells when there is something to look for.
    pub(crate) fn signal(&self) -> Signal {
        self.signal.clone()
    }

    /// Goes back as far as it can if a watcher wants to start after this revision. Returns the revision after which it
    /// has every change, which may be a later one.
    pub(crate) fn since(&self, position: Revision) -> Revision {
        let mut history = self.history.lock();
        history.reach(position);
        history.since
    }
}

impl History {
    /// How many changes are not later than a revision. Nearly every watcher has seen all, or all but the last.
    fn seen(&self, position: Revision) -> usize {
        let newest = self.changes.iter().rev().take(2);
        let newer = newest.take_while(|cached| cached.change.revision > position);
        match newer.count() {
            2 => self
                .changes
                .partition_point(|cached| cached.change.revision <= position),
            newer => self.changes.len() - newer,
        }
    }

    fn enter(&mut self) {
        if self.watchers == 0 {
            self.changes.clear();
            self.begin = self.feed.skip_to_now();
        }
        self.watchers += 1;
    }

    fn leave(&mut self) {
        self.watchers -= 1;
        if self.watchers == 0 {
            self.changes = VecDeque::new();
            self.begin = self.feed.position();
        }
    }

    /// Takes in what has happened, and what had happened before if the watcher at this position has not seen that.
    fn reach(&mut self, position: Revision) {
        if position < self.begin && self.since < self.begin {
            // All the way: the next one may come with a version that is older still.
            self.changes.clear();
            self.begin = self.since;
            self.feed.go_back(self.since);
        }
        self.catch_up();
    }

    /// Takes in what has happened, then lets go of what the store has compacted.
    fn catch_up(&mut self) {
        loop {
            let before = self.feed.position();
            match self.feed.read() {
                Ok(batch) => batch.changes.into_iter().for_each(|change| self.append(change)),
                Err(_) => self.begin_anew(),
            }
            if self.feed.position() == before {
                break;
            }
        }
        self.trim(self.feed.dropped_revision());
    }

    fn append(&mut self, change: Arc<Change>) {
        let forms = Mutex::default();
        self.changes.push_back(Arc::new(CachedChange { change, forms }));
        if let Some(old) = self.changes.len().checked_sub(ENCODED_CHANGES + 1) {
            self.changes[old].forms.lock().clear();
        }
    }

    /// The history reaches back to the last change that went, not to the compaction: a quiet resource loses nothing by
    /// it, nor do its watchers.
    fn trim(&mut self, dropped: Revision) {
        self.since = self.since.max(dropped);
        while let Some(oldest) = self.changes.front()
            && (self.changes.len() > MAX_CHANGES || oldest.change.revision <= self.since)
        {
            self.since = oldest.change.revision.max(self.since);
            self.changes.pop_front();
        }
        self.begin = self.begin.max(self.since);
    }

    /// After a gap: whoever had not seen it all is told.
    fn begin_anew(&mut self) {
        self.changes.clear();
        self.since = self.feed.skip_dropped();
        self.begin = self.since;
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

#[cfg(test)]
mod tests {
    use super::*;
    use watchkeeper_storage::StoreOptions;

    fn store() -> Store {
        Store::memory(StoreOptions::default())
    }

    async fn write(store: &Store, key: &str) -> Revision {
        store.create(key, Bytes::new(), None).await.unwrap()
    }

    /// The revisions of what a watcher is handed, and the position it then has.
    fn after(cache: &WatchCache, position: Revision) -> Result<(Vec<Revision>, Revision), TooOld> {
        let (batch, seen) = cache.after(position)?;
        Ok((batch.iter().map(|cached| cached.change.revision).collect(), seen))
    }

    #[tokio::test]
    async fn a_watcher_is_handed_what_is_new_to_it_once() {
        let store = store();
        let before = write(&store, "/a/0").await;
        let cache = WatchCache::open(&store, "/a/").unwrap();
        assert_eq!(after(&cache, before), Ok((vec![], before)));
        let mut signal = cache.signal();
        signal.reset();
        let first = write(&store, "/a/1").await;
        signal.changed().await.unwrap();
        let other = write(&store, "/b/1").await;
        // What happens to others moves the position as well.
        assert_eq!(after(&cache, before), Ok((vec![first], other)));
        assert_eq!(after(&cache, other), Ok((vec![], other)));
    }

    #[tokio::test]
    async fn a_batch_has_its_limit_and_nothing_is_left_out() {
        let store = store();
        let cache = WatchCache::open(&store, "/a/").unwrap();
        let mut position = store.current_revision();
        for number in 0..=MAX_BATCH {
            write(&store, &format!("/a/{number}")).await;
        }
        let mut counts = Vec::new();
        for _ in 0..3 {
            let (batch, seen) = after(&cache, position).unwrap();
            counts.push(batch.len());
            position = seen;
        }
        assert_eq!(
            (counts, position),
            (vec![MAX_BATCH, 1, 0], store.current_revision())
        );
    }

    #[tokio::test]
    async fn only_what_was_dropped_is_too_old() {
        let store = store();
        let cache = WatchCache::open(&store, "/a/").unwrap();
        let first = write(&store, "/a/1").await;
        let second = write(&store, "/a/2").await;
        let other = write(&store, "/b/1").await;
        assert_eq!(after(&cache, first), Ok((vec![second], other)));
        store.compact(first).await.unwrap();
        assert_eq!(after(&cache, Revision::ZERO), Err(TooOld));
        assert_eq!(after(&cache, first), Ok((vec![second], other)));
        store.compact(other).await.unwrap();
        assert_eq!(after(&cache, first), Err(TooOld));
        // It went with the change before it, not with the one of others.
        assert_eq!(after(&cache, second), Ok((vec![], other)));
    }

    #[tokio::test]
    async fn after_a_gap_whoever_has_not_seen_it_all_is_told() {
        let store = store();
        let before = write(&store, "/a/0").await;
        let cache = WatchCache::open(&store, "/a/").unwrap();
        let missed = write(&store, "/a/1").await;
        store.compact(missed).await.unwrap();
        let next = write(&store, "/a/2").await;
        assert_eq!(after(&cache, before), Err(TooOld));
        assert_eq!(after(&cache, missed), Ok((vec![next], next)));
    }

    #[tokio::test]
    async fn what_goes_with_the_last_watcher_is_there_for_the_next() {
        let store = store();
        let cache = Arc::new(WatchCache::open(&store, "/a/").unwrap());
        let (first, second) = (cache.clone().enter(), cache.clone().enter());
        let before = store.current_revision();
        let change = write(&store, "/a/1").await;
        assert_eq!(after(&first, before), Ok((vec![change], change)));
        drop(first);
        assert_eq!(cache.history.lock().changes.len(), 1);
        drop(second);
        assert_eq!(cache.history.lock().changes.len(), 0);
        assert_eq!(after(&cache, before), Ok((vec![change], change)));
    }

    #[tokio::test]
    async fn the_history_begins_with_who_watches_and_goes_back_for_who_needs_it() {
        let store = store();
        let cache = Arc::new(WatchCache::open(&store, "/a/").unwrap());
        let first = write(&store, "/a/1").await;
        let second = write(&store, "/a/2").await;
        let watcher = cache.enter();
        assert_eq!(after(&watcher, second), Ok((vec![], second)));
        let third = write(&store, "/a/3").await;
        assert_eq!(after(&watcher, second), Ok((vec![third], third)));
        assert_eq!(watcher.history.lock().changes.len(), 1);
        // Somebody resumes.
        assert_eq!(watcher.since(first), Revision::ZERO);
        assert_eq!(after(&watcher, first), Ok((vec![second, third], third)));
        assert_eq!(after(&watcher, second), Ok((vec![third], third)));
        // What the history has not taken in can be forgotten as well.
        store.compact(second).await.unwrap();
        assert_eq!(after(&watcher, first), Err(TooOld));
        assert_eq!(watcher.since(second), second);
    }

    #[tokio::test]
    async fn what_is_forgotten_before_the_history_begins_is_too_old() {
        let store = store();
        let cache = Arc::new(WatchCache::open(&store, "/a/").unwrap());
        let first = write(&store, "/a/1").await;
        let second = write(&store, "/a/2").await;
        let third = write(&store, "/a/3").await;
        let watcher = cache.enter();
        assert_eq!(after(&watcher, third), Ok((vec![], third)));
        store.compact(second).await.unwrap();
        assert_eq!(watcher.since(first), second);
        assert_eq!(after(&watcher, first), Err(TooOld));
        assert_eq!(after(&watcher, second), Ok((vec![third], third)));
    }

    #[tokio::test]
    async fn whoever_comes_back_has_missed_nothing_of_a_quiet_resource() {
        let store = store();
        let quiet = write(&store, "/a/0").await;
        store.compact(quiet).await.unwrap();
        let cache = Arc::new(WatchCache::open(&store, "/a/").unwrap());
        drop(cache.clone().enter());
        let other = write(&store, "/b/1").await;
        store.compact(other).await.unwrap();
        assert_eq!(after(&cache, quiet), Ok((vec![], other)));
        let change = write(&store, "/a/1").await;
        store.compact(change).await.unwrap();
        assert_eq!(after(&cache, quiet), Err(TooOld));
    }
}
