//! The store: the known objects of a resource, for one writer and any number of readers.
//!
//! It takes [`watcher::Event`](crate::watcher::Event)s and produces [`Delta`]s for subscribers and [`Snapshot`]s for
//! readers. A reader gets the current snapshot with two atomic operations, keeps it as long as it likes and sees one
//! state; readers and the writer never wait for each other. The writer changes its own copy and publishes it.
//!
//! The first list becomes the store while it arrives. A later one is compared with the store: unchanged objects stay
//! and produce no delta, missing ones become deletes with their last known state. A list becomes visible only when it
//! is complete.
//!
//! Objects are in numbered slots; the key order, the hash table of keys and the indexes refer to them by number. All
//! of these are persistent trees or chunked arrays, copied on change: an update copies the path to one slot and
//! nothing else. The program `store_reads` of `watchkeeper-bench-parts` compares it with a hash map behind a lock.
//!
//! A typed store returns structs: [`Store<K>`] is [`Store::typed`] of any store, and the store of an informer of that
//! kind.
//!
//! ```
//! # use watchkeeper_wire::{Object, ObjectOptions};
//! use watchkeeper_runtime::store;
//! use watchkeeper_runtime::watcher::Event;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, mut writer) = store::new(); // an informer has both and feeds the writer by itself
//! store.add_index("node", |pod| pod.label("node").into_iter().map(Into::into).collect())?;
//! let pod = |node: &str| {
//!     let text = format!(r#"{{"metadata":{{"namespace":"a","name":"x","labels":{{"node":"{node}"}}}}}}"#);
//!     Object::from_json(text.as_bytes(), &ObjectOptions::default())
//! };
//! let mut deltas = Vec::new();
//! writer.apply(0, Event::Modified(pod("one")?), &mut deltas);
//! writer.publish();
//!
//! let before = store.snapshot();
//! writer.apply(0, Event::Deleted(pod("one")?), &mut deltas);
//! writer.publish();
//! assert_eq!(before.by_index("node", "one")?.count(), 1, "a snapshot stays as it was");
//! assert_eq!(store.get_by_key("a/x")?, None);
//! assert_eq!(deltas.len(), 2, "added and deleted");
//! # Ok(())
//! # }
//! ```

mod chunks;
mod first_list;
mod index;
mod order;
mod relist;
mod slots;
mod snapshot;
mod table;

use std::any::TypeId;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use watchkeeper_client::ResourceType;
use watchkeeper_meta::{LabelSelector, ObjectKey, ResourceVersion};
use watchkeeper_wire::Object;

use self::first_list::FirstList;
use self::order::KeyRef;
use self::relist::Relist;
use crate::decoded::{Decoded, Undecodable};
use crate::delta::{Cause, Delta};
use crate::view::{LastRead, Untyped, View};
use crate::watcher::Event;

pub use index::{IndexExistsError, IndexFn, NAMESPACE_INDEX, UnknownIndexError};
pub use snapshot::Snapshot;
pub(crate) use snapshot::Walk;

/// Changes each object once before it is stored, and the last state of a deleted one; subscribers see only the
/// result. It must keep the object's name, namespace, uid and version.
pub type Transform = Arc<dyn Fn(Object) -> Object + Send + Sync>;

/// A reader of a store. Clones are cheap and read the same store.
///
/// `Store` returns [`Object`]s, `Store<Pod>` returns `Arc<Pod>`s, which are decoded once, when first read, and
/// shared.
pub struct Store<K: View = Untyped> {
    shared: Arc<Shared>,
    kept: K::Kept,
}

/// The writer of a store. Its changes become visible with [`Writer::publish`].
pub struct Writer {
    shared: Arc<Shared>,
    sources: Vec<Part>,
    transform: Option<Transform>,
    /// The previous snapshot, until the next one is published. It keeps a reader with a brief look from being the
    /// last holder: freeing a snapshot takes long and may wait for the writer.
    shown_before: Option<Arc<Snapshot>>,
}

