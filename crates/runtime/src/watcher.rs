//! The watcher: lists, then watches, and heals whatever breaks, so that its user sees one endless story.
//!
//! In flow lists and watch streams from a [`Source`]; out flow [`Event`]s and the failures that were dealt with.
//! It keeps no object: that is the reflector's part. It gives up only when the request itself is wrong.

mod backoff;
mod failure;
mod machine;
mod source;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::Stream;
use futures_util::stream::{self, StreamExt};
use watchkeeper_meta::ResourceVersion;

pub use backoff::{FIRST_WAIT, LONGEST_WAIT};
pub use failure::{Cure, Failure, ListFrom, Stage, Verdict, judge};
pub use machine::{
    ANSWER_SILENCE, Input, Machine, Next, Output, SHORT_WATCH, STREAMING_SILENCE, WATCH_GRACE,
};

pub use source::{Answer, Opening, Source};

/// 500, as client-go: servers see a familiar load.
pub const PAGE_SIZE: u32 = 500;

/// Five minutes, as client-go; each watch lasts between this and twice as long.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// What happened to the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<O> {
    /// A list begins: what follows up to `InitDone` is everything there is. A second `Init` starts anew.
    Init,
    /// An object of the list. Of two with the same name the later one counts.
    InitApply(O),
    /// The list is complete and shows the state at this version; objects not in it are gone.
    InitDone(ResourceVersion),
    /// An object was added or has changed.
    Apply(O),
    /// An object is gone; this is its last state.
    Delete(O),
    /// Nothing else happened up to this version.
    Progress(ResourceVersion),
}

/// How a watcher lists and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How the initial objects are asked for.
    pub initial_list: InitialList,
    /// How fresh the first list must be. Later ones are never older than what was seen.
    pub list_semantic: ListSemantic,
    /// How many objects a page of a plain list has; `None` asks for all at once.
    pub page_size: Option<u32>,
    /// How long a watch lasts at least before the server ends it.
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

/// How the initial objects are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialList {
    /// As the beginning of the watch (`sendInitialEvents`). Where a server cannot do it, the watcher notices,
    /// lists instead, and remembers.
    #[default]
    Streaming,
    /// A list in pages, then a watch.
    Paged,
}

/// How fresh a list must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListSemantic {
    /// The most recent state.
    #[default]
    MostRecent,
    /// Any state the server has at hand: cheaper for it, and possibly old.
    Any,
}

/// What to ask for in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// At most so many objects.
    pub limit: Option<u32>,
    /// Where the last page ended; empty on the first.
    pub continue_token: String,
    /// Not older than this; unset is the most recent state, `0` any.
    pub version: ResourceVersion,
}

/// What to ask for in a watch. Bookmarks are always asked for: they keep a quiet watch from expiring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// Changes after this; with `initial_events`, objects not older than this.
    pub version: ResourceVersion,
    /// Whether to begin with all objects and a bookmark at their end.
    pub initial_events: bool,
    /// When the server shall end the watch.
    pub timeout: Duration,
}

/// What the watcher reads of an object.
pub trait Versioned {
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;
}

impl Versioned for watchkeeper_wire::Object {
    fn resource_version(&self) -> &str {
        self.resource_version()
    }
}

/// Lists and watches, for ever. Drive it with [`Watcher::next`], or turn it into a stream.
pub struct Watcher<S: Source + ?Sized> {
    source: Arc<S>,
    machine: Machine,
    doing: Doing<S::Object>,
    /// An event that waits until the report before it was taken.
    held: Option<Event<S::Object>>,
}

/// What the watcher waits for.
enum Doing<O> {
    /// The time of the next request.
    Pausing(Instant, Next),
    /// The beginning of an answer.
    Opening(Opening<O>),
    /// The rest of it.
    Reading(Answer<O>),
    /// Nothing more.
    Stopped,
}

impl<S: Source + ?Sized> Watcher<S> {
    /// Asks for nothing before it is driven.
    pub fn new(source: Arc<S>, config: Config) -> Self {
        let mut machine = Machine::new(config, fastrand::u64(..));
        let doing = Doing::Pausing(now(), machine.start());
        Self {
            source,
            machine,
            doing,
            held: None,
        }
    }

    /// The next event, or a failure that is being dealt with. `None` after a failure that cannot be.
    ///
    /// May be dropped at any await without losing an event.
    pub async fn next(&mut self) -> Option<Result<Event<S::Object>, Failure>> {
        if let Some(event) = self.held.take() {
            return Some(Ok(event));
        }
        loop {
            let input = self.receive().await?;
            let now = now();
            let output = self.machine.step(input, now);
            self.follow(output.next, now + output.after);
            match (output.event, output.report) {
                (None, None) => {}
                (Some(event), None) => return Some(Ok(event)),
                (None, Some(failure)) => return Some(Err(failure)),
                // A list older than what was known says both: first the warning, then the list.
                (Some(event), Some(failure)) => {
                    self.held = Some(event);
                    return Some(Err(failure));
                }
            }
        }
    }

    /// The newest version received.
    pub fn version(&self) -> &ResourceVersion {
        self.machine.version()
    }

    /// The watcher as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Event<S::Object>, Failure>> {
        stream::unfold(self, |mut watcher| async move {
            let next = watcher.next().await?;
            Some((next, watcher))
        })
    }

    /// Waits for the next thing the machine has to know. `None` when it has stopped.
    async fn receive(&mut self) -> Option<Input<S::Object>> {
        loop {
            let deadline = self.machine.deadline();
            match &mut self.doing {
                Doing::Stopped => return None,
                Doing::Pausing(until, next) => {
                    tokio::time::sleep_until((*until).into()).await;
                    self.doing = match next {
                        Next::List(request) => Doing::Opening(self.source.list(request.clone())),
                        Next::Watch(request) => Doing::Opening(self.source.watch(request.clone())),
                        Next::Read | Next::Stop => Doing::Stopped,
                    };
                    self.machine.asked(now());
                }
                Doing::Opening(opening) => match before(deadline, opening).await {
                    None => return Some(Input::Late),
                    Some(Err(failure)) => return Some(Input::Failed(failure)),
                    Some(Ok(answer)) => {
                        self.doing = Doing::Reading(answer);
                        return Some(Input::Opened);
                    }
                },
                Doing::Reading(answer) => match before(deadline, answer.next()).await {
                    None => return Some(Input::Late),
                    Some(None) => return Some(Input::Ended),
                    Some(Some(input)) => return Some(input),
                },
            }
        }
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

/// The future's value, or `None` if the deadline comes first. The value wins when both are there.
async fn before<F: Future>(deadline: Option<Instant>, future: F) -> Option<F::Output> {
    match deadline {
        None => Some(future.await),
        Some(deadline) => tokio::time::timeout_at(deadline.into(), future).await.ok(),
    }
}

/// Tokio's clock, so that tests can move it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests;
