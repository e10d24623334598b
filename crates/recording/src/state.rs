//! The state of a recording's streams at one moment. Writer and reader build it by the same steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_meta::{ObjectKey, Resource, ResourceVersion};
use watchkeeper_runtime::position::Position;
use watchkeeper_wire::{Encoding, Object, ObjectOptions};

use crate::entry::{Entry, Gap, Stream, What};
use crate::record::{Body, Record};

/// Objects are kept completely.
const KEEP: ObjectOptions = ObjectOptions {
    keep_managed_fields: true,
};

/// All objects of a recording at one moment.
#[derive(Clone, Debug, Default)]
pub struct State {
    streams: BTreeMap<Arc<str>, StreamState>,
}

/// The objects of one stream at one moment.
#[derive(Clone, Debug)]
pub struct StreamState {
    /// The stream.
    pub stream: Arc<Stream>,
    /// The objects, in the order of a list.
    pub objects: BTreeMap<ObjectKey, Object>,
    /// Everything up to this version is known; unset during a list.
    pub version: ResourceVersion,
    /// True once a list was recorded completely; before, there may be unknown objects.
    pub is_complete: bool,
    /// True during a list.
    pub(crate) is_listing: bool,
    /// The last version before a gap, while its differences are recorded.
    gap_from: Option<ResourceVersion>,
}

impl State {
    /// The streams being followed.
    pub fn streams(&self) -> impl Iterator<Item = &StreamState> {
        self.streams.values()
    }

    /// All objects with their streams, stream by stream.
    pub fn objects(&self) -> impl Iterator<Item = (&Arc<Stream>, &Object)> {
        let streams = self.streams.values();
        streams.flat_map(|held| held.objects.values().map(move |object| (&held.stream, object)))
    }

    /// The objects of a resource, from all its streams, without duplicates.
    pub fn objects_of(&self, resource: &Resource) -> BTreeMap<ObjectKey, &Object> {
        let same = |held: &&StreamState| held.stream.resource.group_resource() == resource.group_resource();
        let streams = self.streams.values().filter(same);
        let objects = streams.flat_map(|held| held.objects.iter());
        objects.map(|(key, object)| (key.clone(), object)).collect()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.streams.values().map(|held| held.objects.len()).sum()
    }

    /// True if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stream of that name.
    pub fn stream(&self, name: &str) -> Option<&StreamState> {
        self.streams.get(name)
    }

    /// Applies the next entry. Applying entries in order produces the state after the last one.
    pub fn take(&mut self, entry: &Entry) {
        if matches!(entry.what, What::Began) {
            self.begin(entry.stream.clone());
            return;
        }
        let Some(held) = self.streams.get_mut(&entry.stream.name) else {
            return;
        };
        match &entry.what {
            What::Began | What::Failed(_) => {}
            What::Listed(object) | What::Added(object) | What::Modified { object, .. } => {
                held.put(object.clone());
            }
            What::Deleted { last, inferred } => {
                held.remove(&last.key(), Some(last).filter(|_| !inferred));
            }
            What::Synced(version) => held.sync(version.clone()),
            What::Progress(version) => held.progress(version.clone()),
            What::Gap(gap) => held.gap(gap.from.clone()),
            What::Ended(_) => self.end(&entry.stream.name),
        }
    }

    /// The position from which a follower continues.
    pub(crate) fn position(&self) -> Position {
        let mut position = Position::in_memory();
        for held in self.streams.values() {
            let name = &held.stream.name;
            for object in held.objects.values() {
                position.put(name, object);
            }
            match held.is_complete {
                true => position.synced(name, &held.version),
                false => position.reach(name, &held.version),
            }
            if held.is_listing {
                position.restart(name);
            }
        }
        position
    }

    pub(crate) fn begin(&mut self, stream: Arc<Stream>) {
        let name = stream.name.clone();
        let held = StreamState {
            stream,
            objects: BTreeMap::new(),
            version: ResourceVersion::unset(),
            is_complete: false,
            is_listing: true,
            gap_from: None,
        };
        self.streams.insert(name, held);
    }

    pub(crate) fn end(&mut self, name: &str) {
        self.streams.remove(name);
    }

    pub(crate) fn stream_mut(&mut self, name: &str) -> Option<&mut StreamState> {
        self.streams.get_mut(name)
    }
}

impl StreamState {
    pub(crate) fn put(&mut self, object: Object) -> Option<Object> {
        if !self.is_listing {
            self.version = object.version();
        }
        self.objects.insert(object.key(), object)
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey, seen: Option<&Object>) -> Option<Object> {
        if let Some(last) = seen
            && !self.is_listing
        {
            self.version = last.version();
        }
        self.objects.remove(key)
    }

    pub(crate) fn sync(&mut self, version: ResourceVersion) {
        self.version = version;
        (self.is_complete, self.is_listing) = (true, false);
    }

    pub(crate) fn progress(&mut self, version: ResourceVersion) {
        if !self.is_listing {
            self.version = version;
        }
    }

