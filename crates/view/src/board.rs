//! What is being watched, as plain data.
//!
//! In flow the events of a follower, one stream per kind; out flow views: kinds with counts and rates, objects, the log.
//! Until a stream is first synced, `ADDED` describes what was there before anybody looked: it fills the board and is not
//! logged. From then on every event is logged, those found by comparison after a restart included.
//!
//! The log is a ring, bounded by entries and by the bytes of the object states it keeps alive. A reader that asks for
//! entries it has missed is told how many are gone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_recording::{Author, Update};
use watchkeeper_runtime::follow::FollowEvent;
use watchkeeper_wire::{Object, ObjectOptions};

use crate::rate::Rate;

/// Entries the log keeps. At 100 events a second, this is the last minute and a half.
pub const MAX_ENTRIES: usize = 10_000;

/// Bytes of object states the log keeps alive, besides those that are still current.
pub const MAX_LOG_BYTES: usize = 32 << 20;

/// Everything that is being watched.
#[derive(Debug, Default)]
pub struct Board {
    kinds: Vec<KindBoard>,
    log: VecDeque<Arc<Entry>>,
    log_bytes: usize,
    /// The sequence number of the next entry.
    next: u64,
    /// Counts every change to anything, so that readers can tell whether to look again.
    revision: u64,
}

/// One kind.
#[derive(Debug)]
pub struct KindBoard {
    /// The name of its stream: `deployments.apps`.
    pub name: Arc<str>,
    /// What is watched.
    pub resource: Resource,
    /// How the stream is doing.
    pub state: StreamState,
    objects: BTreeMap<ObjectKey, Object>,
    rate: Rate,
    /// Logged events since the start.
    events: u64,
    has_synced: bool,
}

/// How a stream is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// The first list, or one after a restart, is being read.
    Syncing,
    /// All that happens is seen.
    Live,
    /// The last attempt failed; it is tried again. The objects shown are those last seen.
    Failing {
        /// Why, as the server or the connection said it.
        reason: String,
    },
}

/// Something that happened.
#[derive(Debug)]
pub struct Entry {
    /// Counts up by one; the first entry is 0.
    pub sequence: u64,
    /// When it was received.
    pub at: Timestamp,
    /// The stream.
    pub stream: Arc<str>,
    /// What.
    pub what: Happening,
}

/// The kinds of log entries.
#[derive(Debug)]
pub enum Happening {
    /// An object came, changed or went.
    Change(Change),
    /// A stream lost its version and began anew with a list. What it missed follows as changes.
    Restarted {
        /// Why.
        reason: String,
    },
    /// A stream failed and is tried again.
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
    /// Which object.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Box<str>,
    /// The version after the change.
    pub version: Box<str>,
    /// Who wrote last, if managed fields tell: `kubectl (Apply)`.
    pub who: Option<Box<str>>,
    /// The state before; `None` for an object that is new or was not held.
    pub old: Option<Object>,
    /// The state after; for a delete the last state, if it was seen.
    pub new: Option<Object>,
    /// True for a delete that was found by comparison with a later list.
    pub inferred: bool,
}

impl Change {
    /// The fields that an update changed. Empty for objects that came or went.
    pub fn update(&self) -> Update {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) if self.event == "MODIFIED" => {
                Update::between(Some(old), new).unwrap_or_default()
            }
            _ => Update::default(),
        }
    }

    fn bytes(&self) -> usize {
        let size = |state: &Option<Object>| state.as_ref().map_or(0, Object::memory_size);
        size(&self.old) + size(&self.new)
    }
}

/// What a reader of the log has not seen yet.
#[derive(Debug, Default)]
pub struct Unseen {
    /// Oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// How many between those seen before and these are gone.
    pub missed: u64,
}

/// Feeding.
impl Board {
    /// Adds a kind, which is syncing. Returns its number.
    pub fn add(&mut self, name: Arc<str>, resource: Resource) -> usize {
        self.revision += 1;
        self.kinds.push(KindBoard {
            name,
            resource,
            state: StreamState::Syncing,
            objects: BTreeMap::new(),
            rate: Rate::default(),
            events: 0,
            has_synced: false,
        });
        self.kinds.len() - 1
    }

    /// Removes the objects of a kind that is no longer served. The kind stays, so that numbers stay.
    pub fn retire(&mut self, kind: usize, reason: &str, now: Timestamp) {
        self.kinds[kind].objects.clear();
        self.fail(kind, reason, now);
    }

    /// Takes in an event of a stream.
    pub fn note(&mut self, kind: usize, event: &FollowEvent, now: Timestamp) {
        self.revision += 1;
        match event {
            FollowEvent::Added(object) | FollowEvent::Modified(object) => {
                self.put(kind, event.kind(), object, now);
            }
            FollowEvent::Deleted(gone) => {
                let old = self.kinds[kind].objects.remove(&gone.key);
                let change = Change {
                    event: event.kind(),
                    key: gone.key.clone(),
                    uid: gone.uid.clone(),
                    version: gone.version.as_str().into(),
                    who: None,
                    old,
                    new: gone.last.as_ref().map(slim),
                    inferred: gone.last.is_none(),
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

    /// Takes in a failure of a stream. The same failure again is not logged again.
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

    /// Logs something that went wrong with one object. The stream goes on.
    pub fn remark(&mut self, kind: usize, reason: &str, now: Timestamp) {
        self.revision += 1;
        let reason = reason.to_owned();
        self.log(kind, Happening::Failed { reason }, 0, now);
    }

    fn put(&mut self, kind: usize, event: &'static str, object: &Object, now: Timestamp) {
        let kept = slim(object);
        let board = &mut self.kinds[kind];
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

    /// Grows with every change to anything.
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

    /// The logged changes of one object, oldest first. `uid` tells objects of the same name apart.
    pub fn history(&self, stream: &str, key: &ObjectKey) -> Vec<Arc<Entry>> {
        let is_about = |entry: &&Arc<Entry>| {
            &*entry.stream == stream && matches!(&entry.what, Happening::Change(change) if change.key == *key)
        };
        self.log.iter().filter(is_about).cloned().collect()
    }
}

impl KindBoard {
    /// The objects, by namespace and name.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = &Object> {
        self.objects.values()
    }

    /// One object.
    pub fn object(&self, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(key)
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

/// The object without `managedFields`, which are more than half of its bytes.
fn slim(object: &Object) -> Object {
    let options = ObjectOptions::default();
    let kind = object.group_version_kind();
    let copy = Object::from_item(object.encoding(), object.bytes(), kind, &options);
    copy.unwrap_or_else(|_| object.clone())
}

/// The state of an object as people read it, without `managedFields`.
pub fn readable(object: &Object) -> Value {
    object.to_value().unwrap_or_default()
}

#[cfg(test)]
mod tests;
