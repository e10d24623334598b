//! The watched state, as plain data.
//! It receives the events of a follower, one stream per kind, and provides views: kinds with counts and rates, objects,
//! the log. Until a stream is first synced, `ADDED` is an existing object: it is added to the board and not logged.
//! Later events are logged, including those found by comparison after a restart.
//! The log is a ring, bounded by entries and by the bytes of the object states it retains. A reader that asks for
//! dropped entries gets their number.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::Value;
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_recording::{Author, Update};
use watchkeeper_runtime::follow::FollowEvent;
use watchkeeper_wire::Object;

use crate::kept::Kept;
use crate::rate::Rate;

/// The largest number of log entries. At 100 events a second, this is the last minute and a half.
pub const MAX_ENTRIES: usize = 10_000;

/// The largest size of the object states that only the log retains, before they are packed.
pub const MAX_LOG_BYTES: usize = 32 << 20;

/// The watched state of a cluster.
#[derive(Debug, Default)]
pub struct Board {
    kinds: Vec<KindBoard>,
    log: VecDeque<Arc<Entry>>,
    log_bytes: usize,
    /// The sequence number of the next entry.
    next: u64,
    /// Incremented by every change, so that readers can detect changes.
    revision: u64,
}

/// One kind.
#[derive(Debug)]
pub struct KindBoard {
    /// The name of its stream: `deployments.apps`.
    pub name: Arc<str>,
    /// The watched resource.
    pub resource: Resource,
    /// The state of the stream.
    pub state: StreamState,
    objects: BTreeMap<ObjectKey, Kept>,
    /// The last object that was stored whole: new objects are packed against it.
    whole: Option<Kept>,
    rate: Rate,
    /// Logged events since the start.
    events: u64,
    has_synced: bool,
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// The first list, or one after a restart, is being read.
    Syncing,
    /// Events are received.
    Live,
    /// The last attempt failed and is retried. The objects are those last seen.
    Failing {
        /// The error.
        reason: String,
    },
}

/// A log entry.
#[derive(Debug)]
pub struct Entry {
    /// Counts up by one; the first entry is 0.
    pub sequence: u64,
    /// The time of reception.
    pub at: Timestamp,
    /// The stream.
    pub stream: Arc<str>,
    /// The content.
    pub what: Happening,
}

/// The kinds of log entries.
#[derive(Debug)]
pub enum Happening {
    /// An object was added, modified or deleted.
    Change(Change),
    /// A stream's version expired and it listed again. Missed events follow as changes.
    Restarted {
        /// Why.
        reason: String,
    },
    /// A stream failed and is retried.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A change of one object.
#[derive(Debug)]
pub struct Change {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub event: &'static str,
    /// The object.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Box<str>,
    /// The version after the change.
    pub version: Box<str>,
    /// The last author, from managed fields: `kubectl (Apply)`.
    pub who: Option<Box<str>>,
    /// The previous state; `None` for an object that is new or was unknown.
    pub old: Option<Kept>,
    /// The new state; for a delete the last state, if it was seen.
    pub new: Option<Kept>,
    /// True for a delete that was found by comparison with a later list.
    pub inferred: bool,
    /// True if nothing but versions, managed fields and heartbeat times changed; computed when first asked for.
    is_heartbeat: OnceLock<bool>,
}

impl Entry {
    /// True for Kubernetes Events, metrics and heartbeats: most of what changes in a quiet cluster.
    pub fn is_background(&self) -> bool {
        let Happening::Change(change) = &self.what else {
            return false;
        };
        let kind = self.stream.split(' ').next().unwrap_or_default();
        let is_report = kind == "events" || kind.starts_with("events.") || kind.ends_with(".metrics.k8s.io");
        is_report || change.is_heartbeat()
    }
}

impl Change {
    /// The changed fields of an update. Empty for added and deleted objects.
    pub fn update(&self) -> Update {
        if self.event != "MODIFIED" {
            return Update::default();
        }
        let (old, new) = (&self.old, &self.new);
        match (
            old.as_ref().and_then(Kept::object),
            new.as_ref().and_then(Kept::object),
        ) {
            (Some(old), Some(new)) => Update::between(Some(&old), &new).unwrap_or_default(),
            _ => Update::default(),
        }
    }

