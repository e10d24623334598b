//! The watcher: lists, then watches, and recovers from failures, so that its user sees one endless stream.
//!
//! It turns the lists and watches of a [`Source`] into [`Event`]s, and reports the failures it recovers from. It
//! keeps no objects; that is the reflector's job. It gives up only if the request itself is invalid.

mod backoff;
mod failure;
mod machine;
mod source;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::poll_fn;
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::{Sleep, sleep_until};
use watchkeeper_meta::ResourceVersion;

use crate::clock::{self, now};

pub use backoff::{FIRST_WAIT, LONGEST_WAIT};
pub use failure::{Cure, Failure, ListFrom, Stage, Unread, Verdict, judge};
pub use machine::{
    ANSWER_SILENCE, Input, Machine, Next, Output, SHORT_WATCH, STREAMING_PAUSE, STREAMING_SILENCE,
    WATCH_GRACE,
};

pub use source::{Answer, Opening, Source};

/// The page size, as in client-go, so that servers see a familiar load.
pub const PAGE_SIZE: u32 = 500;

/// The shortest duration of a watch, as in client-go; each lasts between this and twice as long.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// A change of the watched objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<O> {
    /// A list starts: the objects up to `InitDone` are all there are. A second `Init` starts again.
    Init,
    /// An object of the list. Of two with the same name the later one counts.
    InitApply(O),
    /// The list is complete and shows the state at this version. Objects that are not in it were deleted, except for
    /// those that could not be decoded ([`Failure::Undecodable`]): they exist in an unknown state.
    InitDone(ResourceVersion),
    /// `ADDED`: the object was created, or started to match the selectors.
    Added(O),
    /// `MODIFIED`.
    Modified(O),
    /// `DELETED`: the object was deleted, or no longer matches; this is its last state.
    Deleted(O),
    /// Nothing else happened up to this version.
    Progress(ResourceVersion),
}

/// Options of list and watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The way the initial objects are requested.
    pub initial_list: InitialList,
    /// The consistency of the first list. Later lists are never older than what was seen.
    pub list_semantic: ListSemantic,
    /// The page size of a plain list; `None` requests all at once.
    pub page_size: Option<u32>,
    /// The shortest duration of a watch before the server ends it.
    pub timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial_list: InitialList::default(),
            list_semantic: ListSemantic::default(),
            page_size: Some(PAGE_SIZE),
            timeout: WATCH_TIMEOUT,
        }
    }
}

impl Config {
    /// The defaults, with a paged list instead of a streaming one.
    pub fn paged() -> Self {
        Self {
            initial_list: InitialList::Paged,
            ..Self::default()
        }
    }
}

/// The way the initial objects are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialList {
    /// As the beginning of the watch (`sendInitialEvents`). If the server does not support it, the watcher lists
    /// instead, and remembers that for all watchers of the client.
    #[default]
    Streaming,
    /// A paged list, then a watch.
    Paged,
}

/// The consistency of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListSemantic {
    /// The most recent state.
    #[default]
    MostRecent,
    /// Any state the server has cached: cheaper for it, and possibly old.
    Any,
}

/// The parameters of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// The largest number of objects.
    pub limit: Option<u32>,
    /// The continue token; empty on the first page.
    pub continue_token: String,
    /// Not older than this; unset is the most recent state, `0` any.
    pub version: ResourceVersion,
}

/// The parameters of a watch. Bookmarks are always requested: they keep the version of a quiet watch from expiring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// Changes after this; with `initial_events`, objects not older than this.
    pub version: ResourceVersion,
    /// True to start with all objects and a bookmark after them.
    pub initial_events: bool,
    /// The time after which the server ends the watch.
    pub timeout: Duration,
}

/// The part of an object the watcher reads.
pub trait Versioned {
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;
}

impl Versioned for watchkeeper_wire::Object {
    fn resource_version(&self) -> &str {
        self.resource_version()
    }
}