/// Text that is not `namespace/name` or `name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected key format: {text:?}")]
pub struct InvalidKeyError {
    /// The text given.
    pub text: String,
}

/// The store is no longer fed because its informer has ended; what is waited for will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is no longer fed")]
pub struct StoreEndedError;

/// The store did not reach a version in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is at version {:?}, not at {:?}{}", reached.as_str(), wanted.as_str(), if *ended { ", and no longer fed" } else { "" })]
pub struct NotReachedError {
    /// The version waited for.
    pub wanted: ResourceVersion,
    /// The version of the store at the timeout.
    pub reached: ResourceVersion,
    /// True if the store is no longer fed.
    pub ended: bool,
}

#[derive(Debug)]
struct Shared {
    current: ArcSwap<Snapshot>,
    /// The next snapshot. Only the writer and callers that add an index lock this.
    next: Mutex<Snapshot>,
    published: Notify,
    /// True if the writer was dropped.
    ended: AtomicBool,
    /// The decoded structs, by type.
    decoded: Mutex<Vec<(TypeId, Arc<Decoded>)>>,
}

/// The part of the store one watcher feeds: everything, or one namespace.
#[derive(Debug, Default)]
struct Part {
    namespace: Option<String>,
    version: ResourceVersion,
    list: Option<List>,
}

/// A list in progress.
#[derive(Debug)]
enum List {
    /// The store is empty: there is nothing to compare with.
    First(FirstList),
    Again(Relist),
}

/// A new store, fed by one watcher.
pub fn new() -> (Store, Writer) {
    with_parts(vec![Part::default()])
}

/// A new store, fed by one watcher per namespace, in this order. An empty name means all.
pub fn for_namespaces(namespaces: &[String]) -> (Store, Writer) {
    let part = |namespace: &String| Part {
        namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
        ..Default::default()
    };
    with_parts(namespaces.iter().map(part).collect())
}

fn with_parts(sources: Vec<Part>) -> (Store, Writer) {
    let shared = Arc::new(Shared {
        current: ArcSwap::default(),
        next: Mutex::default(),
        published: Notify::new(),
        ended: AtomicBool::new(false),
        decoded: Mutex::default(),
    });
    let store = Store {
        shared: shared.clone(),
        kept: (),
    };
    let writer = Writer {
        shared,
        sources,
        transform: None,
        shown_before: None,
    };
    (store, writer)
}

impl Store {
    /// The same store with its objects decoded as a kind.
    pub fn typed<K: View>(&self) -> Store<K> {
        Store {
            shared: self.shared.clone(),
            kept: K::kept(self),
        }
    }

    /// The decoded structs of a type, shared by all readers.
    pub(crate) fn decoded_as(&self, kind: TypeId) -> Arc<Decoded> {
        let mut decoded = self.shared.decoded.lock();
        if let Some((_, known)) = decoded.iter().find(|(known, _)| *known == kind) {
            return known.clone();
        }
        let new = Arc::<Decoded>::default();
        decoded.push((kind, new.clone()));
        new
    }

    /// The number of versions that did not decode, over all types.
    pub(crate) fn decode_failures(&self) -> u64 {
        let decoded = self.shared.decoded.lock();
        decoded.iter().map(|(_, decoded)| decoded.failures()).sum()
    }
}

/// Reading. Objects that do not decode are left out; [`Store::undecodable`] names them.
impl<K: View> Store<K> {
    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<K::Handle> {
        self.find(key.namespace(), key.name())
    }

    /// One object by namespace (empty for cluster scope) and name.
    pub fn find(&self, namespace: &str, name: &str) -> Option<K::Handle> {
        let current = self.shared.current.load();
        K::read(&self.kept, current.find(namespace, name)?, Some(&current))
    }

