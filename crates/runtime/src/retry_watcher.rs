//! The retry watcher: delivers the changes after a version and resumes by itself, without ever listing.
//!
//! A watch that breaks or ends is opened again where it stopped, at most once a second. It ends when it is dropped,
//! when the version has expired, or when the server refuses; the last two are reported, because only the caller can
//! recover.
//!
//! The rules are client-go's but for one: an expired version always ends it. client-go retries forever if the 410
//! comes as an HTTP status.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use watchkeeper_client::DynamicApi;
//! # use watchkeeper_runtime::api_source::ApiSource;
//! use watchkeeper_runtime::retry_watcher::{Change, RetryWatcher};
//!
//! # async fn run(config_maps: DynamicApi) -> Result<(), Box<dyn std::error::Error>> {
//! let listed = config_maps.list().await?;
//! let source = Arc::new(ApiSource::new(config_maps));
//! let mut watcher = RetryWatcher::new(source, listed.head.resource_version)?;
//! while let Some(change) = watcher.next().await {
//!     if let Change::Added(object) = change? {
//!         println!("{} at {}", object.name(), watcher.version()); // where the next watch would begin
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::cmp::Ordering;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::future::poll_fn;
use tokio::time::{Instant, Sleep, sleep_until};
use watchkeeper_meta::{ResourceVersion, Status};

use crate::watcher::{
    ANSWER_SILENCE, Answer, Failure, Input, Opening, Source, Versioned, WATCH_GRACE, WATCH_TIMEOUT,
    WatchRequest,
};

/// The shortest time between two watches, as in client-go. A watch that lasted longer is replaced at once.
pub const RESTART_EVERY: Duration = Duration::from_secs(1);

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<O> {
    /// `ADDED`: an object was created, or started to match the selectors.
    Added(O),
    /// `MODIFIED`.
    Modified(O),
    /// `DELETED`: an object was deleted, or no longer matches; this is its last state.
    Deleted(O),
}

impl<O> Change<O> {
    /// The type on the wire: `ADDED`, `MODIFIED` or `DELETED`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Added(_) => "ADDED",
            Self::Modified(_) => "MODIFIED",
            Self::Deleted(_) => "DELETED",
        }
    }

    /// The object: its current or its last state.
    pub const fn object(&self) -> &O {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object,
        }
    }
}

/// A start version that is unset or `0`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("initial RV {:?} is not supported due to issues with underlying WATCH", version.as_str())]
pub struct InvalidStartError {
    /// The version given.
    pub version: ResourceVersion,
}

/// Changes after a version: a [`Stream`].
pub struct RetryWatcher<S: Source + ?Sized> {
    source: Arc<S>,
    version: ResourceVersion,
    state: State<S::Object>,
    opened: Option<Instant>,
    alarm: Alarm,
}

enum State<O> {
    /// A watch is to be opened, not before this.
    Closed {
        not_before: Option<Instant>,
    },
    /// Kept here, so that a cancelled call does not restart the request.
    Opening(Opening<O>),
    Open(Answer<O>),
    Ended,
}

impl<S: Source + ?Sized> RetryWatcher<S> {
    /// Starts after a version, which must not be unset or `0`.
    pub fn new(source: Arc<S>, version: ResourceVersion) -> Result<Self, InvalidStartError> {
        if version.is_unset() || version.is_any() {
            return Err(InvalidStartError { version });
        }
        Ok(Self {
            source,
            version,
            state: State::Closed { not_before: None },
            opened: None,
            alarm: Alarm::default(),
        })
    }