/// Lists and watches forever. Use [`Watcher::next`], or the `Stream` implementation.
pub struct Watcher<S: Source + ?Sized> {
    source: Arc<S>,
    machine: Machine,
    doing: Doing<S::Object>,
    /// An event held back until the failure before it was delivered.
    held: Option<Event<S::Object>>,
    alarm: Alarm,
    /// True if a failure was delivered last.
    failing: bool,
    /// True if the caller has polled since the last input.
    listening: bool,
    /// The number of events of the open watch, for the log.
    items: u64,
}

/// The state of the watcher.
enum Doing<O> {
    /// Waiting for the time of the next request.
    Pausing(Instant, Next),
    /// Waiting for the beginning of an answer.
    Opening(Opening<O>),
    /// Reading the answer.
    Reading(Answer<O>),
    /// Finished.
    Stopped,
}

impl<S: Source + ?Sized> Unpin for Watcher<S> {}

impl<S: Source + ?Sized> Watcher<S> {
    /// Sends nothing before it is polled.
    pub fn new(source: Arc<S>, config: Config) -> Self {
        let mut machine = machine(&*source, config);
        let doing = Doing::Pausing(now(), machine.start());
        Self {
            source,
            machine,
            doing,
            held: None,
            alarm: Alarm::default(),
            failing: false,
            listening: false,
            items: 0,
        }
    }

    /// Starts with the changes after a known version. If that has expired, it is reported as a failure and a list
    /// follows.
    pub fn resume_from(source: Arc<S>, config: Config, version: ResourceVersion) -> Self {
        let mut watcher = Self::new(source, config);
        watcher.machine = machine(&*watcher.source, config);
        watcher.machine.resume_from(version);
        watcher.doing = Doing::Pausing(now(), watcher.machine.start());
        watcher
    }