    fn is_heartbeat(&self) -> bool {
        let compute = || self.event == "MODIFIED" && self.update().changes.is_empty();
        *self.is_heartbeat.get_or_init(compute)
    }

    fn bytes(&self) -> usize {
        let size = |state: &Option<Kept>| state.as_ref().map_or(0, Kept::unpacked_size);
        size(&self.old) + size(&self.new)
    }
}

/// The log entries that a reader has not seen.
#[derive(Debug, Default)]
pub struct Unseen {
    /// Oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// The number of dropped entries before these.
    pub missed: u64,
}

/// Feeding.
impl Board {
    /// Adds a kind in the state `Syncing`. Returns its index.
    pub fn add(&mut self, name: Arc<str>, resource: Resource) -> usize {
        self.revision += 1;
        self.kinds.push(KindBoard {
            name,
            resource,
            state: StreamState::Syncing,
            objects: BTreeMap::new(),
            whole: None,
            rate: Rate::default(),
            events: 0,
            has_synced: false,
        });
        self.kinds.len() - 1
    }

    /// Removes the objects of a kind that is no longer served. The kind stays, so that indexes stay valid.
    pub fn retire(&mut self, kind: usize, reason: &str, now: Timestamp) {
        self.kinds[kind].objects.clear();
        self.kinds[kind].whole = None;
        self.fail(kind, reason, now);
    }

    /// Applies an event of a stream.
    pub fn note(&mut self, kind: usize, event: &FollowEvent, now: Timestamp) {
        self.revision += 1;
        match event {
            FollowEvent::Added(object) | FollowEvent::Modified(object) => {
                self.put(kind, event.kind(), object, now);
            }
            FollowEvent::Deleted(gone) => {
                let board = &mut self.kinds[kind];
                let new = gone.last.as_ref().map(|last| board.pack(last));
                let old = board.objects.remove(&gone.key);
                let change = Change {
                    event: event.kind(),
                    key: gone.key.clone(),
                    uid: gone.uid.clone(),
                    version: gone.version.as_str().into(),
                    who: None,
                    old,
                    new,
                    inferred: gone.last.is_none(),
                    is_heartbeat: OnceLock::new(),
                };
                self.log_change(kind, change, now);
            }
            FollowEvent::Synced(_) => {
                self.kinds[kind].state = StreamState::Live;
                self.kinds[kind].has_synced = true;
            }
            FollowEvent::Restarted(restart) => {
                self.kinds[kind].state = StreamState::Syncing;
                let reason = restart.reason.clone();
                self.log(kind, Happening::Restarted { reason }, 0, now);
            }
            FollowEvent::Bookmark(_) => self.kinds[kind].state = StreamState::Live,
        }
    }

    /// Records a failure of a stream. A repeated failure is not logged again.
    pub fn fail(&mut self, kind: usize, reason: &str, now: Timestamp) {
        let state = StreamState::Failing {
            reason: reason.to_owned(),
        };
        if self.kinds[kind].state != state {
            self.revision += 1;
            self.kinds[kind].state = state;
            let reason = reason.to_owned();
            self.log(kind, Happening::Failed { reason }, 0, now);
        }
    }

    /// Logs a failure of one object. The stream continues.
    pub fn remark(&mut self, kind: usize, reason: &str, now: Timestamp) {
        self.revision += 1;
        let reason = reason.to_owned();
        self.log(kind, Happening::Failed { reason }, 0, now);
    }