    /// The version up to which everything was received.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// The next change. An error is the last item: the version has expired, the server refuses, has gone back to an
    /// older state, or sends an object without a version or one that cannot be decoded.
    ///
    /// Cancel safe: dropping the future loses no change.
    pub async fn next(&mut self) -> Option<Result<Change<S::Object>, Failure>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Change<S::Object>, Failure>>> {
        loop {
            let opened = self.opened;
            let input = match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Closed { not_before } => {
                    let spaced = opened.map(|opened| opened + RESTART_EVERY);
                    if let Some(at) = spaced.max(*not_before) {
                        ready!(self.alarm.poll_at(at, cx));
                    }
                    self.ask();
                    continue;
                }
                State::Opening(opening) => match opening.as_mut().poll(cx) {
                    Poll::Ready(Ok(answer)) => {
                        self.state = State::Open(answer);
                        continue;
                    }
                    Poll::Ready(Err(failure)) => Input::Failed(failure),
                    Poll::Pending => ready!(self.alarm.poll_late(opened, ANSWER_SILENCE, cx)),
                },
                State::Open(answer) => match answer.poll_next_unpin(cx) {
                    Poll::Ready(next) => next.unwrap_or(Input::Ended),
                    // The server should have ended the watch; otherwise the connection is dead.
                    Poll::Pending => ready!(self.alarm.poll_late(opened, WATCH_TIMEOUT + WATCH_GRACE, cx)),
                },
            };
            if let Some(told) = self.receive(input) {
                return Poll::Ready(Some(told));
            }
        }
    }

    fn ask(&mut self) {
        let (resource, version) = (self.source.name(), self.version.as_str());
        match self.opened {
            None => tracing::debug!(v = 4, %resource, "Starting RetryWatcher"),
            Some(_) => {
                tracing::debug!(v = 4, %resource, resourceVersion = version, "Restarting RetryWatcher")
            }
        }
        self.opened = Some(Instant::now());
        let request = WatchRequest {
            version: self.version.clone(),
            initial_events: false,
            timeout: WATCH_TIMEOUT,
        };
        self.state = State::Opening(self.source.watch(request));
    }

    fn receive(&mut self, input: Input<S::Object>) -> Option<Result<Change<S::Object>, Failure>> {
        match input {
            Input::Added(object) => self.changed(object, Change::Added),
            Input::Modified(object) => self.changed(object, Change::Modified),
            Input::Deleted(object) => self.changed(object, Change::Deleted),
            // A bookmark without a version is ignored.
            Input::Bookmark { version, .. } if version.is_unset() => None,
            Input::Bookmark { version, .. } => self.reach(version).err().map(Err),
            Input::Failed(failure) | Input::Undecodable(failure) => self.failed(failure),
            Input::Ended | Input::Late => self.close(None),
            Input::Opened | Input::Item(_) | Input::PageEnd(_) => None,
        }
    }

    fn changed<T>(&mut self, object: S::Object, change: fn(S::Object) -> T) -> Option<Result<T, Failure>> {
        let version = ResourceVersion::new(object.resource_version());
        if version.is_unset() {
            self.state = State::Ended;
            let status = Status::internal_error("object without a resourceVersion");
            return Some(Err(status.into()));
        }
        Some(self.reach(version).map(|()| change(object)))
    }

    /// Moves to a version. A server that has gone back would repeat changes: that ends the watcher.
    fn reach(&mut self, version: ResourceVersion) -> Result<(), Failure> {
        let from = std::mem::replace(&mut self.version, version.clone());
        if version.compare(&from) != Some(Ordering::Less) {
            return Ok(());
        }
        self.state = State::Ended;
        Err(Failure::WentBack { from, to: version })
    }

    fn failed<T>(&mut self, failure: Failure) -> Option<Result<T, Failure>> {
        let unreadable = matches!(failure, Failure::Undecodable { .. });
        if failure.is_expired() || failure.is_refused() || unreadable {
            self.state = State::Ended;
            return Some(Err(failure));
        }
        tracing::debug!(
            error = &failure as &dyn std::error::Error,
            "watch failed, resuming"
        );
        self.close(failure.retry_after())
    }

    fn close<T>(&mut self, wait: Option<Duration>) -> Option<T> {
        let not_before = wait.map(|wait| Instant::now() + wait);
        self.state = State::Closed { not_before };
        None
    }
}

/// A timer that is reset for each wait.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready at this time.
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(cx)
    }

    /// Ready when more than `limit` has passed since the watch was opened.
    fn poll_late<O>(
        &mut self,
        asked: Option<Instant>,
        limit: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Input<O>> {
        let asked = asked.unwrap_or_else(Instant::now);
        self.poll_at(asked + limit, cx).map(|()| Input::Late)
    }
}

/// Nothing in it is pinned.
impl<S: Source + ?Sized> Unpin for RetryWatcher<S> {}

impl<S: Source + ?Sized> Stream for RetryWatcher<S> {
    type Item = Result<Change<S::Object>, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl<S: Source + ?Sized> std::fmt::Debug for RetryWatcher<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryWatcher")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, stream};
    use parking_lot::Mutex;
    use watchkeeper_meta::GroupResource;

    use super::*;
    use crate::watcher::{ListRequest, Opening};

    /// Answers each watch with the next line and records the requests.
    struct Script {
        answers: Mutex<Vec<Line>>,
        asked: Mutex<Vec<String>>,
        start: Instant,
    }

    type Line = Result<Vec<Input<&'static str>>, Failure>;

    impl Source for Script {
        type Object = &'static str;

        fn list(&self, _: ListRequest) -> Opening<&'static str> {
            unreachable!("a retry watcher never lists")
        }

