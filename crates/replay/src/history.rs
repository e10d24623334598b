//! Sorts the entries of a recording, which are in the order of reception, into changes in the order of versions.
//! Streams start with lists at different versions. The history is complete from the latest of these on, the *floor*;
//! earlier changes are part of the state there. A gap is replayed as the differences that the recorder found after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde_json::json;
use watchkeeper_meta::{Resource, Scope, Time};
use watchkeeper_recording::{Entry, Moment, Packed, Recording, Span, What};
use watchkeeper_registry::{ImportError, key_of, prefix_of, stored_form};
use watchkeeper_storage::{ImportedChange, Key, Revision, Snapshot, Value};
use watchkeeper_wire::{Object, ObjectOptions};

use crate::packed_value::PackedValue;
use crate::{LoadOptions, ReplayError};

/// The revision of added objects that were not recorded.
const BEFORE_ALL: Revision = Revision::new(1);

/// The overhead of a version in memory besides its key and value: the change itself, and its entries in the history and
/// in the maps of this file.
const OVERHEAD: usize = 256;

/// All changes of a recording.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Sorted by revision.
    pub(crate) changes: Vec<ImportedChange>,
    /// The start and the end.
    pub(crate) span: Span,
    /// The kinds that this server does not have, with the number of dropped versions.
    pub(crate) left_out: BTreeMap<String, usize>,
    /// The times at which versions were reached, in order.
    reached: Vec<(Time, u64)>,
    /// The key prefixes of completely recorded resources.
    whole: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    /// The objects of each stream.
    held: BTreeMap<std::sync::Arc<str>, Held>,
    /// The memory used by the changes.
    bytes: usize,
}

/// The objects of a stream: further versions are packed against them, and they are deleted when the stream ends.
#[derive(Debug, Default)]
struct Held {
    latest: BTreeMap<Key, Packed>,
    /// The last object that was stored whole: new objects are packed against it.
    whole: Option<Packed>,
}

impl Held {
    fn pack(&mut self, key: &Key, value: &[u8]) -> Packed {
        let previous = self.latest.get(key);
        let packed = Packed::new(value, previous.into_iter().chain(&self.whole));
        if packed.is_whole() {
            self.whole = Some(packed.clone());
        }
        self.latest.insert(key.clone(), packed.clone());
        packed
    }
}

impl History {
    pub(crate) fn read(recording: &Recording, options: &LoadOptions) -> Result<Self, ReplayError> {
        let mut history = Self::default();
        let end = later(&options.at, &options.until);
        for entry in recording.entries() {
            history.take(&entry?, &end)?;
            if history.bytes > options.max_bytes {
                return Err(ReplayError::TooLarge {
                    limit: options.max_bytes,
                });
            }
        }
        if history.span.latest.is_none() {
            return Err(recording.empty().into());
        }
        history.changes.sort_by_key(|change| change.revision);
        Ok(history)
    }

    fn take(&mut self, entry: &Entry, end: &Moment) -> Result<(), ReplayError> {
        self.span.take(entry);
        let stream = &entry.stream;
        match &entry.what {
            What::Began => {
                let is_whole =
                    stream.namespace.is_empty() && stream.labels.is_empty() && stream.fields.is_empty();
                if let (true, Ok(prefix)) = (is_whole, prefix_of(&stream.resource)) {
                    self.whole.insert(prefix);
                }
            }
            What::Ended(_) => self.end(entry),
            _ => {}
        }
        if let Some(revision) = entry.revision
            && !matches!(entry.what, What::Gap(_) | What::Listed(_))
        {
            let latest = self.latest().max(revision);
            self.reached.push((entry.time, latest));
        }
        // Later objects are not stored, but later stream entries are read: they determine where the history is
        // complete.
        if end.is_before(entry) {
            return Ok(());
        }
        match self.change(entry) {
            Err(ReplayError::Object(ImportError::NoResource(kind))) => {
                *self.left_out.entry(kind).or_default() += 1;
                Ok(())
            }
            other => other,
        }
    }

    fn latest(&self) -> u64 {
        self.reached.last().map_or(0, |(_, revision)| *revision)
    }

