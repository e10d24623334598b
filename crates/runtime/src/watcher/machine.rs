//! The heart of the watcher: what to ask the server next, and what to tell the user.
//!
//! In flows what was received ([`Input`]) and the time; out flow an event, a failure to report, and the next thing
//! to do ([`Output`]). The machine opens no stream, sleeps never and reads no clock: its shell does as told.
//!
//! ```text
//!              list                    last page
//!   Empty ───────────────▶ InitPage ──────────────▶ InitListed ──opened──▶ Watching ⟲ events, bookmarks
//!     ▲  └──stream list──▶ InitialWatch ──end bookmark─────────────────────▶  │  │
//!     │                                                  ▲───── resume ───────┘  │
//!     └────────────────────────────── relist ────────────────────────────────────┘
//! ```
//!
//! Four promises hold in every history, and the tests check them on random ones:
//! 1. `Init` opens, `InitDone` closes; between them come the objects of one list and nothing else.
//! 2. A watch resumes exactly at the last version received, or everything is listed again.
//! 3. Versions never go back without a report.
//! 4. Two requests that bring nothing are at least 0.8 s apart, and ever more; only something received on a watch
//!    makes the wait short again. Trying does not.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

// A watcher remembers as long as the client does, who remembers for all that share it.
pub use watchkeeper_client::STREAMING_PAUSE;
use watchkeeper_meta::{ListMeta, ResourceVersion};

use super::backoff::Backoff;
use super::failure::{Cure, Failure, ListFrom, Stage, judge};
use super::{Config, Event, InitialList, ListRequest, ListSemantic, Versioned, WatchRequest};

/// How long a streaming list may be silent before its end counts as missing.
///
/// A server that supports it waits at most 3 s for its own state; one that ignores the option is silent for ever.
pub const STREAMING_SILENCE: Duration = Duration::from_secs(10);

/// How long a server may take to begin an answer, or go silent within a list, before its connection counts as dead.
pub const ANSWER_SILENCE: Duration = Duration::from_secs(60);

/// How long a watch may be silent after the server should have ended it before its connection counts as dead.
///
/// Before that, silence is no sign: nothing may have happened. Transports notice dead peers sooner by pings.
pub const WATCH_GRACE: Duration = Duration::from_secs(10);

/// A watch that ends sooner than this without an event has failed, whatever the server calls it.
pub const SHORT_WATCH: Duration = Duration::from_secs(1);

/// A year: whoever asks for longer watches means that they need not end.
const LONGEST_WATCH: Duration = Duration::from_secs(86_400 * 365);

/// Lists and watches one resource, in one scope.
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
    /// When something was last sent or received.
    quiet_since: Option<Instant>,
    /// Whether the last version comes from elsewhere and nothing was received since.
    resumed: bool,
    /// The failure of a watch that made the list under way necessary.
    relist_reason: Option<Failure>,
}

/// Whether lists are asked for as the beginning of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streaming {
    On,
    /// Not wanted.
    Off,
    /// It has failed then: for a while, lists are plain ones.
    Failed {
        at: Option<Instant>,
    },
    /// The server has shown then that it cannot do it.
    Unsupported {
        at: Option<Instant>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is known.
    Empty,
    /// A page was asked for; the token is empty for the first one.
    InitPage { token: String },
    /// A streaming list was asked for or, once opened, its initial objects stream in.
    InitialWatch { opened: bool },
    /// A watch from the last version was asked for.
    InitListed { limit: Duration },
    /// Changes stream in.
    Watching {
        opened: Instant,
        limit: Duration,
        heard: bool,
    },
    /// The request is wrong; there is nothing left to do.
    Stopped,
}

/// What the shell has received.
#[derive(Clone, Debug)]
pub enum Input<O> {
    /// The server accepted the request; its answer begins.
    Opened,
    /// An object of a list.
    Item(O),
    /// The end of a list or a page.
    PageEnd(ListMeta),
    /// The server calls it ADDED: the object was created, or has begun to match the selectors.
    Added(O),
    /// The server calls it MODIFIED.
    Modified(O),
    /// An object is gone.
    Deleted(O),
    /// Nothing happened up to this version.
    Bookmark {
        /// How far the server has come.
        version: ResourceVersion,
        /// Whether this ends the initial objects of a streaming list.
        ends_initial: bool,
    },
    /// One object, which exists, could not be read; the rest of the answer can.
    Undecodable(Failure),
    /// The stream has ended in order.
    Ended,
    /// The request or its stream has failed.
    Failed(Failure),
    /// [`Machine::deadline`] has passed.
    Late,
}

