//! Several kinds and namespaces in one stream, with a position on disk.
//!
//! Named watchers are merged into one stream of events, in the order they arrive. Asking for the next event
//! acknowledges the last one: only then does the position move. After a restart the stream continues where handling
//! stopped, deletes included; after a crash an event may be delivered again, but none is missed.
//!
//! A position that is too old is reported as a failure (`too old resource version: 1000 (1080816)`), and a new list
//! follows. The position has an inventory of the objects, so the list is delivered as its difference after
//! [`FollowEvent::Restarted`]: exactly what was added, modified and deleted meanwhile.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use watchkeeper_client::DynamicApi;
//! # use watchkeeper_runtime::api_source::ApiSource;
//! use watchkeeper_runtime::follow::{Follow, FollowEvent};
//! use watchkeeper_runtime::position::Position;
//!
//! # async fn run(config_maps: DynamicApi) -> Result<(), Box<dyn std::error::Error>> {
//! let mut follow = Follow::from_position(Position::open("maps.position")?);
//! follow.add("configmaps", Arc::new(ApiSource::new(config_maps)), Default::default());
//! while let Some(next) = follow.next().await? {
//!     match next.what? {
//!         FollowEvent::Added(object) | FollowEvent::Modified(object) => println!("{} is there", object.name()),
//!         FollowEvent::Deleted(gone) => println!("{} is gone", gone.key),
//!         FollowEvent::Synced(_) | FollowEvent::Restarted(_) | FollowEvent::Bookmark(_) => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod ledger;
mod woken;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::poll_fn;
use tokio::time::{Instant, Sleep};
use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_wire::Object;

use self::ledger::Ledger;
use self::woken::{Bell, Woken};
use crate::position::{Held, Position, PositionError, StreamPosition};
use crate::reflector::ObjectSource;
use crate::watcher::{Config, Event, Failure, Watcher};

pub use self::ledger::MAX_WAITING;

/// The shortest interval between writes of the position, because a write waits for the disk. After a crash, the
/// events of the last interval are delivered again.
pub const SAVE_EVERY: Duration = Duration::from_millis(200);

/// Several watchers in one stream. As a [`Stream`](futures_core::Stream) it also yields errors of the position.
#[derive(Debug)]
pub struct Follow {
    streams: Vec<Stream>,
    position: Position,
    /// Events not yet delivered.
    next: VecDeque<Told>,
    /// The event the caller is handling.
    handling: Option<Told>,
    saved: Option<Instant>,
    turn: usize,
    bell: Arc<Bell>,
    /// True if the caller waits for the next event: the one before counts as handled.
    asked: bool,
    quiet: Quiet,
}

/// The time without events.
#[derive(Debug)]
enum Quiet {
    No,
    Since(Pin<Box<Sleep>>),
    /// Long enough; the position was written.
    Noted,
}

impl Quiet {
    /// Ready once, when there was no event for [`SAVE_EVERY`].
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self {
                Self::No => *self = Self::Since(Box::pin(tokio::time::sleep(SAVE_EVERY))),
                Self::Since(until) => {
                    ready!(until.as_mut().poll(cx));
                    *self = Self::Noted;
                    return Poll::Ready(());
                }
                Self::Noted => return Poll::Pending,
            }
        }
    }
}

#[derive(Debug)]
struct Stream {
    name: Arc<str>,
    /// `None` once the stream has ended or was removed.
    watcher: Option<Watcher<ObjectSource>>,
    woken: Arc<Woken>,
    ledger: Ledger,
}

/// An event to deliver.
#[derive(Clone, Debug)]
struct Told {
    /// The index of its stream.
    at: usize,
    what: Result<FollowEvent, Failure>,
    /// The version reached once it was handled; unset within a list.
    version: ResourceVersion,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowEvent {
    /// An object is new.
    Added(Object),
    /// An object has changed.
    Modified(Object),
    /// An object was deleted, or no longer matches.
    Deleted(Gone),
    /// The events so far add up to the state at this version; watch events follow.
    Synced(ResourceVersion),
    /// The version of the stream could not be resumed. The difference of a new list from the inventory follows, ended
    /// by `Synced`.
    Restarted(Restart),
    /// Nothing else happened up to this version.
    Bookmark(ResourceVersion),
}

impl FollowEvent {
    /// Its name: `ADDED`, `MODIFIED`, `DELETED`, `SYNCED`, `RESTARTED` or `BOOKMARK`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Added(_) => "ADDED",
            Self::Modified(_) => "MODIFIED",
            Self::Deleted(_) => "DELETED",
            Self::Synced(_) => "SYNCED",
            Self::Restarted(_) => "RESTARTED",
            Self::Bookmark(_) => "BOOKMARK",
        }
    }

    /// The key of the object; `None` if the event is about the stream.
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Added(object) | Self::Modified(object) => Some(object.key()),
            Self::Deleted(gone) => Some(gone.key.clone()),
            Self::Synced(_) | Self::Restarted(_) | Self::Bookmark(_) => None,
        }
    }
}