    /// One object by `namespace/name` or `name`.
    pub fn get_by_key(&self, key: &str) -> Result<Option<K::Handle>, InvalidKeyError> {
        let key = ObjectKey::parse(key).ok_or_else(|| InvalidKeyError { text: key.to_owned() })?;
        Ok(self.get(&key))
    }

    /// All objects, sorted by key.
    pub fn list(&self) -> Vec<K::Handle> {
        let state = self.snapshot();
        self.read_all(&state, state.iter())
    }

    /// The objects of one namespace, sorted by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<K::Handle> {
        let state = self.snapshot();
        self.read_all(&state, state.in_namespace(namespace))
    }

    /// The objects that match a label selector. Reads the labels of every object; an index does not.
    pub fn select(&self, selector: &LabelSelector) -> Vec<K::Handle> {
        let state = self.snapshot();
        self.read_all(&state, state.select(selector))
    }

    /// The objects with a value in an index, sorted by key.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<K::Handle>, UnknownIndexError> {
        let state = self.snapshot();
        Ok(self.read_all(&state, state.by_index(index, value)?))
    }

    fn read_all<'a>(&self, state: &Snapshot, objects: impl Iterator<Item = &'a Object>) -> Vec<K::Handle> {
        let read = |object| K::read(&self.kept, object, Some(state));
        objects.filter_map(read).collect()
    }

    /// Adds an index over existing and future objects. `function` returns the values of an object, and must return
    /// the same values for the same object.
    pub fn add_index(
        &self,
        name: &str,
        function: impl Fn(&K::Handle) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), IndexExistsError> {
        let kept = self.kept.clone();
        self.add_index_fn(
            name,
            Arc::new(move |object| {
                let read = K::read(&kept, object, None);
                read.map_or_else(Vec::new, |object| function(&object))
            }),
        )
    }

    /// The same store with its objects undecoded.
    pub fn untyped(&self) -> Store {
        Store {
            shared: self.shared.clone(),
            kept: (),
        }
    }

    /// The current snapshot: one state for several reads, with undecoded objects.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.current.load_full()
    }

    pub(crate) fn add_index_fn(&self, name: &str, function: IndexFn) -> Result<(), IndexExistsError> {
        let mut next = self.shared.next.lock();
        if next.index_names().any(|taken| taken == name) {
            return Err(IndexExistsError {
                name: name.to_owned(),
            });
        }
        // The writer may have unpublished changes: the index is built over both states.
        let mut current = Snapshot::clone(&self.shared.current.load());
        next.add_index(name, function.clone());
        current.add_index(name, function);
        self.shared.current.store(Arc::new(current));
        Ok(())
    }

    pub(crate) fn read(&self, object: &Object) -> Option<K::Handle> {
        K::read(&self.kept, object, None)
    }

    pub(crate) fn translate(&self, delta: Delta, last: &mut LastRead<K>) -> Option<Delta<K::Handle>> {
        K::translate(&self.kept, delta, last)
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) -> Result<Arc<Snapshot>, StoreEndedError> {
        self.wait_until(Snapshot::is_synced).await
    }

    /// Waits until the store has every change up to a version, and returns that state. With the version a write
    /// returned, this reads your own writes. Versions without an order must match exactly.
    ///
    /// The wait is limited, because the version may never arrive: a write of an object that is not selected produces
    /// no event, the store learns of its version only with the next change or bookmark, which may be a minute away,
    /// and a watch may be stalled. The error has the version of the store.
    pub async fn wait_for(
        &self,
        version: &ResourceVersion,
        within: Duration,
    ) -> Result<Arc<Snapshot>, NotReachedError> {
        let reached = self.wait_until(|snapshot| reaches(snapshot.version(), version));
        let ended = match tokio::time::timeout(within, reached).await {
            Ok(Ok(snapshot)) => return Ok(snapshot),
            Ok(Err(StoreEndedError)) => true,
            Err(_) => false,
        };
        Err(NotReachedError {
            wanted: version.clone(),
            reached: self.snapshot().version().clone(),
            ended,
        })
    }

    /// Waits until a snapshot meets a condition. Fails if the store is no longer fed and its last snapshot does not.
    pub async fn wait_until(
        &self,
        condition: impl Fn(&Snapshot) -> bool,
    ) -> Result<Arc<Snapshot>, StoreEndedError> {
        loop {
            let published = self.shared.published.notified();
            tokio::pin!(published);
            published.as_mut().enable();
            // Read before the snapshot: if it is set, the snapshot is the last one.
            let ended = self.shared.ended.load(atomic::Ordering::Acquire);
            let snapshot = self.snapshot();
            if condition(&snapshot) {
                return Ok(snapshot);
            }
            if ended {
                return Err(StoreEndedError);
            }
            published.await;
        }
    }
}