    /// The next event, or a failure that is being retried. `None` after a failure that cannot be.
    ///
    /// Cancel safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Result<Event<S::Object>, Failure>> {
        poll_fn(|context| self.poll_next_event(context)).await
    }

    /// The newest version received.
    pub fn version(&self) -> &ResourceVersion {
        self.machine.version()
    }

    /// The failure that caused the list in progress; `None` for a first list and outside of one.
    pub fn relist_reason(&self) -> Option<&Failure> {
        self.machine.relist_reason()
    }

    /// [`Watcher::next`] as a poll function.
    pub fn poll_next_event(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Event<S::Object>, Failure>>> {
        if let Some(event) = self.held.take() {
            return Poll::Ready(Some(Ok(event)));
        }
        loop {
            let Some(input) = ready!(self.poll_receive(context)) else {
                return Poll::Ready(None);
            };
            let now = now();
            self.log(&input);
            let opened = matches!(input, Input::Opened);
            let lacked_streaming = self.machine.lacks_streaming_lists();
            let output = self.machine.step(input, now);
            if self.machine.lacks_streaming_lists() && !lacked_streaming {
                self.source.note_no_streaming_lists();
            }
            self.follow(output.next, clock::after(now, output.after));
            let recovered = self.note_failure(opened, output.event.is_some(), output.report.is_some());
            match (output.event, output.report) {
                // After a failure, the recovery is reported even if there was no event.
                (None, None) if recovered => {
                    return Poll::Ready(Some(Ok(Event::Progress(self.version().clone()))));
                }
                (None, None) => {}
                (Some(event), None) => return Poll::Ready(Some(Ok(event))),
                (None, Some(failure)) => return Poll::Ready(Some(Err(failure))),
                // A list older than the known state: first the warning, then the list.
                (Some(event), Some(failure)) => {
                    self.held = Some(event);
                    return Poll::Ready(Some(Err(failure)));
                }
            }
        }
    }

    /// The next input of the machine. `None` when it has stopped.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Input<S::Object>>> {
        loop {
            let received = match &mut self.doing {
                Doing::Stopped => return Poll::Ready(None),
                Doing::Pausing(until, _) => {
                    ready!(self.alarm.poll_at(*until, context));
                    self.ask();
                    continue;
                }
                Doing::Opening(opening) => opening.poll_unpin(context).map(|opened| match opened {
                    Err(failure) => Input::Failed(failure),
                    Ok(answer) => {
                        self.doing = Doing::Reading(answer);
                        Input::Opened
                    }
                }),
                Doing::Reading(answer) => answer
                    .poll_next_unpin(context)
                    .map(|input| input.unwrap_or(Input::Ended)),
            };
            // Silence counts only while the caller polls: it may have been busy with the last event for long.
            let listened = std::mem::replace(&mut self.listening, received.is_pending());
            if self.listening && !listened {
                self.machine.asked(now());
            }
            return match (received, self.machine.deadline()) {
                (Poll::Ready(input), _) => Poll::Ready(Some(input)),
                (Poll::Pending, None) => Poll::Pending,
                (Poll::Pending, Some(deadline)) => {
                    let late = self.alarm.poll_at(deadline, context);
                    late.map(|()| Some(Input::Late))
                }
            };
        }
    }

    /// Logs the end of a watch, at client-go's level.
    fn log(&mut self, input: &Input<S::Object>) {
        match input {
            Input::Opened => self.items = 0,
            Input::Added(_) | Input::Modified(_) | Input::Deleted(_) | Input::Bookmark { .. } => {
                self.items += 1
            }
            Input::Ended | Input::Failed(_) | Input::Late if self.machine.is_watching() => {
                let (resource, items) = (self.source.name(), self.items);
                tracing::debug!(v = 4, %resource, totalItems = items, "Watch close");
            }
            _ => {}
        }
    }

    /// Tracks whether a failure was delivered last. Returns true if a watch was opened after one.
    fn note_failure(&mut self, opened: bool, event: bool, report: bool) -> bool {
        let recovered = self.failing && opened && self.machine.is_watching();
        self.failing = report || (self.failing && !event && !recovered);
        recovered
    }

    /// Sends the pending request.
    fn ask(&mut self) {
        let Doing::Pausing(_, next) = std::mem::replace(&mut self.doing, Doing::Stopped) else {
            return;
        };
        let begins = match &next {
            Next::List(request) => request.continue_token.is_empty(),
            Next::Watch(request) => request.initial_events,
            Next::Read | Next::Stop => false,
        };
        if begins {
            tracing::debug!(v = 3, resource = %self.source.name(), "Listing and watching");
        }
        self.doing = match next {
            Next::List(request) => Doing::Opening(self.source.list(request)),
            Next::Watch(request) => Doing::Opening(self.source.watch(request)),
            Next::Read | Next::Stop => Doing::Stopped,
        };
        self.machine.asked(now());
    }

    fn follow(&mut self, next: Next, at: Instant) {
        match next {
            Next::Read => {}
            Next::Stop => self.doing = Doing::Stopped,
            next => self.doing = Doing::Pausing(at, next),
        }
    }
}

impl<S: Source + ?Sized> fmt::Debug for Watcher<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watcher").field(&self.machine).finish()
    }
}

impl<S: Source + ?Sized> Stream for Watcher<S> {
    type Item = Result<Event<S::Object>, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_next_event(context)
    }
}

/// A timer that stays set between polls.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    fn poll_at(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let at = at.into();
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(context)
    }
}

/// A machine that does not try streaming lists if the source is known to lack them.
fn machine(source: &(impl Source + ?Sized), config: Config) -> Machine {
    let initial_list = match source.has_streaming_lists() {
        true => config.initial_list,
        false => InitialList::Paged,
    };
    Machine::new(
        Config {
            initial_list,
            ..config
        },
        fastrand::u64(..),
    )
}

#[cfg(test)]
mod tests;
