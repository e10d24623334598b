//! One watch: the events of selected objects since a version.
//!
//! A watch is a position in its resource's [history](crate::watch_cache). The event of a change depends on the
//! selectors: an object that starts to match is ADDED; one that no longer matches is DELETED, with its last matching
//! state and the version of the change.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Sleep};
use watchkeeper_meta::{Status, WatchEventKind, WatchOptions};
use watchkeeper_storage::{Change, KeyValue, Revision, Signal, Value};

use crate::definition::Definition;
use crate::object::StoredObject;
use crate::read_version::{self, ListState};
use crate::reader::Reader;
use crate::selection::Selection;
use crate::watch_cache::{CacheReader, CachedChange, Form, MAX_BATCH, TooOld};

/// The interval of bookmarks: a minute, as in Kubernetes.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// The last bookmark is sent this long before a watch's deadline.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The shortest default timeout; the longest is twice this, as in Kubernetes. Streams end now and then, so that load
/// spreads over servers.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The longest timeout: a year. Longer values would overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One open watch.
pub struct Watch {
    definition: Arc<Definition>,
    selection: Selection,
    prefix: String,
    cache: CacheReader,
    signal: Signal,
    /// Reports that a custom kind is no longer served. `None` for built-in kinds.
    is_retired: Option<Receiver<bool>>,
    /// Everything up to this revision was delivered.
    position: Revision,
    /// The history had no more than was fetched. It has, unless the signal has changed since.
    has_all: bool,
    /// Initial objects, not yet delivered.
    initial: VecDeque<KeyValue>,
    /// Changes from the history, not yet delivered.
    ready: VecDeque<Arc<CachedChange>>,
    /// The state of webhook conversion.
    converting: Option<Converting>,
    bookmarks: Option<Bookmarks>,
    deadline: Instant,
    /// The timer of the next deadline or bookmark. It is reused between changes: resetting a timer costs more than
    /// reading the history.
    alarm: Pin<Box<Sleep>>,
    state: State,
}

/// Changes being converted to the watched version.
struct Converting {
    reader: Reader,
    /// Converted changes, not yet delivered.
    ready: VecDeque<(Arc<CachedChange>, States)>,
}

/// The schedule of bookmarks.
struct Bookmarks {
    next: Instant,
    /// The version of the last bookmark, or of the start.
    last: Revision,
    /// The bookmark that ends the initial events is still to be sent.
    announce_end: bool,
    /// The time of the last bookmark before the deadline, until it is sent.
    final_at: Option<Instant>,
}

enum State {
    Open,
    /// Delivers one more item, then ends.
    Failing(Status),
    Ended,
}

/// An item of a watch.
#[derive(Clone)]
pub enum WatchItem {
    /// A change of an object.
    Event(Event),
    /// There are no further events up to this version.
    Bookmark {
        /// The version.
        revision: Revision,
        /// True for the bookmark that ends the initial events.
        initial_events_end: bool,
    },
    /// The watch failed; this is its last item.
    Error(Status),
}

/// A change of an object.
#[derive(Clone)]
pub struct Event {
    /// The event type for this watch.
    pub kind: WatchEventKind,
    /// The object, with the version of the event.
    pub object: StoredObject,
    /// The cache of encoded forms, if other watches may need them.
    change: Option<Arc<CachedChange>>,
}

impl Event {
    /// The event in one form, encoded by the first watch that needs it. `form` is a number for everything the
    /// encoding depends on besides the event.
    pub fn encoded(&self, form: u8, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        match &self.change {
            None => encode(self),
            Some(change) => {
                let form = Form(u16::from(form) << 2 | self.kind as u16 & 3);
                change.form(form, |_| encode(self))
            }
        }
    }
}

impl Reader {
    /// Opens a watch on the objects of a namespace, or of all if `namespace` is empty.
    ///
    /// An invalid request is an error here; an error of the store is the watch's first and last item, as in
    /// Kubernetes.
    pub async fn watch(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        options: &WatchOptions,
    ) -> Result<Watch, Status> {
        let selection = Selection::checked(self, definition, options)?;
        let version = read_version::parse(&options.resource_version).map_err(Status::unclassified)?;
        let starts_fresh = version == Revision::ZERO;
        let cache = self.watch_cache(definition)?;
        let now = Instant::now();
        let timeout = match options.timeout_seconds {
            // Zero is what a negative one becomes: the watch ends at once.
            Some(seconds) => Duration::from_secs(seconds).min(MAX_TIMEOUT),
            None => DEFAULT_TIMEOUT.mul_f64(1.0 + fastrand::f64()),
        };
        let deadline = now + timeout;
        let mut watch = Watch {
            definition: definition.clone(),
            selection,
            prefix: definition.prefix(namespace),
            signal: cache.signal(),
            is_retired: definition
                .lifetime
                .as_ref()
                .map(|lifetime| lifetime.is_retired.subscribe()),
            position: version,
            has_all: false,
            initial: VecDeque::new(),
            ready: VecDeque::new(),
            converting: definition.converter.as_ref().map(|_| Converting {
                reader: self.clone(),
                ready: VecDeque::new(),
            }),
            bookmarks: options.allow_bookmarks.then(|| Bookmarks {
                next: now + BOOKMARK_PERIOD,
                last: version,
                announce_end: options.send_initial_events == Some(true),
                final_at: (timeout > LAST_BOOKMARK && options.timeout_seconds.is_some())
                    .then(|| deadline - LAST_BOOKMARK),
            }),
            cache,
            deadline,
            alarm: Box::pin(tokio::time::sleep_until(deadline)),
            state: State::Open,
        };
        let failure = match options.send_initial_events {
            Some(true) => self.begin_with_objects(&mut watch, namespace, version).await,
            None if starts_fresh => self.begin_with_objects(&mut watch, namespace, version).await,
            Some(false) if starts_fresh => {
                self.store().refresh().await.map_err(Status::internal_error)?;
                watch.position = self.store().current_revision();
                Ok(())
            }
            _ => watch.check_start(version),
        };
        if let Err(status) = failure {
            watch.state = State::Failing(status);
        }
        Ok(watch)
    }

