//! The core of the watcher: a state machine that decides what to request next and what to report.
//!
//! It takes what was received ([`Input`]) and the time, and returns an event, a failure to report, and the next
//! action ([`Output`]). It opens no stream, never sleeps and reads no clock; its shell does.
//!
//! ```text
//!              list                    last page
//!   Empty ───────────────▶ InitPage ──────────────▶ InitListed ──opened──▶ Watching ⟲ events, bookmarks
//!     ▲  └──stream list──▶ InitialWatch ──end bookmark─────────────────────▶  │  │
//!     │                                                  ▲───── resume ───────┘  │
//!     └────────────────────────────── relist ────────────────────────────────────┘
//! ```
//!
//! Four guarantees hold in every history, and the tests check them on random ones:
//! 1. `Init` opens, `InitDone` closes; between them come the objects of one list and nothing else.
//! 2. A watch resumes exactly at the last version received, or everything is listed again.
//! 3. Versions never go back without a report.
//! 4. Two requests without progress are at least 0.8 s apart, and increasingly so. Only something received on a watch
//!    resets the wait.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

// The client remembers for as long, for all watchers that share it.
pub use watchkeeper_client::STREAMING_PAUSE;
use watchkeeper_meta::{ListMeta, ResourceVersion};

use super::backoff::Backoff;
use super::failure::{Cure, Failure, ListFrom, Stage, judge};
use super::{Config, Event, InitialList, ListRequest, ListSemantic, Versioned, WatchRequest};

/// The time a streaming list may be silent before its final bookmark counts as missing.
///
/// A server that supports it waits at most 3 s for its own state; one that ignores the option stays silent.
pub const STREAMING_SILENCE: Duration = Duration::from_secs(10);

/// The time a server may take to start an answer, or be silent within a list, before the connection counts as dead.
pub const ANSWER_SILENCE: Duration = Duration::from_secs(60);

/// The time a watch may be silent after the server should have ended it before the connection counts as dead.
///
/// Earlier silence means nothing: there may be no changes. Transports detect dead peers sooner by pings.
pub const WATCH_GRACE: Duration = Duration::from_secs(10);

/// A watch that ends sooner than this without an event has failed.
pub const SHORT_WATCH: Duration = Duration::from_secs(1);

/// A year: a longer watch means no limit.
const LONGEST_WATCH: Duration = Duration::from_secs(86_400 * 365);

/// Lists and watches one resource in one scope.
#[derive(Clone, Debug)]
pub struct Machine {
    config: Config,
    phase: Phase,
    /// The newest version received; unset before the first list is complete.
    last: ResourceVersion,
    from: ListFrom,
    streaming: Streaming,
    backoff: Backoff,
    chance: fastrand::Rng,
    /// The time of the last request or input.
    quiet_since: Option<Instant>,
    /// True if the last version was given by the caller and nothing was received since.
    resumed: bool,
    /// The failure of a watch that caused the list in progress.
    relist_reason: Option<Failure>,
}

/// The use of streaming lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streaming {
    On,
    /// Not wanted.
    Off,
    /// It has failed: plain lists are used for a while.
    Failed {
        at: Option<Instant>,
    },
    /// The server does not support it.
    Unsupported {
        at: Option<Instant>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// No list yet.
    Empty,
    /// A page was requested; the token is empty for the first one.
    InitPage { token: String },
    /// A streaming list was requested or, once opened, its initial objects arrive.
    InitialWatch { opened: bool },
    /// A watch from the last version was requested.
    InitListed { limit: Duration },
    /// Changes arrive.
    Watching {
        opened: Instant,
        limit: Duration,
        heard: bool,
    },
    /// The request is invalid; there is nothing left to do.
    Stopped,
}

/// An input of the shell.
#[derive(Clone, Debug)]
pub enum Input<O> {
    /// The server accepted the request; its answer starts.
    Opened,
    /// An object of a list.
    Item(O),
    /// The end of a list or a page.
    PageEnd(ListMeta),
    /// `ADDED`: the object was created, or started to match the selectors.
    Added(O),
    /// `MODIFIED`.
    Modified(O),
    /// `DELETED`.
    Deleted(O),
    /// Nothing else happened up to this version.
    Bookmark {
        /// The version the server has reached.
        version: ResourceVersion,
        /// True if this ends the initial objects of a streaming list.
        ends_initial: bool,
    },
    /// One object could not be decoded, but exists; the rest of the answer can.
    Undecodable(Failure),
    /// The stream has ended regularly.
    Ended,
    /// The request or its stream has failed.
    Failed(Failure),
    /// [`Machine::deadline`] has passed.
    Late,
}

/// An instruction to the shell.
#[derive(Clone, Debug)]
pub struct Output<O> {
    /// Deliver this event.
    pub event: Option<Event<O>>,
    /// Deliver this failure; it is being retried.
    pub report: Option<Failure>,
    /// Then wait this long.
    pub after: Duration,
    /// Then do this.
    pub next: Next,
}