    fn put(&mut self, kind: usize, event: &'static str, object: &Object, now: Timestamp) {
        let board = &mut self.kinds[kind];
        let kept = board.pack(object);
        let old = board.objects.insert(object.key(), kept.clone());
        if !board.has_synced {
            return;
        }
        if board.state != StreamState::Syncing {
            board.state = StreamState::Live;
        }
        let change = Change {
            event,
            key: object.key(),
            uid: object.uid().into(),
            version: object.resource_version().into(),
            who: Author::latest(object).map(|author| author.to_string().into()),
            old,
            new: Some(kept),
            inferred: false,
            is_heartbeat: OnceLock::new(),
        };
        self.log_change(kind, change, now);
    }

    fn log_change(&mut self, kind: usize, change: Change, now: Timestamp) {
        self.kinds[kind].rate.note(now);
        self.kinds[kind].events += 1;
        let bytes = change.bytes();
        self.log(kind, Happening::Change(change), bytes, now);
    }

    fn log(&mut self, kind: usize, what: Happening, bytes: usize, now: Timestamp) {
        self.log.push_back(Arc::new(Entry {
            sequence: self.next,
            at: now,
            stream: self.kinds[kind].name.clone(),
            what,
        }));
        self.next += 1;
        self.log_bytes += bytes;
        while self.log.len() > MAX_ENTRIES || self.log_bytes > MAX_LOG_BYTES {
            let Some(oldest) = self.log.pop_front() else { break };
            if let Happening::Change(change) = &oldest.what {
                self.log_bytes -= change.bytes();
            }
        }
    }
}

/// Asking.
impl Board {
    /// All kinds, in the order they were added.
    pub fn kinds(&self) -> &[KindBoard] {
        &self.kinds
    }

    /// The kind of a stream.
    pub fn kind(&self, name: &str) -> Option<&KindBoard> {
        self.kinds.iter().find(|kind| &*kind.name == name)
    }

    /// Increases with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The sequence number the next entry will have.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The entries from `sequence` on, at most the newest `limit` of them.
    pub fn unseen(&self, sequence: u64, limit: usize) -> Unseen {
        let first = self.log.front().map_or(self.next, |entry| entry.sequence);
        let newest = self.next.saturating_sub(limit as u64);
        let from = sequence.max(first).max(newest).min(self.next);
        Unseen {
            entries: self.log.range((from - first) as usize..).cloned().collect(),
            missed: from.saturating_sub(sequence),
        }
    }

    /// The logged changes of one object, oldest first. `uid` distinguishes objects of the same name.
    pub fn history(&self, stream: &str, key: &ObjectKey) -> Vec<Arc<Entry>> {
        let is_about = |entry: &&Arc<Entry>| {
            &*entry.stream == stream && matches!(&entry.what, Happening::Change(change) if change.key == *key)
        };
        self.log.iter().filter(is_about).cloned().collect()
    }
}

impl KindBoard {
    /// The number of objects.
    pub fn count(&self) -> usize {
        self.objects.len()
    }

    /// The objects, by namespace and name, in the order of a list.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Kept)> {
        self.objects.iter()
    }

    /// One object.
    pub fn object(&self, key: &ObjectKey) -> Option<Object> {
        self.objects.get(key)?.object()
    }

    /// Packs an object against its previous version, or else against another of this kind.
    fn pack(&mut self, object: &Object) -> Kept {
        let previous = self.objects.get(&object.key());
        let kept = Kept::new(object, previous.into_iter().chain(&self.whole));
        if kept.is_whole() {
            self.whole = Some(kept.clone());
        }
        kept
    }

    /// Events per second, over the last ten seconds.
    pub fn rate(&self, now: Timestamp) -> f64 {
        self.rate.per_second(now)
    }

    /// Events since the first list.
    pub fn events(&self) -> u64 {
        self.events
    }
}

/// The state of an object for display, without `managedFields`.
pub fn readable(object: &Object) -> Value {
    object.to_value().unwrap_or_default()
}

#[cfg(test)]
mod tests;
