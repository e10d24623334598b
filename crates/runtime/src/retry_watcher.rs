//! The retry watcher: changes after a version, resumed by itself, without ever listing.
//!
//! In flows a version; out flow the changes after it. A watch that breaks or ends is opened again where it stopped,
//! at most once a second. It ends when told to (drop it), when the version is no longer kept, and when the server
//! refuses: those are told, and nobody but the caller can help.
//!
//! The rules are client-go's but for one: a version that has expired ends it in every form. There, the same answer
//! as an HTTP status is retried for ever.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::Instant;
use watchkeeper_meta::{ResourceVersion, Status};

use crate::watcher::{Answer, Failure, Input, Source, Versioned, WATCH_TIMEOUT, WatchRequest};

/// Watches are opened at least this far apart, as client-go's. A watch that lasted longer is replaced at once.
pub const RESTART_EVERY: Duration = Duration::from_secs(1);

/// What a retry watcher tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<O> {
    /// An object was added or has changed.
    Applied(O),
    /// An object is gone.
    Deleted(O),
}

/// A version to begin at that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("initial resource version {version:?} is not supported due to issues with underlying watch")]
pub struct InvalidStartError {
    /// The version given.
    pub version: ResourceVersion,
}

/// Changes after a version.
pub struct RetryWatcher<S: Source + ?Sized> {
    source: Arc<S>,
    version: ResourceVersion,
    state: State<S::Object>,
    opened: Option<Instant>,
}

enum State<O> {
    /// A watch is to be opened, not before this.
    Closed {
        not_before: Option<Instant>,
    },
    Open(Answer<O>),
    Ended,
}

impl<S: Source + ?Sized> RetryWatcher<S> {
    /// Begins after a version. Neither none nor `0` names one.
    pub fn new(source: Arc<S>, version: ResourceVersion) -> Result<Self, InvalidStartError> {
        if version.is_unset() || version.is_any() {
            return Err(InvalidStartError { version });
        }
        Ok(Self {
            source,
            version,
            state: State::Closed { not_before: None },
            opened: None,
        })
    }

    /// The version up to which everything was received.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// The next change. An error is the last thing told: the version is too old, the server refuses, or it sends
    /// something that has no version.
    ///
    /// May be dropped at any await without losing a change.
    pub async fn next(&mut self) -> Option<Result<Change<S::Object>, Failure>> {
        loop {
            let input = match &mut self.state {
                State::Ended => return None,
                State::Closed { not_before } => {
                    let at = *not_before;
                    match self.open(at).await {
                        Ok(()) => continue,
                        Err(failure) => Input::Failed(failure),
                    }
                }
                State::Open(answer) => answer.next().await.unwrap_or(Input::Ended),
            };
            if let Some(told) = self.receive(input) {
                return Some(told);
            }
        }
    }

    async fn open(&mut self, not_before: Option<Instant>) -> Result<(), Failure> {
        let spaced = self.opened.map(|opened| opened + RESTART_EVERY);
        if let Some(at) = spaced.max(not_before) {
            tokio::time::sleep_until(at).await;
        }
        self.opened = Some(Instant::now());
        let request = WatchRequest {
            version: self.version.clone(),
            initial_events: false,
            timeout: WATCH_TIMEOUT,
        };
        self.state = State::Open(self.source.watch(request).await?);
        Ok(())
    }

    fn receive(&mut self, input: Input<S::Object>) -> Option<Result<Change<S::Object>, Failure>> {
        match input {
            Input::Applied(object) => self.changed(object, Change::Applied),
            Input::Deleted(object) => self.changed(object, Change::Deleted),
            Input::Bookmark { version, .. } => {
                self.version = version;
                None
            }
            Input::Failed(failure) | Input::Undecodable(failure) => self.failed(failure),
            Input::Ended => self.close(None),
            Input::Opened | Input::Item(_) | Input::PageEnd(_) | Input::Late => None,
        }
    }

    fn changed<T>(&mut self, object: S::Object, change: fn(S::Object) -> T) -> Option<Result<T, Failure>> {
        let version = ResourceVersion::new(object.resource_version());
        if version.is_unset() {
            self.state = State::Ended;
            let status = Status::internal_error("object without a resourceVersion");
            return Some(Err(status.into()));
        }
        self.version = version;
        Some(Ok(change(object)))
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

    /// Answers each watch with the next line and writes down what was asked for and when.
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

    /// Runs until it ends or waits, and returns what it told and asked.
    async fn run(answers: Vec<Line>) -> (Vec<String>, Vec<String>) {
        let script = Arc::new(Script {
            answers: Mutex::new(answers),
            asked: Mutex::default(),
            start: Instant::now(),
        });
        let mut watcher = RetryWatcher::new(script.clone(), ResourceVersion::new("1")).unwrap();
        let mut told = Vec::new();
        while let Ok(next) = tokio::time::timeout(Duration::from_secs(600), watcher.next()).await {
            told.push(match next {
                Some(Ok(Change::Applied(object))) => format!("+{object}"),
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
            Ok(vec![Input::Applied("a@2")]),
            Ok(vec![Input::Deleted("a@3"), bookmark("9")]),
        ])
        .await;
        assert_eq!(told, ["+a@2", "-a@3"], "bookmarks are not told");
        assert_eq!(asked, ["0.0 s from 1", "1.0 s from 2", "2.0 s from 9"]);
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
            Ok(vec![Input::Applied("a@2")]),
        ])
        .await;
        assert_eq!(told, ["+a@2"]);
        assert_eq!(asked[..3], ["0.0 s from 1", "1.0 s from 1", "6.0 s from 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_without_a_version_is_told_and_ends() {
        let (told, _) = run(vec![Ok(vec![Input::Applied("a")])]).await;
        assert_eq!(told.last().map(String::as_str), Some("end"));
    }
}