/// What the shell shall do.
#[derive(Clone, Debug)]
pub struct Output<O> {
    /// Tell the user.
    pub event: Option<Event<O>>,
    /// Tell the user that this went wrong; it is being dealt with.
    pub report: Option<Failure>,
    /// Then wait so long.
    pub after: Duration,
    /// Then do this.
    pub next: Next,
}

/// What the shell shall do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on reading the present stream.
    Read,
    /// Drop the present stream and ask for a list.
    List(ListRequest),
    /// Drop the present stream and ask for a watch.
    Watch(WatchRequest),
    /// End: the report says why.
    Stop,
}

impl Machine {
    /// Nothing is known yet. The seed makes the jitter: equal seeds give equal histories.
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

    /// Everything up to a version is known from elsewhere: the first thing is a watch from there. Should the version
    /// be too old, that is reported, and everything is listed.
    pub fn resume_from(&mut self, version: ResourceVersion) {
        self.phase = Phase::InitListed {
            limit: self.config.timeout,
        };
        self.last = version;
        self.resumed = true;
    }

    /// The first thing to do.
    pub fn start(&mut self) -> Next {
        match self.phase {
            Phase::InitListed { .. } => self.begin_watch(),
            _ => self.begin_list(),
        }
    }

    /// The shell sends its request now, after it has waited as told, or begins to listen: silence counts from here.
    pub fn asked(&mut self, now: Instant) {
        self.quiet_since = Some(now);
    }

    /// The newest version received.
    pub fn version(&self) -> &ResourceVersion {
        &self.last
    }

    /// Why the list under way replaces a watch; `None` for a first list.
    pub fn relist_reason(&self) -> Option<&Failure> {
        self.relist_reason.as_ref()
    }

    /// Whether a watch is open and shows what happens.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching { .. })
    }

    /// Whether the server has shown that it has no streaming lists, which others need not find out again.
    pub fn lacks_streaming_lists(&self) -> bool {
        matches!(self.streaming, Streaming::Unsupported { .. })
    }

    /// When to call [`Machine::step`] with [`Input::Late`] if nothing is received before.
    pub fn deadline(&self) -> Option<Instant> {
        let quiet_since = self.quiet_since?;
        match self.phase {
            Phase::Empty | Phase::Stopped => None,
            Phase::InitialWatch { opened: true } => Some(quiet_since + STREAMING_SILENCE),
            Phase::Watching { opened, limit, .. } => Some(quiet_since.max(opened + limit) + WATCH_GRACE),
            _ => Some(quiet_since + ANSWER_SILENCE),
        }
    }

    /// One thing was received.
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
            // Objects of the initial list come in any order of versions; one may even go before the list ends.
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

    /// In a list the object is left out. In a watch the state it had is kept, if it is known which object that is.
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

    /// The stream goes on as the watch.
    fn end_of_initial<O>(&mut self, version: ResourceVersion, now: Instant) -> Output<O> {
        let report = self.listed(version.clone());
        // The exact time asked for is no longer known; twice the least is the most.
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
            // The version was somebody else's; the state to begin with is the server's own.
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

    /// Whether the next request is another one than the one that failed: that can happen only a few times in a
    /// row, hence needs no wait.
    fn asks_for_more(&self, cure: Cure) -> bool {
        match cure {
            Cure::Relist(from) => self.stage() != Stage::Watch && from > self.from,
            Cure::Fallback => self.streaming == Streaming::On,
            Cure::Resume | Cure::ResumeOnce | Cure::Stop => false,
        }
    }

    /// The same request once more.
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

    /// Between the configured time and twice as much, as client-go: watches that began together end apart.
    fn watch_timeout(&mut self) -> Duration {
        self.config.timeout + self.config.timeout.mul_f64(self.chance.f64())
    }

    fn list_request(&self, token: String) -> ListRequest {
        let version = self.list_version();
        let paged = version.is_unset() && self.from != ListFrom::MostRecentWhole;
        ListRequest {
            // A version and a limit exclude each other: servers ignore one of the two.
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

    /// A list is complete. Returns a report if it is older than what was known.
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