/// A deleted object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its key.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Box<str>,
    /// The version of its deletion or, if that was not seen, the last one known.
    pub version: ResourceVersion,
    /// Its last state. `None` if the deletion was not seen but inferred from a list.
    pub last: Option<Object>,
}

/// A stream that starts again with a list because its version expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The expired version; `None` if a list was interrupted before it had one.
    pub from: Option<ResourceVersion>,
    /// The version of the list; `None` if more than [`MAX_WAITING`] objects have changed, so that they are delivered
    /// before the list has ended.
    pub to: Option<ResourceVersion>,
    /// The reason.
    pub reason: String,
    /// False if the inventory is incomplete, as in files of the first format: deletes are then not reported, and
    /// existing objects are reported as added.
    pub knows_deletes: bool,
}

/// An item of one of the streams.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The name of the stream.
    pub stream: Arc<str>,
    /// The event, or a failure that is being retried.
    pub what: Result<FollowEvent, Failure>,
}

impl Follow {
    /// Follows from the beginning, without a position on disk.
    pub fn new() -> Self {
        Self::from_position(Position::in_memory())
    }

    /// Continues each stream at its position.
    pub fn from_position(position: Position) -> Self {
        Self {
            streams: Vec::new(),
            position,
            next: VecDeque::new(),
            handling: None,
            saved: None,
            turn: 0,
            bell: Arc::default(),
            asked: false,
            quiet: Quiet::No,
        }
    }

    /// Adds a stream. Its name identifies it in the position: for example kind, namespace and selectors.
    pub fn add(&mut self, name: &str, source: Arc<ObjectSource>, config: Config) {
        let known = self.position.get(name).map(|known| &known.version);
        let watcher = match known.filter(|version| !version.is_unset()) {
            Some(version) => Watcher::resume_from(source, config, version.clone()),
            None => Watcher::new(source, config),
        };
        self.streams.push(Stream {
            name: name.into(),
            watcher: Some(watcher),
            woken: Woken::new(&self.bell),
            ledger: Ledger::default(),
        });
    }

    /// Ends a stream: its kind is gone, say. What it has told and nobody has asked for is dropped, and its place in the
    /// position as well.
    pub fn remove(&mut self, name: &str) {
        let is_removed = |at: usize| *self.streams[at].name == *name;
        self.next.retain(|told| !is_removed(told.at));
        if self.handling.as_ref().is_some_and(|told| is_removed(told.at)) {
            self.handling = None;
        }
        for stream in self.streams.iter_mut().filter(|stream| *stream.name == *name) {
            // Others are numbered by their places, so the place stays.
            (stream.watcher, stream.ledger) = (None, Ledger::default());
        }
        self.position.forget(name);
    }