/// The next action of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue reading the current stream.
    Read,
    /// Drop the current stream and request a list.
    List(ListRequest),
    /// Drop the current stream and request a watch.
    Watch(WatchRequest),
    /// Stop: the reported failure is the reason.
    Stop,
}

impl Machine {
    /// A machine without any state. The seed determines the jitter: equal seeds give equal histories.
    pub fn new(config: Config, seed: u64) -> Self {
        let streaming = match config.initial_list {
            InitialList::Streaming => Streaming::On,
            InitialList::Paged => Streaming::Off,
        };
        Self {
            config: Config {
                timeout: config.timeout.min(LONGEST_WATCH),
                ..config
            },
            phase: Phase::Empty,
            last: ResourceVersion::unset(),
            from: ListFrom::Configured,
            streaming,
            backoff: Backoff::default(),
            chance: fastrand::Rng::with_seed(seed),
            quiet_since: None,
            resumed: false,
            relist_reason: None,
        }
    }

    /// Starts with a watch from a version the caller knows. If it has expired, that is reported, and everything is
    /// listed.
    pub fn resume_from(&mut self, version: ResourceVersion) {
        self.phase = Phase::InitListed {
            limit: self.config.timeout,
        };
        self.last = version;
        self.resumed = true;
    }

    /// The first action.
    pub fn start(&mut self) -> Next {
        match self.phase {
            Phase::InitListed { .. } => self.begin_watch(),
            _ => self.begin_list(),
        }
    }

    /// The shell sends its request, after the wait, or starts to listen: silence counts from here.
    pub fn asked(&mut self, now: Instant) {
        self.quiet_since = Some(now);
    }

    /// The newest version received.
    pub fn version(&self) -> &ResourceVersion {
        &self.last
    }

    /// The failure that caused the list in progress; `None` for a first list.
    pub fn relist_reason(&self) -> Option<&Failure> {
        self.relist_reason.as_ref()
    }