/// Decoding failures.
impl<K: ResourceType> Store<K> {
    /// The objects in the store that were read and do not decode. Each was logged once.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.kept.undecodable(&self.snapshot())
    }

    /// The cache of decoded structs.
    pub fn decoded(&self) -> &Decoded {
        &self.kept
    }
}

impl<K: View> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            kept: self.kept.clone(),
        }
    }
}

impl Writer {
    /// A reader of the same store.
    pub fn reader(&self) -> Store {
        Store {
            shared: self.shared.clone(),
            kept: (),
        }
    }

    /// The number of watchers that feed this store.
    pub fn parts(&self) -> usize {
        self.sources.len()
    }

    /// The namespace of a watcher; `None` for all.
    pub fn namespace(&self, part: usize) -> Option<&str> {
        self.sources[part].namespace.as_deref()
    }

    /// Sets the transform of all objects stored from now on.
    pub fn set_transform(&mut self, transform: Transform) {
        self.transform = Some(transform);
    }

    /// Applies one event of a watcher. Its changes are appended to `deltas`.
    pub fn apply(&mut self, part: usize, event: Event<Object>, deltas: &mut Vec<Delta>) {
        let mut next = self.shared.next.lock();
        let is_only = self.sources.len() == 1;
        let source = &mut self.sources[part];
        match (event, &mut source.list) {
            (Event::Init, list) => *list = Some(List::begin(&next, is_only)),
            (Event::InitApply(object), Some(list)) => list.add(object, &next, self.transform.as_ref()),
            (Event::Deleted(object), Some(list)) => list.remove(object),
            (Event::InitDone(version), list) => {
                let first = source.version.is_unset();
                let cause = if first { Cause::Initial } else { Cause::Relist };
                let list = list.take().unwrap_or_else(|| List::begin(&next, is_only));
                list.finish(&mut next, source.namespace.as_deref(), cause, deltas);
                source.version = version;
            }
            (Event::Added(object) | Event::Modified(object) | Event::InitApply(object), _) => {
                source.reach(object.version());
                let object = transformed(object, self.transform.as_ref());
                deltas.extend(put(&mut next, object));
            }
            (Event::Deleted(object), None) => {
                source.reach(object.version());
                let known = next.take(KeyRef::of(&object));
                deltas.extend(known.map(|old| Delta::Deleted {
                    old,
                    last: transformed(object, self.transform.as_ref()),
                    final_state: true,
                    cause: Cause::Watch,
                }));
            }
            (Event::Progress(version), _) => source.reach(version),
        }
    }

    /// A watcher received an object that cannot be decoded; `key` is `None` if not even the key could be read. Its
    /// last known state stays, even if it is missing from a list.
    pub fn unread(&mut self, part: usize, key: Option<ObjectKey>) {
        if let Some(list) = &mut self.sources[part].list {
            list.unread(key, &self.shared.next.lock());
        }
    }

