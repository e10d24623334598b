//! The watch cache: one history per resource, shared by its watches.
//!
//! The first watch to look after a change moves it from the store's feed into the history; no task is needed for
//! that. A watch is a position in the history, not a queue, so a slow one costs nothing and delays nobody. A
//! watch whose next change was dropped gets [`TooOld`]: its stream ends, and the client resumes from its version.
//!
//! The history starts with the first watch and is dropped with the last one. A watch with an older version makes
//! it read back from the store, which keeps all changes until they are compacted. Only a compacted change of this
//! resource makes a version too old.
//!
//! An event is encoded at most once per form (encoding, event type), shared by all watches that need that form.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use watchkeeper_storage::{Change, Feed, ReadError, Revision, Signal, Store};

/// The limit on changes per resource. A watch further behind must list again.
pub(crate) const MAX_CHANGES: usize = 100_000;

/// The limit on changes returned at once.
pub(crate) const MAX_BATCH: usize = 256;

/// The number of newest changes whose encoded forms are kept. Watches usually are within this distance; others
/// encode for themselves.
const ENCODED_CHANGES: usize = 1_024;

/// The history of one resource.
pub(crate) struct WatchCache {
    history: Mutex<History>,
    signal: Signal,
}

/// A registered watch. The history is kept until the last one is dropped.
pub(crate) struct CacheReader(Arc<WatchCache>);

impl CacheReader {
    /// True if there are other watches, which may share encoded events. Approximate: a watch that arrives or
    /// leaves concurrently only costs a duplicate encoding or an unused cache entry.
    pub(crate) fn has_other_watches(&self) -> bool {
        // One reference is the registry's.
        Arc::strong_count(&self.0) > 2
    }
}

impl Deref for CacheReader {
    type Target = WatchCache;

    fn deref(&self) -> &WatchCache {
        &self.0
    }
}

impl Drop for CacheReader {
    fn drop(&mut self) {
        self.0.history.lock().leave();
    }
}

struct History {
    watchers: usize,
    /// Delivers the changes that are not in the history yet.
    feed: Feed,
    /// The changes after `begin`, up to the position of the feed.
    changes: VecDeque<Arc<CachedChange>>,
    begin: Revision,
    /// The history can be extended back to this revision: all later changes are here or in the store.
    since: Revision,
}

/// A change and its encoded forms.
pub(crate) struct CachedChange {
    pub(crate) change: Arc<Change>,
    forms: Mutex<HashMap<Form, Bytes>>,
}

/// The number of everything an encoded change depends on besides the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form(pub(crate) u16);

/// The history no longer reaches back to a watch's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld;

impl CachedChange {
    /// The change in one form, encoded by the first caller.
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

    /// Registers a watch.
    pub(crate) fn enter(self: Arc<Self>) -> CacheReader {
        self.history.lock().enter();
        CacheReader(self)
    }

    /// The changes after a revision, oldest first, and the watch's new position. Empty if the watch is up to
    /// date.
    pub(crate) fn after(&self, position: Revision) -> Result<(Vec<Arc<CachedChange>>, Revision), TooOld> {
        let mut history = self.history.lock();
        history.reach(position);
        if position < history.since {
            return Err(TooOld);
        }
        let changes = &history.changes;
        let first = history.seen(position);
        let mut batch: Vec<_> = changes.range(first..).take(MAX_BATCH).cloned().collect();
        // Changes of one revision, of which a shared store may have several, stay together: they have one position.
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

    /// The signal of new changes.
    pub(crate) fn signal(&self) -> Signal {
        self.signal.clone()
    }

    /// Extends the history back to a revision, as far as possible. Returns the revision after which it has every
    /// change, which may be later.
    pub(crate) fn since(&self, position: Revision) -> Revision {
        let mut history = self.history.lock();
        history.reach(position);
        history.since
    }
}

impl History {
    /// The number of changes up to a revision. Nearly every watch has seen all, or all but the last.
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

    /// Fetches new changes, and older ones if the watch's position requires them.
    fn reach(&mut self, position: Revision) {
        if position < self.begin && self.since < self.begin {
            // As far back as possible: the next watch may have an even older version.
            self.changes.clear();
            self.begin = self.since;
            self.feed.go_back(self.since);
        }
        self.catch_up();
    }

    /// Fetches new changes, then drops compacted ones.
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

    /// The history reaches back to the last dropped change, not to the compaction: watches of a quiet resource lose
    /// nothing.
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

    /// Restarts after a gap: watches behind it are too old.
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
            // Compacted between the two calls.
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

    /// The revisions returned to a watch, and its new position.
    fn after(cache: &WatchCache, position: Revision) -> Result<(Vec<Revision>, Revision), TooOld> {
        let (batch, seen) = cache.after(position)?;
        Ok((batch.iter().map(|cached| cached.change.revision).collect(), seen))
    }

    #[tokio::test]
    async fn a_watcher_receives_each_change_once() {
        let store = store();
        let before = write(&store, "/a/0").await;
        let cache = WatchCache::open(&store, "/a/").unwrap();
        assert_eq!(after(&cache, before), Ok((vec![], before)));
        let mut signal = cache.signal();
        signal.reset();
        let first = write(&store, "/a/1").await;
        signal.changed().await.unwrap();
        let other = write(&store, "/b/1").await;
        // Changes of other resources advance the position, too.
        assert_eq!(after(&cache, before), Ok((vec![first], other)));
        assert_eq!(after(&cache, other), Ok((vec![], other)));
    }

    #[tokio::test]
    async fn batches_are_limited_and_complete() {
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
    async fn a_position_is_too_old_only_if_a_change_was_dropped() {
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
        // Dropped with the change before it, not with that of another resource.
        assert_eq!(after(&cache, second), Ok((vec![], other)));
    }

    #[tokio::test]
    async fn after_a_gap_earlier_positions_are_too_old() {
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
    async fn history_dropped_with_the_last_watcher_is_read_again() {
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
    async fn the_history_starts_with_the_first_watcher_and_extends_back_on_demand() {
        let store = store();
        let cache = Arc::new(WatchCache::open(&store, "/a/").unwrap());
        let first = write(&store, "/a/1").await;
        let second = write(&store, "/a/2").await;
        let watcher = cache.enter();
        assert_eq!(after(&watcher, second), Ok((vec![], second)));
        let third = write(&store, "/a/3").await;
        assert_eq!(after(&watcher, second), Ok((vec![third], third)));
        assert_eq!(watcher.history.lock().changes.len(), 1);
        // A watch resumes.
        assert_eq!(watcher.since(first), Revision::ZERO);
        assert_eq!(after(&watcher, first), Ok((vec![second, third], third)));
        assert_eq!(after(&watcher, second), Ok((vec![third], third)));
        // Changes that are not in the history can be compacted, too.
        store.compact(second).await.unwrap();
        assert_eq!(after(&watcher, first), Err(TooOld));
        assert_eq!(watcher.since(second), second);
    }

    #[tokio::test]
    async fn positions_before_a_compaction_are_too_old_for_a_new_history() {
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
    async fn a_watcher_of_a_quiet_resource_resumes_after_a_compaction() {
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