    /// True if a watch is open.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching { .. })
    }

    /// True if the server does not support streaming lists, which other watchers need not find out again.
    pub fn lacks_streaming_lists(&self) -> bool {
        matches!(self.streaming, Streaming::Unsupported { .. })
    }

    /// The time to call [`Machine::step`] with [`Input::Late`] if nothing is received before.
    pub fn deadline(&self) -> Option<Instant> {
        let quiet_since = self.quiet_since?;
        match self.phase {
            Phase::Empty | Phase::Stopped => None,
            Phase::InitialWatch { opened: true } => Some(quiet_since + STREAMING_SILENCE),
            Phase::Watching { opened, limit, .. } => Some(quiet_since.max(opened + limit) + WATCH_GRACE),
            _ => Some(quiet_since + ANSWER_SILENCE),
        }
    }

    /// Processes one input.
    pub fn step<O: Versioned>(&mut self, input: Input<O>, now: Instant) -> Output<O> {
        let quiet_since = self.quiet_since.replace(now);
        match input {
            Input::Opened => self.opened(now),
            Input::Item(object) => read(Some(Event::InitApply(object))),
            Input::PageEnd(meta) => self.page_end(meta),
            Input::Added(object) => self.changed(object, Event::Added),
            Input::Modified(object) => self.changed(object, Event::Modified),
            Input::Deleted(object) => self.changed(object, Event::Deleted),
            Input::Bookmark {
                version,
                ends_initial,
            } => self.bookmark(version, ends_initial, now),
            Input::Undecodable(failure) => self.unread(failure),
            Input::Ended => self.ended(now),
            Input::Failed(failure) => self.failed(failure),
            Input::Late => self.late(quiet_since, now),
        }
    }

    fn opened<O>(&mut self, now: Instant) -> Output<O> {
        match &mut self.phase {
            Phase::InitPage { token } if token.is_empty() => read(Some(Event::Init)),
            Phase::InitialWatch { opened } => {
                *opened = true;
                read(Some(Event::Init))
            }
            Phase::InitListed { limit } => {
                self.phase = Phase::Watching {
                    opened: now,
                    limit: *limit,
                    heard: false,
                };
                read(None)
            }
            _ => read(None),
        }
    }

    fn page_end<O>(&mut self, meta: ListMeta) -> Output<O> {
        if !meta.continue_token.is_empty() {
            let token = meta.continue_token;
            self.phase = Phase::InitPage { token: token.clone() };
            return Output {
                next: Next::List(self.list_request(token)),
                ..read(None)
            };
        }
        let report = self.listed(meta.resource_version.clone());
        Output {
            event: Some(Event::InitDone(meta.resource_version)),
            report,
            next: self.begin_watch(),
            after: Duration::ZERO,
        }
    }

    fn changed<O: Versioned>(&mut self, object: O, event: fn(O) -> Event<O>) -> Output<O> {
        match &mut self.phase {
            // Objects of the initial list arrive in any order of versions; one may even be deleted before the list
            // ends.
            Phase::InitialWatch { .. } => match event(object) {
                Event::Added(object) | Event::Modified(object) => read(Some(Event::InitApply(object))),
                other => read(Some(other)),
            },
            _ => {
                let version = ResourceVersion::new(object.resource_version());
                if self.is_older(&version) {
                    return self.went_back(version);
                }
                self.advance(version);
                read(Some(event(object)))
            }
        }
    }

    /// In a list the object is left out. In a watch its last state is kept, if the object could be identified.
    fn unread<O>(&mut self, failure: Failure) -> Output<O> {
        let event = match (self.stage(), failure.unread()) {
            (Stage::Watch, Some(object)) if object.key.is_some() && !object.version.is_unset() => {
                let version = object.version.clone();
                if self.is_older(&version) {
                    return self.went_back(version);
                }
                self.advance(version.clone());
                Some(Event::Progress(version))
            }
            (Stage::Watch, _) => return self.failed(failure),
            _ => None,
        };
        Output {
            report: Some(failure),
            ..read(event)
        }
    }

    fn bookmark<O>(&mut self, version: ResourceVersion, ends_initial: bool, now: Instant) -> Output<O> {
        if let Phase::InitialWatch { .. } = self.phase {
            return if ends_initial {
                self.end_of_initial(version, now)
            } else {
                read(None)
            };
        }
        if self.is_older(&version) {
            return self.went_back(version);
        }
        self.advance(version.clone());
        read(Some(Event::Progress(version)))
    }

    /// The stream continues as the watch.
    fn end_of_initial<O>(&mut self, version: ResourceVersion, now: Instant) -> Output<O> {
        let report = self.listed(version.clone());
        // The requested timeout is no longer known; twice the minimum is the maximum.
        let limit = self.config.timeout.saturating_mul(2);
        self.phase = Phase::Watching {
            opened: now,
            limit,
            heard: true,
        };
        Output {
            report,
            ..read(Some(Event::InitDone(version)))
        }
    }

    fn ended<O>(&mut self, now: Instant) -> Output<O> {
        match self.phase {
            Phase::Watching { opened, heard, .. } => {
                let lasted = now.saturating_duration_since(opened);
                if !heard && lasted < SHORT_WATCH {
                    return self.failed(Failure::ShortWatch(lasted));
                }
                Output {
                    next: self.begin_watch(),
                    ..read(None)
                }
            }
            Phase::InitListed { .. } => self.failed(Failure::ShortWatch(Duration::ZERO)),
            Phase::InitialWatch { .. } => self.failed(Failure::NoEndBookmark),
            Phase::Stopped => Output {
                next: Next::Stop,
                ..read(None)
            },
            Phase::Empty | Phase::InitPage { .. } => {
                let cut: Box<dyn std::error::Error + Send + Sync> = "list ended in the middle".into();
                self.failed(Failure::Connection(cut.into()))
            }
        }
    }

    fn late<O>(&mut self, quiet_since: Option<Instant>, now: Instant) -> Output<O> {
        let silence = quiet_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        match self.phase {
            Phase::InitialWatch { opened: true } => {
                let output = self.failed(Failure::NoEndBookmark);
                self.streaming = Streaming::Unsupported { at: Some(now) };
                output
            }
            _ => self.failed(Failure::Idle(silence)),
        }
    }

    fn failed<O>(&mut self, failure: Failure) -> Output<O> {
        let mut verdict = judge(self.stage(), &failure);
        if failure.is_expired() && std::mem::take(&mut self.resumed) {
            verdict.reported = true;
            // The version was the caller's; the state to start with is the server's own.
            verdict.cure = Cure::Relist(ListFrom::MostRecent);
            self.last = ResourceVersion::unset();
        }
        if verdict.cure == Cure::ResumeOnce {
            verdict.cure = match self.backoff.has_failed() {
                true => Cure::Relist(ListFrom::NotOlder),
                false => Cure::Resume,
            };
        }
        let wait = match self.asks_for_more(verdict.cure) {
            true => Duration::ZERO,
            false => self.backoff.fail(verdict.first_is_free, self.chance.f64()),
        };
        let after = wait.max(failure.retry_after().unwrap_or_default());
        let next = match verdict.cure {
            Cure::Resume | Cure::ResumeOnce => self.resume(),
            Cure::Relist(from) => {
                if self.stage() == Stage::Watch {
                    self.relist_reason = Some(failure.clone());
                }
                self.from = from;
                self.begin_list()
            }
            Cure::Fallback => {
                let at = self.quiet_since;
                self.streaming = match failure.is_wrong_request() {
                    true => Streaming::Unsupported { at },
                    false => Streaming::Failed { at },
                };
                self.begin_list()
            }
            Cure::Stop => {
                self.phase = Phase::Stopped;
                Next::Stop
            }
        };
        Output {
            event: None,
            report: verdict.reported.then_some(failure),
            after,
            next,
        }
    }

    /// True if the next request differs from the failed one: that happens only a few times in a row and needs no
    /// wait.
    fn asks_for_more(&self, cure: Cure) -> bool {
        match cure {
            Cure::Relist(from) => self.stage() != Stage::Watch && from > self.from,
            Cure::Fallback => self.streaming == Streaming::On,
            Cure::Resume | Cure::ResumeOnce | Cure::Stop => false,
        }
    }

    /// Repeats the request.
    fn resume(&mut self) -> Next {
        match &self.phase {
            Phase::Watching { .. } | Phase::InitListed { .. } => self.begin_watch(),
            Phase::InitPage { token } if !token.is_empty() => Next::List(self.list_request(token.clone())),
            _ => self.begin_list(),
        }
    }

    fn begin_list(&mut self) -> Next {
        if let Streaming::Failed { at } | Streaming::Unsupported { at } = self.streaming
            && let (Some(at), Some(now)) = (at, self.quiet_since)
            && now.saturating_duration_since(at) >= STREAMING_PAUSE
        {
            self.streaming = Streaming::On;
        }
        if self.streaming != Streaming::On {
            self.phase = Phase::InitPage { token: String::new() };
            return Next::List(self.list_request(String::new()));
        }
        self.phase = Phase::InitialWatch { opened: false };
        Next::Watch(WatchRequest {
            version: self.list_version(),
            initial_events: true,
            timeout: self.watch_timeout(),
        })
    }

    fn begin_watch(&mut self) -> Next {
        let timeout = self.watch_timeout();
        self.phase = Phase::InitListed { limit: timeout };
        Next::Watch(WatchRequest {
            version: self.last.clone(),
            initial_events: false,
            timeout,
        })
    }

    /// Between the configured time and twice as much, as in client-go: watches that started together end apart.
    fn watch_timeout(&mut self) -> Duration {
        self.config.timeout + self.config.timeout.mul_f64(self.chance.f64())
    }

    fn list_request(&self, token: String) -> ListRequest {
        let version = self.list_version();
        let paged = version.is_unset() && self.from != ListFrom::MostRecentWhole;
        ListRequest {
            // A version and a limit exclude each other: servers ignore one of them.
            limit: self.config.page_size.filter(|_| paged),
            version: if token.is_empty() {
                version
            } else {
                ResourceVersion::unset()
            },
            continue_token: token,
        }
    }

    fn list_version(&self) -> ResourceVersion {
        match self.from {
            ListFrom::MostRecent | ListFrom::MostRecentWhole => ResourceVersion::unset(),
            ListFrom::NotOlder => self.last.clone(),
            ListFrom::Configured if !self.last.is_unset() => self.last.clone(),
            ListFrom::Configured => match self.config.list_semantic {
                ListSemantic::MostRecent => ResourceVersion::unset(),
                ListSemantic::Any => ResourceVersion::any(),
            },
        }
    }

    /// A list is complete. Returns a failure to report if it is older than the known state.
    fn listed(&mut self, version: ResourceVersion) -> Option<Failure> {
        let back = self.is_older(&version);
        let from = std::mem::replace(&mut self.last, version.clone());
        self.from = ListFrom::Configured;
        self.relist_reason = None;
        back.then_some(Failure::WentBack { from, to: version })
    }

    fn went_back<O>(&mut self, to: ResourceVersion) -> Output<O> {
        let from = self.last.clone();
        self.failed(Failure::WentBack { from, to })
    }

    fn advance(&mut self, version: ResourceVersion) {
        if !version.is_unset() {
            self.last = version;
        }
        if let Phase::Watching { heard, .. } = &mut self.phase {
            *heard = true;
        }
        self.resumed = false;
        self.backoff.progress();
    }

    fn is_older(&self, version: &ResourceVersion) -> bool {
        version.compare(&self.last) == Some(Ordering::Less)
    }

    fn stage(&self) -> Stage {
        match &self.phase {
            Phase::InitPage { token } if !token.is_empty() => Stage::Page,
            Phase::Empty | Phase::InitPage { .. } | Phase::Stopped => Stage::List,
            Phase::InitialWatch { .. } => Stage::StreamingList,
            Phase::InitListed { .. } | Phase::Watching { .. } => Stage::Watch,
        }
    }
}

fn read<O>(event: Option<Event<O>>) -> Output<O> {
    Output {
        event,
        report: None,
        after: Duration::ZERO,
        next: Next::Read,
    }
}

#[cfg(test)]
mod tests;