    /// Makes the changes since the last call visible.
    pub fn publish(&mut self) {
        let mut next = self.shared.next.lock();
        next.synced = self.sources.iter().all(|source| !source.version.is_unset());
        if next.synced {
            next.version = self.oldest_version();
        }
        next.generation += 1;
        let before = self.shared.current.swap(Arc::new(next.clone()));
        drop(next);
        self.shown_before = Some(before);
        self.shared.published.notify_waiters();
    }

    fn oldest_version(&self) -> ResourceVersion {
        let versions = self.sources.iter().map(|source| &source.version);
        let oldest = versions.reduce(|a, b| {
            if a.compare(b) == Some(Ordering::Greater) {
                b
            } else {
                a
            }
        });
        oldest.cloned().unwrap_or_default()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.ended.store(true, atomic::Ordering::Release);
        self.shared.published.notify_waiters();
    }
}

impl Part {
    /// Moves to a version; events without one are ignored.
    fn reach(&mut self, version: ResourceVersion) {
        if !version.is_unset() {
            self.version = version;
        }
    }
}

impl List {
    /// `is_only`: no other watcher changes the store before the list is complete.
    fn begin(store: &Snapshot, is_only: bool) -> Self {
        match is_only && store.is_empty() {
            true => Self::First(FirstList::new(store)),
            false => Self::Again(Relist::default()),
        }
    }

    /// Adds an object, transformed unless the store already has this version.
    fn add(&mut self, object: Object, store: &Snapshot, transform: Option<&Transform>) {
        match self {
            Self::First(list) => list.add(transformed(object, transform)),
            Self::Again(list) => list.add(object, store, transform),
        }
    }

    /// An object that was listed and deleted before the list was complete.
    fn remove(&mut self, object: Object) {
        match self {
            Self::First(list) => list.remove(&object),
            Self::Again(list) => list.remove(object),
        }
    }

    /// An object that was listed and cannot be decoded.
    fn unread(&mut self, key: Option<ObjectKey>, store: &Snapshot) {
        let relist = match self {
            Self::First(list) => list.to_relist(store),
            Self::Again(list) => std::mem::take(list),
        };
        *self = Self::Again(relist.and_unread(key));
    }

    /// Applies the complete list to the store.
    fn finish(self, next: &mut Snapshot, namespace: Option<&str>, cause: Cause, deltas: &mut Vec<Delta>) {
        let relist = match self {
            Self::First(list) if next.is_empty() => return list.become_store(next, cause, deltas),
            Self::First(list) => list.to_relist(next),
            Self::Again(list) => list,
        };
        let changes = relist.finish(next, namespace, cause);
        changes.iter().for_each(|delta| follow(next, delta));
        deltas.extend(changes);
    }
}

fn transformed(object: Object, transform: Option<&Transform>) -> Object {
    match transform {
        Some(transform) => transform(object),
        None => object,
    }
}

/// Stores an added or modified object; returns no delta if the store already has it.
fn put(next: &mut Snapshot, object: Object) -> Option<Delta> {
    let cause = Cause::Watch;
    match next.put(object.clone()) {
        None => Some(Delta::Added { object, cause }),
        Some(old) if old.is_same_version(&object) => None,
        Some(old) => Some(Delta::Updated {
            old,
            new: object,
            cause,
        }),
    }
}

/// Applies a delta to a store.
fn follow(next: &mut Snapshot, delta: &Delta) {
    match delta {
        Delta::Added { object, .. } => next.put(object.clone()),
        Delta::Updated { new, .. } => next.put(new.clone()),
        Delta::Deleted { last, .. } => next.take(KeyRef::of(last)),
    };
}

fn reaches(version: &ResourceVersion, wanted: &ResourceVersion) -> bool {
    match version.compare(wanted) {
        Some(order) => order != Ordering::Less,
        None => version == wanted,
    }
}

impl<K: View> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("objects", &self.snapshot().len())
            .field("kept", &self.kept)
            .finish()
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("parts", &self.sources)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
