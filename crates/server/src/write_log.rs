//! The write log: every write over HTTP, with its changes.
//!
//! ```text
//! request ▶ handler ▶ store ─ changes ─▶ log ─ read ─▶ Writes: user, object, difference
//! ```
//!
//! The log keeps references to the store's values, and computes differences on demand. No-op writes are logged too: a
//! controller that sends one with every reconcile is not idle.

mod difference;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_meta::{Status, Time};
use watchkeeper_registry::{Clock, StoredObject};
use watchkeeper_storage::Change;

pub use self::difference::FieldChange;
use crate::Verb;
use crate::faults::Requester;
use crate::limits::MAX_LOGGED_WRITES;
use crate::request_info::{RequestInfo, ResourceInfo};

/// A write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// The time, by the server's clock.
    pub at: Time,
    /// The user.
    pub user: String,
    /// The `User-Agent`.
    pub user_agent: String,
    /// The verb.
    pub verb: String,
    /// The kind of the object.
    pub kind: String,
    /// The subresource: `status`, `scale`; usually empty.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The replaced version; `None` if there was none, or for a no-op write.
    pub previous: Option<u64>,
    /// The new version; `None` for a no-op write.
    pub revision: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Created, with this state.
    Created(Value),
    /// These fields changed, without managed fields.
    Changed(Vec<FieldChange>),
    /// Deleted; this was the last state.
    Deleted(Value),
    /// A no-op write.
    Unchanged,
}

/// Writes in order. It prints one per line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Writes(pub Vec<Write>);

/// A notification of an observer.
#[derive(Clone, Copy, Debug)]
pub enum Observed<'a> {
    /// A request, reads included, is about to be handled. The return value is ignored.
    Asked {
        /// The user.
        user: &'a str,
        /// The request.
        request: &'a RequestInfo,
    },
    /// A write is done; its response is not sent yet.
    Done(&'a Write),
    /// A write was rejected by the server itself, not by an injected fault.
    Refused {
        /// The user.
        user: &'a str,
        /// The request.
        request: &'a RequestInfo,
        /// The error.
        status: &'a Status,
    },
}

/// The fate of the response to an observed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// It is sent.
    Sent,
    /// The connection is closed before it.
    Lost,
}