    fn change(&mut self, entry: &Entry) -> Result<(), ReplayError> {
        let (Some(object), Some(revision)) = (entry.object(), entry.revision) else {
            return Ok(());
        };
        let resource = &entry.stream.resource;
        let (key, value) = match &entry.what {
            What::Deleted { .. } => (key_of(resource, object.namespace(), object.name())?, None),
            _ => {
                let stored = stored_form(resource, object)?;
                (stored.key, Some(stored.value))
            }
        };
        if resource.scope == Scope::Namespaced {
            self.namespaces.insert(object.namespace().to_owned());
        }
        let key: Key = key.into();
        let held = self.held.entry(entry.stream.name.clone()).or_default();
        let packed = match value {
            Some(value) => Some(held.pack(&key, &value)),
            None => {
                held.latest.remove(&key);
                None
            }
        };
        self.bytes += key.len() + packed.as_ref().map_or(0, Packed::own_size) + OVERHEAD;
        self.changes.push(ImportedChange {
            revision: Revision::new(revision),
            key,
            value: packed.map(PackedValue::shared),
            written_at: entry.time.into(),
        });
        Ok(())
    }

    /// Deletes the objects of a stream that ended: their state is unknown.
    fn end(&mut self, entry: &Entry) {
        let revision = Revision::new(self.latest());
        let held = self.held.remove(&entry.stream.name).unwrap_or_default();
        self.changes
            .extend(held.latest.into_keys().map(|key| ImportedChange {
                revision,
                key,
                value: None,
                written_at: entry.time.into(),
            }));
    }

    /// Adds objects that are missing in the recording: the initial objects of kinds that were not recorded, and the
    /// namespaces of recorded objects.
    pub(crate) fn complete(&mut self, bare: &Snapshot) -> Result<(), ReplayError> {
        let known: BTreeSet<Key> = self.changes.iter().map(|change| change.key.clone()).collect();
        let namespaces = Resource::cluster("", "v1", "Namespace", "namespaces");
        let mut added = Vec::new();
        let is_recorded =
            |key: &Key| known.contains(key) || self.whole.iter().any(|prefix| key.starts_with(prefix));
        for found in bare.iter().filter(|found| !is_recorded(&found.key)) {
            added.push(completed(found.key, found.value));
        }
        if !self.whole.contains(&prefix_of(&namespaces)?) {
            for name in &self.namespaces {
                let namespace = stored_form(&namespaces, &namespace(name)?)?;
                let key: Key = namespace.key.into();
                if !known.contains(&key) && bare.get(&key).is_none() {
                    added.push(completed(key, namespace.value.into()));
                }
            }
        }
        added.append(&mut self.changes);
        self.changes = added;
        Ok(())
    }

    /// The version at a moment.
    pub(crate) fn revision_at(&self, moment: &Moment) -> u64 {
        match moment {
            Moment::Revision(revision) => *revision,
            // An interrupted list has objects but no version.
            Moment::End => {
                let last = self.changes.last().map_or(0, |change| change.revision.get());
                self.latest().max(last)
            }
            Moment::Time(time) => {
                let count = self.reached.partition_point(|(reached, _)| reached <= time);
                count.checked_sub(1).map_or(0, |last| self.reached[last].1)
            }
        }
    }

    /// The time at which a version was reached.
    pub(crate) fn time_of(&self, revision: u64, moment: &Moment) -> Time {
        if let Moment::Time(time) = moment {
            return *time;
        }
        let count = self.reached.partition_point(|(_, reached)| *reached <= revision);
        let last = count.checked_sub(1).map(|last| self.reached[last].0);
        last.or_else(|| self.reached.first().map(|(time, _)| *time))
            .unwrap_or_default()
    }
}

/// The moment up to which changes must be in memory: `until`, unless both are comparable and `at` is later.
fn later(at: &Moment, until: &Moment) -> Moment {
    match (at, until) {
        (Moment::Time(at), Moment::Time(until)) => Moment::Time(*at.max(until)),
        (Moment::Revision(at), Moment::Revision(until)) => Moment::Revision(*at.max(until)),
        (Moment::End, _) | (_, Moment::End) => Moment::End,
        // A time and a version are not comparable before the recording is read.
        _ => Moment::End,
    }
}

fn completed(key: Key, value: Value) -> ImportedChange {
    ImportedChange {
        revision: BEFORE_ALL,
        key,
        value: Some(value),
        written_at: SystemTime::UNIX_EPOCH,
    }
}

/// A namespace that must have existed, because objects were in it.
fn namespace(name: &str) -> Result<Object, ReplayError> {
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": name,
            "uid": format!("00000000-0000-4000-8000-{:012x}", name.bytes().fold(7_u64, |hash, byte| {
                hash.wrapping_mul(31).wrapping_add(u64::from(byte)) & 0xffff_ffff_ffff
            })),
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "labels": {"kubernetes.io/metadata.name": name},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    });
    let read = Object::from_json(object.to_string().as_bytes(), &ObjectOptions::default());
    Ok(read.map_err(ImportError::from)?)
}
