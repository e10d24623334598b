//! The event recorder: reports a controller's actions as `Event` objects.
//!
//! Notes about objects become writes of `v1` Events. Recording never waits and never fails: notes go into a bounded
//! queue, and are dropped and counted when it is full. Equal notes become one Event with a count; an object with too
//! many notes is rate limited; many notes that differ only in their message become one "(combined from similar
//! events)". The numbers are client-go's.

mod correlator;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use watchkeeper_client::{Client, DynamicApi, Error, ResourceType};
use watchkeeper_meta::{PatchKind, Resource, Time};
use watchkeeper_wire::Object;

use self::correlator::{Correlator, Outcome};

/// The length of the queue, as in client-go; further notes are dropped.
pub const QUEUE: usize = 1000;
/// The number of attempts to write a note, as in client-go.
pub const TRIES: u32 = 12;
/// The time between two attempts, as in client-go.
pub const RETRY_EVERY: Duration = Duration::from_secs(10);

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// For information.
    Normal,
    /// Something may need attention.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A note about an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The type.
    pub event_type: EventType,
    /// The reason: one word that programs can compare, such as `Created` or `FailedScheduling`.
    pub reason: String,
    /// The message, for people.
    pub message: String,
}

impl Note {
    /// For information.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason.into(), message.into())
    }

    /// Something may need attention.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason.into(), message.into())
    }

    fn new(event_type: EventType, reason: String, message: String) -> Self {
        Self {
            event_type,
            reason,
            message,
        }
    }
}

/// Records events about objects. Clones share one queue.
#[derive(Clone)]
pub struct Recorder {
    notes: mpsc::Sender<(Reference, Note)>,
    dropped: Arc<AtomicU64>,
    host: Arc<str>,
}

/// The writing task; wait for it with [`Writer::finish`] or [`Writer::drain`].
#[derive(Debug)]
pub struct Writer {
    task: JoinHandle<()>,
    closing: Arc<Notify>,
}

/// The object of an Event, and the reporting host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reference {
    host: Arc<str>,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    field_path: String,
}

impl Recorder {
    /// Starts writing Events as `component`, from `host` if that is known.
    pub fn start(client: &Client, component: impl Into<String>, host: Option<String>) -> (Self, Writer) {
        let (notes, waiting) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let sink = Sink {
            events: client.dynamic(events()),
            component: component.into(),
            correlator: Correlator::default(),
        };
        let closing = Arc::new(Notify::new());
        let task = tokio::spawn(sink.run(waiting, closing.clone()));
        let recorder = Self {
            notes,
            dropped,
            host: host.unwrap_or_default().into(),
        };
        (recorder, Writer { task, closing })
    }

    /// A recorder for another host that shares the queue.
    pub fn on_host(&self, host: &str) -> Self {
        Self {
            host: host.into(),
            ..self.clone()
        }
    }

    /// Records a note about an object. Returns at once.
    pub fn record(&self, object: &Object, note: Note) {
        self.record_at(object, "", note);
    }

    /// Like [`record`](Self::record), about the object of a struct.
    pub fn record_for<K: ResourceType>(&self, object: &K, note: Note) {
        let (resource, identity) = (K::resource(), object.identity());
        let kind = resource.group_version_kind();
        let about = Reference {
            host: self.host.clone(),
            field_path: String::new(),
            api_version: kind.api_version(),
            kind: kind.kind.into_owned(),
            namespace: identity.namespace,
            name: identity.name,
            uid: identity.uid,
        };
        self.send(about, note);
    }

    /// Records a note about a part of an object, such as `spec.containers{web}`.
    pub fn record_at(&self, object: &Object, field_path: &str, note: Note) {
        let about = Reference {
            host: self.host.clone(),
            field_path: field_path.to_owned(),
            api_version: object.api_version().into_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        };
        self.send(about, note);
    }

    fn send(&self, about: Reference, note: Note) {
        if self.notes.try_send((about, note)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of notes dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Writer {
    /// Waits until everything is written, which requires that every [`Recorder`] is dropped.
    pub async fn finish(self) {
        let _ = self.task.await;
    }

    /// Refuses new notes and waits until the queued ones are written.
    pub async fn drain(self) {
        self.closing.notify_one();
        self.finish().await;
    }
}

/// Writes notes as Events.
struct Sink {
    events: DynamicApi,
    component: String,
    correlator: Correlator,
}

impl Sink {
    async fn run(mut self, mut notes: mpsc::Receiver<(Reference, Note)>, closing: Arc<Notify>) {
        loop {
            let next = tokio::select! {
                biased;
                // Queued notes are still written.
                () = closing.notified(), if !notes.is_closed() => {
                    notes.close();
                    continue;
                }
                next = notes.recv() => next,
            };
            let Some((about, note)) = next else { return };
            let outcome = self
                .correlator
                .correlate(about, note, tokio::time::Instant::now());
            match self.write_patiently(&outcome).await {
                Err(error) if is_of_no_use(&error) => tracing::debug!(%error, "an Event was not written"),
                Err(error) => tracing::warn!(%error, "an Event was not written"),
                Ok(()) => {}
            }
        }
    }

    async fn write_patiently(&mut self, outcome: &Outcome) -> Result<(), Error> {
        let mut tries = 1;
        loop {
            match self.write(outcome).await {
                // The server refused it: a retry would not help.
                Err(error) if error.status().is_some() || tries >= TRIES => return Err(error),
                Err(_) => {
                    tries += 1;
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn write(&mut self, outcome: &Outcome) -> Result<(), Error> {
        match outcome {
            Outcome::Silent => Ok(()),
            Outcome::New { about, note, .. } => self.create(outcome, about, note).await,
            Outcome::Again {
                about,
                note,
                name,
                count,
            } => {
                let patch = json!({
                    "count": count,
                    "message": note.message,
                    "lastTimestamp": now().to_rfc3339(),
                });
                let events = self.events_of(about);
                match events.patch(name, PatchKind::Merge, &patch).await {
                    Err(error) if error.is_not_found() => self.create(outcome, about, note).await,
                    result => result.map(|_| ()),
                }
            }
        }
    }

    async fn create(&self, outcome: &Outcome, about: &Reference, note: &Note) -> Result<(), Error> {
        let event = self.event(outcome.name(), about, note, outcome.count());
        let created = self.events_of(about).create(&event).await;
        created.map(|_| ())
    }

    fn events_of(&self, about: &Reference) -> DynamicApi {
        self.events.clone().namespace(namespace_of(about))
    }

    fn event(&self, name: &str, about: &Reference, note: &Note, count: u64) -> Value {
        let now = now().to_rfc3339();
        let field_path = Some(&about.field_path).filter(|path| !path.is_empty());
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace_of(about)},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
                "fieldPath": field_path,
            },
            "type": note.event_type.as_str(),
            "reason": note.reason,
            "message": note.message,
            "source": {"component": self.component, "host": *about.host},
            "reportingComponent": self.component,
            "reportingInstance": *about.host,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": count,
        })
    }
}

/// True if a refused Event can be ignored: its namespace is being deleted. As in client-go.
fn is_of_no_use(error: &Error) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    details.is_some_and(|details| {
        let mut causes = details.causes.iter();
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    })
}

/// Events about cluster-scoped objects are in `default`.
fn namespace_of(about: &Reference) -> &str {
    match about.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

fn events() -> Resource {
    Resource::namespaced("", "v1", "Event", "events")
}

fn now() -> Time {
    watchkeeper_clock::now().into()
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}