    pub(crate) fn gap(&mut self, from: Option<ResourceVersion>) {
        (self.is_listing, self.version) = (true, ResourceVersion::unset());
        self.gap_from = from;
    }

    /// The version of an entry as a number. For an inferred deletion, the earliest possible one, so that another object
    /// of that name comes after it.
    pub(crate) fn revision_of(&self, what: &What) -> Option<u64> {
        let number = |version: &ResourceVersion| version.as_str().parse().ok();
        match what {
            What::Deleted { inferred: true, last } => {
                let known: Option<u64> = self.gap_from.as_ref().and_then(number);
                known.or_else(|| number(&last.version())).map(|known| known + 1)
            }
            What::Synced(version) | What::Progress(version) => number(version),
            What::Gap(gap) => gap.from.as_ref().and_then(number),
            other => other.object().and_then(|object| number(&object.version())),
        }
    }

    /// An object of this stream from its JSON.
    fn object(&self, json: &[u8]) -> Result<Object, String> {
        let read = Object::from_item(Encoding::Json, json, self.stream.kind(), &KEEP);
        read.map_err(|error| format!("an object that cannot be read: {error}"))
    }
}

/// Applies a record from disk and returns its meaning; `None` if it repeats an earlier segment (`carries_over`).
pub(crate) fn apply(
    state: &mut State,
    name: &str,
    record: &Record<'_>,
    carries_over: bool,
) -> Result<Option<What>, String> {
    let unknown = || format!("a record of {name}, which has not begun");
    let held = state.stream_mut(name).ok_or_else(unknown)?;
    match record {
        Record::Ended { reason, .. } => {
            state.end(name);
            Ok(Some(What::Ended((*reason).to_owned())))
        }
        Record::Held { key, body, .. } => {
            let object = held.opened(key, body)?;
            held.put(object.clone());
            Ok((!carries_over).then_some(What::Listed(object)))
        }
        Record::Reached {
            version,
            is_complete,
            is_listing,
            ..
        } => {
            held.version = ResourceVersion::new(*version);
            (held.is_complete, held.is_listing) = (*is_complete, *is_listing);
            let is_told = !carries_over && !held.version.is_unset();
            Ok(is_told.then(|| What::Synced(held.version.clone())))
        }
        other => held.apply(other).map(Some),
    }
}

impl StreamState {
    /// The meaning of a record.
    fn apply(&mut self, record: &Record<'_>) -> Result<What, String> {
        let version = |text: &str| ResourceVersion::new(text);
        Ok(match record {
            Record::Put {
                key, body, is_new, ..
            } => {
                let object = self.opened(key, body)?;
                let is_first = self.is_listing && !self.is_complete;
                match self.put(object.clone()) {
                    Some(previous) if !is_new => What::Modified { object, previous },
                    _ if is_first => What::Listed(object),
                    _ => What::Added(object),
                }
            }
            Record::Gone { key, last, .. } => self.gone(key, last.as_ref())?,
            Record::Synced { version: at, .. } => {
                self.sync(version(at));
                What::Synced(version(at))
            }
            Record::Progress { version: at, .. } => {
                self.progress(version(at));
                What::Progress(version(at))
            }
            Record::Gap { from, to, reason, .. } => {
                self.gap(from.map(version));
                What::Gap(Gap {
                    from: from.map(version),
                    to: to.map(version),
                    reason: (*reason).to_owned(),
                })
            }
            Record::Failed { reason, .. } => What::Failed((*reason).to_owned()),
            other => return Err(format!("{other:?} in a wrong place")),
        })
    }

    fn gone(&mut self, key: &str, last: Option<&Body<'_>>) -> Result<What, String> {
        let key = parse_key(key)?;
        let seen = last.map(|body| self.opened(key.as_str(), body)).transpose()?;
        let before = self.remove(&key, seen.as_ref());
        let inferred = seen.is_none();
        let last = seen.or(before);
        let last = last.ok_or_else(|| format!("{key} is gone without having been there"))?;
        Ok(What::Deleted { last, inferred })
    }

    fn opened(&self, key: &str, body: &Body<'_>) -> Result<Object, String> {
        let key = parse_key(key)?;
        let previous = self.objects.get(&key);
        let json = body.open(previous.map(Object::bytes))?;
        let object = self.object(&json)?;
        match object.key() == key {
            true => Ok(object),
            false => Err(format!("{} under the key {key}", object.key())),
        }
    }
}

fn parse_key(key: &str) -> Result<ObjectKey, String> {
    ObjectKey::parse(key).ok_or_else(|| format!("{key:?} is no key"))
}

/// The number of the stream that a record is about.
pub(crate) fn stream_of(record: &Record<'_>) -> u32 {
    match record {
        Record::Stream { id, .. } => *id,
        Record::Put { stream, .. }
        | Record::Gone { stream, .. }
        | Record::Synced { stream, .. }
        | Record::Progress { stream, .. }
        | Record::Gap { stream, .. }
        | Record::Failed { stream, .. }
        | Record::Ended { stream, .. }
        | Record::Held { stream, .. }
        | Record::Reached { stream, .. } => *stream,
    }
}
