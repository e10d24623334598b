//! A watcher: resumes at its version, takes a snapshot if it cannot, and records everything.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use watchkeeper_client::{WatchEvent, WatchStream};
use watchkeeper_meta::{ListOptions, ResourceVersion, WatchOptions};

use crate::objects::{Objects, Stop, number, text};
use crate::promises::{Event, History, Kind, Seen, Selection, Session, Start};

/// Marks the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A server may end a watch at any time, but must deliver something now and then.
const MAX_RECONNECTS: usize = 20;

/// One watcher and its history.
pub(crate) struct Watcher {
    pub(crate) history: History,
    stream: Option<WatchStream>,
    patience: Duration,
}

/// The result of waiting for an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Something,
    /// The stream has ended, which is allowed.
    Ended,
    /// Nothing arrived in time.
    TimedOut,
}

impl Watcher {
    pub(crate) fn new(selection: Selection, patience: Duration) -> Self {
        let history = History {
            selection,
            ..History::default()
        };
        Self {
            history,
            stream: None,
            patience,
        }
    }

    /// The version up to which everything has been seen.
    pub(crate) fn position(&self) -> u64 {
        self.history.sessions.last().map_or(0, Session::position)
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    fn can_resume(&self) -> bool {
        let last = self.history.sessions.last();
        last.is_some_and(|session| !session.expired())
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    pub(crate) fn disconnect(&mut self) {
        self.stream = None;
    }

    /// Resumes, or starts again with a list.
    pub(crate) async fn connect(&mut self, objects: &Objects) -> Result<(), Stop> {
        match self.can_resume() {
            true => self.resume_at(self.position(), objects, None).await,
            false => self.list(objects, None).await,
        }
    }

    /// Watches the changes after a version, until the server ends the stream: after `timeout_seconds`, if given.
    pub(crate) async fn resume_at(
        &mut self,
        version: u64,
        objects: &Objects,
        timeout_seconds: Option<u64>,
    ) -> Result<(), Stop> {
        self.begin(Start::Resumed(version));
        self.watch_after(version, objects, timeout_seconds).await
    }

    /// Starts again with a list.
    pub(crate) async fn list(&mut self, objects: &Objects, timeout_seconds: Option<u64>) -> Result<(), Stop> {
        let listed = objects
            .list(&self.history.selection, ListOptions::default())
            .await?;
        let version = listed.version;
        self.begin(Start::Snapshot {
            version,
            objects: listed.objects,
        });
        self.watch_after(version, objects, timeout_seconds).await
    }

    async fn watch_after(
        &mut self,
        version: u64,
        objects: &Objects,
        timeout_seconds: Option<u64>,
    ) -> Result<(), Stop> {
        let options = WatchOptions {
            resource_version: text(version),
            ..self.options(objects, timeout_seconds)
        };
        match objects.api.watch().with(&options).await {
            Ok(stream) => self.stream = Some(stream),
            Err(error) if error.is_expired() => self.expire(),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Starts again with the initial events of a watch, up to their final bookmark.
    pub(crate) async fn stream_list(&mut self, objects: &Objects) -> Result<(), Stop> {
        let options = WatchOptions {
            resource_version: ResourceVersion::unset(),
            send_initial_events: Some(true),
            ..self.options(objects, None)
        };
        for _ in 0..MAX_RECONNECTS {
            let opened = objects.api.watch().with(&options).await;
            let stream = opened.map_err(|error| match error.is_invalid() || error.is_bad_request() {
                true => Stop::Skipped(format!("the server has no streaming lists: {error}")),
                false => error.into(),
            })?;
            if self.initial_events(stream, objects).await? == Read::Something {
                return Ok(());
            }
        }
        Err(Stop::Broken(format!(
            "{MAX_RECONNECTS} streams ended within their initial events"
        )))
    }

    async fn initial_events(&mut self, mut stream: WatchStream, objects: &Objects) -> Result<Read, Stop> {
        let deadline = Instant::now() + self.patience;
        let mut initial = BTreeMap::new();
        loop {
            let next = timeout_at(deadline, stream.next()).await;
            let Some(Ok(event)) = next.map_err(|_| never_ended(self.patience, initial.len()))? else {
                return Ok(Read::Ended);
            };
            match event {
                WatchEvent::Added(object) => {
                    let value = object.to_value().map_err(|error| error.to_string())?;
                    if let Some((name, state)) = objects.read(&value)?
                        && initial.insert(name.clone(), state).is_some()
                    {
                        return Err(Stop::Broken(format!(
                            "{name} came twice among the initial events"
                        )));
                    }
                }
                WatchEvent::Bookmark(object) => {
                    if object.annotation(INITIAL_EVENTS_END).as_deref() != Some("true") {
                        continue;
                    }
                    self.begin(Start::Snapshot {
                        version: number(object.resource_version())?,
                        objects: initial,
                    });
                    self.stream = Some(stream);
                    return Ok(Read::Something);
                }
                other => {
                    return Err(Stop::Broken(format!(
                        "{:?} came among the initial events",
                        other.kind()
                    )));
                }
            }
        }
    }

    fn options(&self, objects: &Objects, timeout_seconds: Option<u64>) -> WatchOptions {
        WatchOptions {
            label_selector: objects.label_selector(&self.history.selection),
            field_selector: objects.field_selector(&self.history.selection),
            allow_bookmarks: true,
            timeout_seconds,
            ..WatchOptions::default()
        }
    }

    /// Reads, and reconnects when the stream ends, until a version is reached; otherwise `TimedOut`.
    pub(crate) async fn read_to(&mut self, version: u64, objects: &Objects) -> Result<Read, Stop> {
        let deadline = Instant::now() + self.patience;
        let mut reconnects = 0;
        while self.position() < version {
            if !self.is_connected() {
                if reconnects == MAX_RECONNECTS {
                    return Ok(Read::TimedOut);
                }
                reconnects += 1;
                self.connect(objects).await?;
                continue;
            }
            if self.read_until(deadline, objects).await? == Read::TimedOut {
                return Ok(Read::TimedOut);
            }
        }
        Ok(Read::Something)
    }

    /// Reads one event of the open stream.
    pub(crate) async fn read_until(&mut self, deadline: Instant, objects: &Objects) -> Result<Read, Stop> {
        let Some(stream) = &mut self.stream else {
            return Ok(Read::Ended);
        };
        let event = match timeout_at(deadline, stream.next()).await {
            Err(_) => return Ok(Read::TimedOut),
            // A connection may break at any time; the watcher resumes.
            Ok(None | Some(Err(_))) => {
                self.stream = None;
                return Ok(Read::Ended);
            }
            Ok(Some(Ok(event))) => event,
        };
        self.take(event, objects)?;
        Ok(Read::Something)
    }

    fn take(&mut self, event: WatchEvent, objects: &Objects) -> Result<(), Stop> {
        let (kind, object) = match event {
            WatchEvent::Added(object) => (Kind::Added, object),
            WatchEvent::Modified(object) => (Kind::Modified, object),
            WatchEvent::Deleted(object) => (Kind::Deleted, object),
            WatchEvent::Bookmark(object) => {
                let version = number(object.resource_version())?;
                self.push(Seen::Bookmark(version));
                return Ok(());
            }
            WatchEvent::Error(status) if status.is_expired() => {
                self.expire();
                return Ok(());
            }
            WatchEvent::Error(status) => {
                return Err(Stop::Broken(format!("the watch ended with {}", status.message)));
            }
            WatchEvent::Undecodable(bad) => {
                return Err(Stop::Broken(format!(
                    "an event that cannot be read: {}",
                    bad.error
                )));
            }
        };
        let value = object.to_value().map_err(|error| error.to_string())?;
        if let Some((name, state)) = objects.read(&value)? {
            let version = number(object.resource_version())?;
            self.push(Seen::Event(Event {
                version,
                kind,
                name,
                state,
            }));
        }
        Ok(())
    }

    /// Only the server knows the start of its history.
    fn expire(&mut self) {
        self.push(Seen::Expired { compacted: u64::MAX });
        self.stream = None;
    }

    fn begin(&mut self, start: Start) {
        let seen = Vec::new();
        self.history.sessions.push(Session { start, seen });
    }

    fn push(&mut self, seen: Seen) {
        if let Some(session) = self.history.sessions.last_mut() {
            session.seen.push(seen);
        }
    }
}

fn never_ended(patience: Duration, came: usize) -> Stop {
    Stop::Broken(format!(
        "no bookmark annotated {INITIAL_EVENTS_END} within {patience:?}; {came} objects came"
    ))
}
