//! Several kinds and namespaces in one stream, with a position on disk.
//!
//! In flow watchers, each with a name; out flow their events in the order they arrive, with the name. Asking for the
//! next event says that the last one was handled: only then does the position move. After a restart the stream goes
//! on where handling stopped, deletes included; an event may be seen again after a crash, none is missed.
//!
//! A position that is too old is told as a failure (`too old resource version: 1000 (1080816)`), and a fresh list
//! follows. The position knows what was held, so the list is told as its differences, behind
//! [`FollowEvent::Restarted`]: exactly what was added, modified and deleted meanwhile, and nothing for the rest.
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
use crate::position::{Held, Position, PositionError, StreamPosition};
use crate::reflector::ObjectSource;
use crate::watcher::{Config, Event, Failure, Watcher};

pub use self::ledger::MAX_WAITING;

/// The position is written at most this often, because a write waits for the disk. What a crash in between costs is
/// that the events of so long are seen again.
pub const SAVE_EVERY: Duration = Duration::from_millis(200);

/// Several watchers in one stream. As a [`Stream`](futures_core::Stream) it also tells what goes wrong with the position.
#[derive(Debug)]
pub struct Follow {
    streams: Vec<Stream>,
    position: Position,
    /// What is known and was not handed out yet.
    next: VecDeque<Told>,
    /// What the caller handles right now.
    handling: Option<Told>,
    saved: Option<Instant>,
    turn: usize,
    /// Whether somebody waits for the next event: the one before counts as handled.
    asked: bool,
    quiet: Quiet,
}

/// For how long nothing has come.
#[derive(Debug)]
enum Quiet {
    No,
    Since(Pin<Box<Sleep>>),
    /// For long enough that the position was written.
    Noted,
}

impl Quiet {
    /// Ready once, when nothing has come for [`SAVE_EVERY`].
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
    watcher: Watcher<ObjectSource>,
    ledger: Ledger,
}

/// Something to hand out.
#[derive(Clone, Debug)]
struct Told {
    /// The number of its stream.
    at: usize,
    what: Result<FollowEvent, Failure>,
    /// The version that is reached once it was handled; unset within a list.
    version: ResourceVersion,
}

/// What happened in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowEvent {
    /// An object is there that was not there before.
    Added(Object),
    /// An object has changed.
    Modified(Object),
    /// An object is gone.
    Deleted(Gone),
    /// All that was told so far is the state at this version; from here on the server tells what happens.
    Synced(ResourceVersion),
    /// The version the stream was at could not be resumed. A list follows, told as its differences from what was held
    /// and ended by `Synced`.
    Restarted(Restart),
    /// Nothing else happened up to this version.
    Bookmark(ResourceVersion),
}

impl FollowEvent {
    /// The word for it: `ADDED`, `MODIFIED`, `DELETED`, `SYNCED`, `RESTARTED` or `BOOKMARK`.
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

    /// The key of the object it is about; `None` if it is about the stream.
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Added(object) | Self::Modified(object) => Some(object.key()),
            Self::Deleted(gone) => Some(gone.key.clone()),
            Self::Synced(_) | Self::Restarted(_) | Self::Bookmark(_) => None,
        }
    }
}

/// An object that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Which one.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Box<str>,
    /// The version of its deletion or, where that was not seen, the last one known.
    pub version: ResourceVersion,
    /// Its last state. `None` if its end was not seen and is inferred from a list that does not have it.
    pub last: Option<Object>,
}

/// A stream that has lost its version and begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The version that was lost; `None` if a list was interrupted before it gave one.
    pub from: Option<ResourceVersion>,
    /// The version of the list; `None` if more than [`MAX_WAITING`] objects have changed, so that they are told before
    /// the list has ended.
    pub to: Option<ResourceVersion>,
    /// Why.
    pub reason: String,
    /// False if the position does not say all that was held, as one written before positions had inventories: what was
    /// deleted meanwhile is not told, and what was there is told as added.
    pub knows_deletes: bool,
}

/// One thing that happened in one of the streams.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The name of the stream.
    pub stream: Arc<str>,
    /// What happened, or what went wrong and is being dealt with.
    pub what: Result<FollowEvent, Failure>,
}

impl Follow {
    /// Follows everything from the beginning; nothing is written down.
    pub fn new() -> Self {
        Self::from_position(Position::in_memory())
    }

    /// Goes on where the position says each stream was.
    pub fn from_position(position: Position) -> Self {
        Self {
            streams: Vec::new(),
            position,
            next: VecDeque::new(),
            handling: None,
            saved: None,
            turn: 0,
            asked: false,
            quiet: Quiet::No,
        }
    }

    /// Adds a stream. The name is its place in the file: the kind, the namespace and the selectors, say.
    pub fn add(&mut self, name: &str, source: Arc<ObjectSource>, config: Config) {
        let known = self.position.get(name).map(|known| &known.version);
        let watcher = match known.filter(|version| !version.is_unset()) {
            Some(version) => Watcher::resume_from(source, config, version.clone()),
            None => Watcher::new(source, config),
        };
        self.streams.push(Stream {
            name: name.into(),
            watcher,
            ledger: Ledger::default(),
        });
    }

    /// The next event of any stream; the one before counts as handled. `None` once every stream has ended.
    ///
    /// May be dropped at any await without losing an event.
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
                    // What was handled last is written down before waiting on.
                    self.save()?;
                }
            }
        }
    }

    /// True while a list is being handled. Who stops now is told `Restarted` and the rest of the list at the next start.
    pub fn is_listing(&self) -> bool {
        !self.next.is_empty() || self.streams.iter().any(|stream| stream.ledger.is_listing())
    }

    /// Writes the position down, the event handed out last included.
    pub fn finish(mut self) -> Result<(), PositionError> {
        self.handled();
        self.save()
    }

    fn receive(&mut self, at: usize, received: Result<Event<Object>, Failure>) {
        let stream = &mut self.streams[at];
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
                let told = stream.ledger.note(event, stream.watcher.relist_reason(), held);
                told.into_iter().map(Ok).collect()
            }
        };
        let version = match stream.ledger.is_listing() {
            true => ResourceVersion::unset(),
            false => stream.watcher.version().clone(),
        };
        let Some(last) = told.len().checked_sub(1) else {
            // Nobody needs to know, so it is handled.
            self.position.reach(&stream.name, &version);
            return;
        };
        let told = told.into_iter().enumerate().map(|(index, what)| Told {
            at,
            what,
            // Of a list told at its end, only the end reaches its version.
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

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>> {
        let count = self.streams.len();
        let mut waiting = false;
        for step in 0..count {
            let at = (self.turn + step) % count;
            match self.streams[at].watcher.poll_next_event(context) {
                Poll::Ready(Some(what)) => {
                    self.turn = (at + 1) % count;
                    return Poll::Ready(Some((at, what)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(None) }
    }
}

impl futures_core::Stream for Follow {
    type Item = Result<Followed, PositionError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_followed(cx)
    }
}

/// What a watcher says, with the number of its stream.
type Received = (usize, Result<Event<Object>, Failure>);

impl Gone {
    /// An object whose end was seen.
    fn seen(last: Object) -> Self {
        Self {
            key: last.key(),
            uid: last.uid().into(),
            version: last.version(),
            last: Some(last),
        }
    }

    /// An object whose end was not seen.
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