    /// Adds the initial events: one for every object.
    fn begin_with_objects<'a>(
        &'a self,
        watch: &'a mut Watch,
        namespace: &'a str,
        not_older_than: Revision,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            read_version::reached(self.store(), not_older_than).await?;
            let (definition, selection) = (&watch.definition, &watch.selection);
            let list = self
                .page(definition, namespace, selection, ListState::Latest, None)
                .await?;
            watch.initial = list.items.into();
            watch.position = list.revision;
            if let Some(bookmarks) = &mut watch.bookmarks {
                bookmarks.last = list.revision;
            }
            Ok(())
        })
    }
}

impl Watch {
    /// The next item; `None` when the watch has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<WatchItem> {
        loop {
            if self.converting.is_some() {
                // Boxed: few watches need a webhook.
                Box::pin(self.convert_ready()).await;
            }
            if let Some(item) = self.next_taken() {
                return Some(item);
            }
            // Checked between batches, so that a busy watch ends as well.
            if matches!(self.state, State::Ended) || Instant::now() >= self.deadline {
                self.state = State::Ended;
                return None;
            }
            // Read before the history, so that the last events of a removed kind are delivered.
            let is_last_look = self.is_retired.as_ref().is_some_and(|it| *it.borrow());
            // A quiet watch looks once per change, not again after it has delivered it.
            let is_quiet = (self.has_all && !is_last_look && !self.signal.has_changed()) || self.is_quiet();
            if is_quiet {
                // Waiting resets the signal.
                self.has_all = false;
                if is_last_look || !self.wait().await {
                    self.state = State::Ended;
                }
            }
        }
    }

    /// The next item that was already fetched with the last one, without reading the history.
    pub fn next_taken(&mut self) -> Option<WatchItem> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return None,
                State::Failing(status) => return Some(WatchItem::Error(status)),
                State::Open => self.state = State::Open,
            }
            if let Some(item) = self.initial.pop_front() {
                return Some(WatchItem::Event(Event {
                    kind: WatchEventKind::Added,
                    object: StoredObject::from(&item),
                    change: None,
                }));
            }
            if let Some(bookmark) = self.due_bookmark() {
                return Some(bookmark);
            }
            // Changes that are not converted yet are delivered later.
            let event = match &mut self.converting {
                None => {
                    let change = self.ready.pop_front()?;
                    self.event(change)
                }
                Some(converting) => {
                    let (change, states) = converting.ready.pop_front()?;
                    self.event_of(states, change)
                }
            };
            match event {
                Ok(Some(event)) => return Some(WatchItem::Event(event)),
                Ok(None) => {}
                Err(status) => self.fail(status),
            }
        }
    }

    /// Ends the watch with this error as its last item.
    pub fn fail(&mut self, status: Status) {
        self.initial = VecDeque::new();
        self.state = State::Failing(status);
    }

    /// Fetches the next changes from the history; true if there are none.
    fn is_quiet(&mut self) -> bool {
        // Reset before reading, so that no signal is lost.
        self.signal.reset();
        match self.cache.after(self.position) {
            Ok((changes, seen)) => {
                self.has_all = changes.len() < MAX_BATCH;
                self.ready.extend(changes);
                self.position = seen;
                self.ready.is_empty()
            }
            // A watch that fell behind ends; the client resumes from its last version and gets 410.
            Err(TooOld) => {
                self.state = State::Ended;
                false
            }
        }
    }

    /// The watched resource.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// The resource, and the initial objects that are not yet delivered.
    pub(crate) fn definition_and_initial(&mut self) -> (&Definition, &mut VecDeque<KeyValue>) {
        (&self.definition, &mut self.initial)
    }

    /// Checks that the history reaches back to the version the watch starts after.
    fn check_start(&self, version: Revision) -> Result<(), Status> {
        let lifetime = self.definition.lifetime.as_ref();
        let begin = lifetime.map_or(Revision::ZERO, |lifetime| lifetime.served_since);
        let since = self.cache.since(version).max(begin);
        if version >= since {
            return Ok(());
        }
        // Kubernetes has no watch cache for events; the error text is that of its store.
        if self.definition.kind.uncached {
            return Err(Status::watch_expired());
        }
        Err(Status::too_old_resource_version(version.get(), since.get()))
    }

    /// Waits for changes or the timer; false if the watch is over.
    async fn wait(&mut self) -> bool {
        let bookmark = self.bookmarks.as_ref().map(Bookmarks::next_due);
        let wake_at = bookmark.map_or(self.deadline, |due| due.min(self.deadline));
        if self.alarm.deadline() != wake_at {
            self.alarm.as_mut().reset(wake_at);
        }
        tokio::select! {
            changed = self.signal.changed() => changed.is_ok(),
            () = retired(&mut self.is_retired), if self.is_retired.is_some() => true,
            () = &mut self.alarm => true,
        }
    }

    fn due_bookmark(&mut self) -> Option<WatchItem> {
        let delivered = self.position;
        let bookmarks = self.bookmarks.as_mut()?;
        if bookmarks.announce_end {
            bookmarks.announce_end = false;
            return Some(WatchItem::Bookmark {
                revision: delivered,
                initial_events_end: true,
            });
        }
        let now = Instant::now();
        let is_behind = self.converting.as_ref().is_some_and(|it| !it.ready.is_empty());
        if is_behind || !self.ready.is_empty() || now < bookmarks.next_due() {
            return None;
        }
        let is_final = bookmarks.final_at.take_if(|due| now >= *due).is_some();
        bookmarks.next = now + BOOKMARK_PERIOD;
        let last = bookmarks.last;
        // Changes of other resources advance a quiet watch, too.
        let revision = match self.is_quiet() {
            true => self.position,
            false => delivered,
        };
        // A bookmark with an unchanged version is skipped, unless the watch is about to end.
        if revision == last && !is_final {
            return None;
        }
        self.bookmarks.as_mut()?.last = revision;
        Some(WatchItem::Bookmark {
            revision,
            initial_events_end: false,
        })
    }

    /// The event of a change for this watch, if any.
    fn event(&self, cached: Arc<CachedChange>) -> Result<Option<Event>, Status> {
        let change: &Change = &cached.change;
        if !change.key.starts_with(&*self.prefix) {
            return Ok(None);
        }
        self.event_of(states(change), cached)
    }

    /// The event of a transition between two states for this watch, if any.
    fn event_of(&self, (old, new): States, cached: Arc<CachedChange>) -> Result<Option<Event>, Status> {
        let selected = |object: Option<StoredObject>| -> Result<Option<StoredObject>, Status> {
            let Some(object) = object else { return Ok(None) };
            let is_selected = self.selection.matches(&self.definition, &object)?;
            Ok(is_selected.then_some(object))
        };
        let (kind, object) = match (selected(old)?, selected(new)?) {
            (None, Some(new)) => (WatchEventKind::Added, new),
            (Some(_), Some(new)) => (WatchEventKind::Modified, new),
            (Some(old), None) => (WatchEventKind::Deleted, old),
            (None, None) => return Ok(None),
        };
        Ok(Some(Event {
            kind,
            object,
            change: self.cache.has_other_watches().then_some(cached),
        }))
    }

    /// Converts the fetched changes to the watched version. Cancel safe.
    async fn convert_ready(&mut self) {
        let prefix = &*self.prefix;
        self.ready.retain(|cached| cached.change.key.starts_with(prefix));
        let Some(converting) = self.converting.as_mut().filter(|_| !self.ready.is_empty()) else {
            return;
        };
        let states: Vec<States> = self.ready.iter().map(|cached| states(&cached.change)).collect();
        let all = states.iter().flat_map(|(old, new)| [old, new]).flatten().cloned();
        let served = converting
            .reader
            .in_served_version(&self.definition, all.collect());
        let mut served = match served.await {
            Ok(served) => served.into_iter(),
            Err(status) => {
                self.ready.clear();
                return self.fail(status);
            }
        };
        for (cached, (old, new)) in self.ready.drain(..).zip(states) {
            let old = old.and_then(|_| served.next());
            let new = new.and_then(|_| served.next());
            converting.ready.push_back((cached, (old, new)));
        }
    }
}

/// The states of an object before and after a change, both with the version of the change.
type States = (Option<StoredObject>, Option<StoredObject>);

fn states(change: &Change) -> States {
    let with_version = |value: &Value| StoredObject {
        bytes: value.bytes(),
        revision: Some(change.revision),
    };
    (
        change.previous.as_ref().map(|(value, _)| with_version(value)),
        change.value.as_ref().map(with_version),
    )
}

/// Waits until a custom kind is no longer served.
async fn retired(is_retired: &mut Option<Receiver<bool>>) {
    match is_retired {
        Some(is_retired) => drop(is_retired.wait_for(|is_retired| *is_retired).await),
        None => std::future::pending().await,
    }
}

impl Bookmarks {
    fn next_due(&self) -> Instant {
        self.final_at.map_or(self.next, |last| last.min(self.next))
    }
}