type Observer = Arc<dyn Fn(Observed<'_>) -> Answering + Send + Sync>;

/// The log of one server; empty unless it is enabled.
#[derive(Default)]
pub(crate) struct WriteLog {
    noted: Option<Mutex<VecDeque<Noted>>>,
    observer: Mutex<Option<Observer>>,
}

/// A logged write.
#[derive(Clone, Debug)]
struct Noted {
    at: Time,
    requester: Requester,
    verb: String,
    resource: ResourceInfo,
    /// The kind in the request; a change may be of another kind.
    kind: String,
    change: Option<Arc<Change>>,
}

impl WriteLog {
    pub(crate) fn new(is_kept: bool) -> Self {
        Self {
            noted: is_kept.then(Mutex::default),
            observer: Mutex::default(),
        }
    }

    /// True if the writes of a request are logged.
    pub(crate) fn wants(&self, info: &RequestInfo) -> bool {
        self.noted.is_some() && info.resource.is_some() && info.is_mutating()
    }

    /// Replaces the observer.
    pub(crate) fn observe(&self, observer: Option<Observer>) {
        *self.observer.lock() = observer;
    }

    /// Notifies the observer of a request.
    pub(crate) fn asked(&self, user: &str, request: &RequestInfo) {
        if self.noted.is_none() {
            return;
        }
        let observer = self.observer.lock().clone();
        if let Some(observer) = observer {
            observer(Observed::Asked { user, request });
        }
    }

    /// Notifies the observer of a rejected request.
    pub(crate) fn refused(&self, user: &str, request: &RequestInfo, status: &Status) -> Answering {
        let observer = self.observer.lock().clone();
        let refused = Observed::Refused {
            user,
            request,
            status,
        };
        observer.map_or(Answering::Sent, |observer| observer(refused))
    }

    /// Logs the changes of a request. A successful no-op write is logged too.
    pub(crate) fn note(
        &self,
        requester: Requester,
        info: &RequestInfo,
        kind: &str,
        succeeded: bool,
        changes: Vec<Arc<Change>>,
    ) -> Answering {
        let mut answering = Answering::Sent;
        let (Some(noted), Some(resource)) = (&self.noted, &info.resource) else {
            return answering;
        };
        // Reviews and tokens are created too, and change nothing.
        let may_be_unchanged = succeeded && info.verb != Verb::Create.as_str();
        let unchanged = (changes.is_empty() && may_be_unchanged).then_some(None);
        let at = Clock.now();
        let observer = self.observer.lock().clone();
        for change in changes.into_iter().map(Some).chain(unchanged) {
            let write = Noted {
                at,
                requester: requester.clone(),
                verb: info.verb.clone(),
                resource: resource.clone(),
                kind: kind.to_owned(),
                change,
            };
            keep(&mut noted.lock(), write.clone());
            if let Some(observer) = &observer
                && observer(Observed::Done(&write.read())) == Answering::Lost
            {
                answering = Answering::Lost;
            }
        }
        answering
    }

    pub(crate) fn writes(&self) -> Writes {
        let noted: Vec<_> = self.noted.iter().flat_map(|noted| noted.lock().clone()).collect();
        Writes(noted.into_iter().map(Noted::read).collect())
    }

    pub(crate) fn clear(&self) {
        if let Some(noted) = &self.noted {
            noted.lock().clear();
        }
    }
}

/// Logs a write. Beyond the limit, the oldest is dropped.
fn keep(noted: &mut VecDeque<Noted>, write: Noted) {
    if noted.len() >= MAX_LOGGED_WRITES {
        noted.pop_front();
    }
    noted.push_back(write);
}

impl Noted {
    fn read(self) -> Write {
        let Self {
            at,
            requester,
            verb,
            resource,
            kind,
            change,
        } = self;
        let outcome = change.as_deref().map_or(Outcome::Unchanged, Outcome::of);
        let written = change.as_deref().and_then(|change| {
            let before = change.previous.as_ref().map(|(value, _)| value);
            change
                .value
                .as_ref()
                .or(before)
                .and_then(|value| object(&value.bytes()))
        });
        let text = |pointer: &str, otherwise: String| {
            let value = written.as_ref().and_then(|object| object.pointer(pointer));
            value.and_then(Value::as_str).map_or(otherwise, str::to_owned)
        };
        Write {
            at,
            user: requester.user,
            user_agent: requester.user_agent,
            verb,
            kind: text("/kind", kind),
            subresource: resource.subresource,
            namespace: text("/metadata/namespace", resource.namespace),
            name: text("/metadata/name", resource.name),
            previous: change.as_ref().and_then(|change| previous(change)),
            revision: change.map(|change| change.revision.get()),
            outcome,
        }
    }
}

impl Outcome {
    fn of(change: &Change) -> Self {
        let read = |bytes: &[u8]| object(bytes).unwrap_or_default();
        let before = change.previous.as_ref().map(|(value, _)| read(&value.bytes()));
        let after = change.value.as_ref().map(|value| read(&value.bytes()));
        match (before, after) {
            (None, after) => Self::Created(after.unwrap_or_default()),
            (Some(before), None) => Self::Deleted(before),
            (Some(before), Some(after)) => Self::Changed(difference::between(&before, &after)),
        }
    }
}

/// The version that a change replaced.
fn previous(change: &Change) -> Option<u64> {
    let previous = change.previous.as_ref();
    previous.map(|(_, revision)| revision.get())
}

/// The stored object, without managed fields.
fn object(bytes: &[u8]) -> Option<Value> {
    let mut value = StoredObject::read_any(bytes)?;
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Some(value)
}

impl Writes {
    /// Only writes that changed something.
    pub fn effective(mut self) -> Self {
        self.0.retain(|write| write.outcome != Outcome::Unchanged);
        self
    }

    /// Only writes of one user, or of programs whose `User-Agent` starts with this.
    pub fn by(mut self, who: &str) -> Self {
        self.0
            .retain(|write| write.user == who || write.user_agent.starts_with(who));
        self
    }

    /// Only writes of one kind.
    pub fn of_kind(mut self, kind: &str) -> Self {
        self.0.retain(|write| write.kind == kind);
        self
    }

    /// Without the writes of one kind, such as the leases that an operator at rest renews.
    pub fn except_kind(mut self, kind: &str) -> Self {
        self.0.retain(|write| write.kind != kind);
        self
    }

    /// Only writes of one name.
    pub fn named(mut self, name: &str) -> Self {
        self.0.retain(|write| write.name == name);
        self
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|write| writeln!(f, "{write}"))
    }
}

/// `admin patch ConfigMap default/web: data.colour "blue" → "red"`.
impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.user, self.verb, self.kind)?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}: {}", self.name, self.outcome)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created(_) => f.write_str("created"),
            Self::Deleted(_) => f.write_str("deleted"),
            Self::Unchanged => f.write_str("unchanged"),
            Self::Changed(fields) if fields.is_empty() => f.write_str("managed fields"),
            Self::Changed(fields) => {
                let fields: Vec<_> = fields.iter().map(FieldChange::to_string).collect();
                f.write_str(&fields.join(", "))
            }
        }
    }
}