        fn watch(&self, request: WatchRequest) -> Opening<&'static str> {
            let at = self.start.elapsed().as_secs_f64();
            self.asked
                .lock()
                .push(format!("{at:.1} s from {}", request.version));
            let mut answers = self.answers.lock();
            if answers.is_empty() {
                return std::future::pending().boxed();
            }
            let answer = answers.remove(0);
            async { Ok(stream::iter(answer?).boxed()) }.boxed()
        }
    }

    /// Runs until it ends or waits; returns the changes and the requests.
    async fn run(answers: Vec<Line>) -> (Vec<String>, Vec<String>) {
        let script = Arc::new(Script {
            answers: Mutex::new(answers),
            asked: Mutex::default(),
            start: Instant::now(),
        });
        let mut watcher = RetryWatcher::new(script.clone(), ResourceVersion::new("1")).unwrap();
        let mut told = Vec::new();
        while let Ok(next) = tokio::time::timeout(ANSWER_SILENCE / 2, StreamExt::next(&mut watcher)).await {
            told.push(match next {
                Some(Ok(Change::Added(object))) => format!("+{object}"),
                Some(Ok(Change::Modified(object))) => format!("~{object}"),
                Some(Ok(Change::Deleted(object))) => format!("-{object}"),
                Some(Err(failure)) => format!("! {failure}"),
                None => {
                    told.push("end".into());
                    break;
                }
            });
        }
        let asked = script.asked.lock().clone();
        (told, asked)
    }

    fn bookmark(version: &str) -> Input<&'static str> {
        Input::Bookmark {
            version: ResourceVersion::new(version),
            ends_initial: false,
        }
    }

    fn failed(status: Status) -> Input<&'static str> {
        Input::Failed(status.into())
    }

    #[test]
    fn a_start_without_a_version_is_refused() {
        for version in ["", "0"] {
            let script = Script {
                answers: Mutex::default(),
                asked: Mutex::default(),
                start: Instant::now(),
            };
            assert!(RetryWatcher::new(Arc::new(script), ResourceVersion::new(version)).is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ends_is_resumed_at_most_once_a_second() {
        let (told, asked) = run(vec![
            Ok(vec![Input::Added("a@2"), Input::Modified("a@3")]),
            Ok(vec![Input::Deleted("a@4"), bookmark("9")]),
        ])
        .await;
        assert_eq!(
            told,
            ["+a@2", "~a@3", "-a@4"],
            "with their types, and without bookmarks"
        );
        assert_eq!(asked, ["0.0 s from 1", "1.0 s from 3", "2.0 s from 9"]);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_in_any_form_is_told_and_ends() {
        for answers in [
            vec![Ok(vec![failed(Status::watch_expired())])],
            vec![Err(Status::watch_expired().into())],
            vec![Err(Status::gone("gone").into())],
        ] {
            let (told, asked) = run(answers).await;
            assert!(
                told.len() == 2 && told[0].starts_with("! ") && told[1] == "end",
                "{told:?}"
            );
            assert_eq!(asked.len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_told_and_ends() {
        let pods = GroupResource::new("", "pods");
        for status in [Status::forbidden(&pods, "", "no"), Status::unauthorized()] {
            let (told, _) = run(vec![Err(status.into())]).await;
            assert_eq!(told.last().map(String::as_str), Some("end"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_failures_are_retried_after_what_the_server_asks_for() {
        let (told, asked) = run(vec![
            Err(Status::internal_error("boom").into()),
            Ok(vec![failed(Status::too_many_requests("slow down", 5))]),
            Ok(vec![Input::Modified("a@2")]),
        ])
        .await;
        assert_eq!(told, ["~a@2"]);
        assert_eq!(asked[..3], ["0.0 s from 1", "1.0 s from 1", "6.0 s from 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bookmark_without_a_version_moves_nothing() {
        let (_, asked) = run(vec![Ok(vec![Input::Modified("a@2"), bookmark("")])]).await;
        assert_eq!(asked, ["0.0 s from 1", "1.0 s from 2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_has_gone_back_is_told_and_ends() {
        for older in [Input::Modified("a@3"), bookmark("3")] {
            let (told, _) = run(vec![Ok(vec![Input::Modified("a@9"), older])]).await;
            assert_eq!(told, ["~a@9", "! resource version went back from 9 to 3", "end"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_falls_silent_is_asked_again() {
        let script = Script {
            answers: Mutex::default(),
            asked: Mutex::default(),
            start: Instant::now(),
        };
        let script = Arc::new(script);
        let mut watcher = RetryWatcher::new(script.clone(), ResourceVersion::new("1")).unwrap();
        let _ = tokio::time::timeout(ANSWER_SILENCE * 3 / 2, watcher.next()).await;
        assert_eq!(*script.asked.lock(), ["0.0 s from 1", "60.0 s from 1"]);
    }

    /// Delays its answer.
    struct Slow;

    impl Source for Slow {
        type Object = &'static str;

        fn list(&self, _: ListRequest) -> Opening<&'static str> {
            unreachable!("a retry watcher never lists")
        }

        fn watch(&self, _: WatchRequest) -> Opening<&'static str> {
            async {
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok(stream::iter([Input::Modified("a@2")]).boxed())
            }
            .boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_gives_up_waiting_does_not_make_it_begin_anew() {
        let mut watcher = RetryWatcher::new(Arc::new(Slow), ResourceVersion::new("1")).unwrap();
        for _ in 0..10 {
            let next = tokio::time::timeout(Duration::from_millis(400), watcher.next()).await;
            if let Ok(Some(Ok(change))) = next {
                return assert_eq!(change, Change::Modified("a@2"));
            }
        }
        panic!("nothing came");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_without_a_version_is_told_and_ends() {
        let (told, _) = run(vec![Ok(vec![Input::Modified("a")])]).await;
        assert_eq!(told.last().map(String::as_str), Some("end"));
    }
}