    /// The next event of any stream; acknowledges the one before. `None` once every stream has ended.
    ///
    /// Cancel safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Result<Option<Followed>, PositionError> {
        poll_fn(|cx| self.poll_followed(cx)).await.transpose()
    }

    fn poll_followed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Followed, PositionError>>> {
        let polled = self.poll_asked(cx);
        if polled.is_ready() {
            self.asked = false;
        }
        polled
    }

    fn poll_asked(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Followed, PositionError>>> {
        if !std::mem::replace(&mut self.asked, true) {
            self.handled();
            if self.saved.is_none_or(|saved| saved.elapsed() >= SAVE_EVERY) {
                self.save()?;
            }
        }
        loop {
            if let Some(told) = self.next.pop_front() {
                return Poll::Ready(Some(Ok(self.hand_out(told))));
            }
            match self.poll(cx) {
                Poll::Ready(Some((at, received))) => {
                    self.quiet = Quiet::No;
                    self.receive(at, received);
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    ready!(self.quiet.poll(cx));
                    // The last handled event is written before waiting.
                    self.save()?;
                }
            }
        }
    }

    /// True while a list is being delivered. A follower that stops now is sent `Restarted` and the rest of the list
    /// at the next start.
    pub fn is_listing(&self) -> bool {
        !self.next.is_empty() || self.streams.iter().any(|stream| stream.ledger.is_listing())
    }

    /// Writes the position, including the event delivered last.
    pub fn finish(mut self) -> Result<(), PositionError> {
        self.handled();
        self.save()
    }

    fn receive(&mut self, at: usize, received: Result<Event<Object>, Failure>) {
        let stream = &mut self.streams[at];
        let Some(watcher) = &stream.watcher else { return };
        let told = match received {
            Err(failure) => {
                if let Some(object) = failure.unread() {
                    stream.ledger.unread(object.key.as_ref());
                }
                vec![Err(failure)]
            }
            Ok(event) => {
                let unknown = StreamPosition::default();
                let held = self.position.get(&stream.name).unwrap_or(&unknown);
                let told = stream.ledger.note(event, watcher.relist_reason(), held);
                told.into_iter().map(Ok).collect()
            }
        };
        let version = match stream.ledger.is_listing() {
            true => ResourceVersion::unset(),
            false => watcher.version().clone(),
        };
        let Some(last) = told.len().checked_sub(1) else {
            // Not delivered, so it counts as handled.
            self.position.reach(&stream.name, &version);
            return;
        };
        let told = told.into_iter().enumerate().map(|(index, what)| Told {
            at,
            what,
            // Of a list delivered at its end, only the last event reaches its version.
            version: if index == last {
                version.clone()
            } else {
                ResourceVersion::unset()
            },
        });
        self.next.extend(told);
    }

    fn hand_out(&mut self, told: Told) -> Followed {
        let followed = Followed {
            stream: self.streams[told.at].name.clone(),
            what: told.what.clone(),
        };
        self.handling = Some(told);
        followed
    }

    fn handled(&mut self) {
        let Some(Told {
            at,
            what: Ok(event),
            version,
        }) = self.handling.take()
        else {
            return;
        };
        let (stream, position) = (&self.streams[at].name, &mut self.position);
        match &event {
            FollowEvent::Added(object) | FollowEvent::Modified(object) => position.put(stream, object),
            FollowEvent::Deleted(gone) => position.remove(stream, &gone.key),
            FollowEvent::Synced(version) => position.synced(stream, version),
            FollowEvent::Restarted(_) => position.restart(stream),
            FollowEvent::Bookmark(_) => {}
        }
        position.reach(stream, &version);
    }

    fn save(&mut self) -> Result<(), PositionError> {
        self.saved = Some(Instant::now());
        self.position.save()
    }

    /// Polls the streams that were woken, in turns.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>> {
        self.bell.register(context.waker());
        let count = self.streams.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            if let Poll::Ready(Some(what)) = self.streams[at].poll() {
                self.turn = (at + 1) % count;
                return Poll::Ready(Some((at, what)));
            }
        }
        match self.streams.iter().any(|stream| stream.watcher.is_some()) {
            true => Poll::Pending,
            false => Poll::Ready(None),
        }
    }
}

impl Stream {
    /// Pending if it was not woken since it was last pending.
    fn poll(&mut self) -> Poll<Option<Result<Event<Object>, Failure>>> {
        let Some(watcher) = &mut self.watcher else {
            return Poll::Ready(None);
        };
        if !self.woken.take() {
            return Poll::Pending;
        }
        let waker = self.woken.clone().into();
        let polled = watcher.poll_next_event(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(Some(_)) => self.woken.set(),
            Poll::Ready(None) => self.watcher = None,
            Poll::Pending => {}
        }
        polled
    }
}

impl futures_core::Stream for Follow {
    type Item = Result<Followed, PositionError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_followed(cx)
    }
}

/// A watcher's result, with the index of its stream.
type Received = (usize, Result<Event<Object>, Failure>);

impl Gone {
    /// An object whose deletion was seen.
    fn seen(last: Object) -> Self {
        Self {
            key: last.key(),
            uid: last.uid().into(),
            version: last.version(),
            last: Some(last),
        }
    }

    /// An object whose deletion was not seen.
    fn unseen(key: &ObjectKey, held: &Held) -> Self {
        Self {
            key: key.clone(),
            uid: held.uid.clone(),
            version: held.version.clone(),
            last: None,
        }
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
