//! Queries on a recording: the versions of an object, the difference between two moments, and the events at which a
//! condition became true.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use watchkeeper_meta::{ObjectKey, Resource, Time};
use watchkeeper_wire::Object;
use watchkeeper_wire::schema::resources;

use crate::RecordingError;
use crate::entry::{Entry, What};
use crate::reader::{Moment, Recording};
use crate::state::State;

/// An object that differs between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDiff {
    /// The resource.
    pub resource: Resource,
    /// The object.
    pub key: ObjectKey,
    /// Its state at the first moment; `None` if it did not exist.
    pub old: Option<Object>,
    /// Its state at the second moment; `None` if it did not exist.
    pub new: Option<Object>,
}

/// The start and end of a recording, as of the entries [taken](Self::take) so far.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// The first version at which a list is complete, and its time; `None` if no list is.
    pub first: Option<(u64, Time)>,
    /// The version from which the recording is complete, except for gaps: that of the last of the first lists.
    pub complete_from: Option<u64>,
    /// The latest version.
    pub latest: Option<u64>,
    /// The time of the last entry.
    pub ended: Option<Time>,
    /// The streams whose first list is not complete yet.
    listing: BTreeSet<Arc<str>>,
    /// True once the first list of every initial stream is complete. A later stream has no earlier history.
    is_begun: bool,
}

impl Span {
    /// Extends it by the next entry.
    pub fn take(&mut self, entry: &Entry) {
        self.ended = Some(entry.time);
        self.latest = self.latest.max(entry.revision);
        let name = &entry.stream.name;
        match (&entry.what, entry.revision) {
            (What::Began, _) => drop(self.listing.insert(name.clone())),
            (What::Synced(_), revision) if self.listing.remove(name) => {
                let Some(revision) = revision else { return };
                let first = self.first.get_or_insert((revision, entry.time));
                first.0 = first.0.min(revision);
                if !self.is_begun {
                    self.complete_from = self.complete_from.max(Some(revision));
                    self.is_begun = self.listing.is_empty();
                }
            }
            _ => {}
        }
    }

    /// Refuses a moment before the first complete list: nothing is known about it.
    pub fn check(&self, moment: &Moment) -> Result<(), RecordingError> {
        let (first, time) = self.first.unwrap_or_default();
        let is_too_early = match moment {
            Moment::Time(asked) => *asked < time,
            Moment::Revision(asked) => *asked < first,
            Moment::End => false,
        };
        match is_too_early {
            true => Err(RecordingError::TooEarly {
                asked: moment.to_string(),
                from: first,
            }),
            false => Ok(()),
        }
    }

    /// True if the recording ended before a moment.
    pub fn ends_before(&self, moment: &Moment) -> bool {
        match moment {
            Moment::Time(asked) => self.ended.is_some_and(|ended| *asked > ended),
            Moment::Revision(asked) => self.latest.is_some_and(|latest| *asked > latest),
            Moment::End => false,
        }
    }
}

impl Recording {
    /// The start and end. An error if there is no entry yet.
    pub fn span(&self) -> Result<Span, RecordingError> {
        let mut span = Span::default();
        for entry in self.entries() {
            span.take(&entry?);
        }
        match span.latest {
            None => Err(self.empty()),
            Some(_) => Ok(span),
        }
    }

    /// The recorded resources, without duplicates.
    pub fn resources(&self) -> Result<Vec<Resource>, RecordingError> {
        let (mut names, mut found) = (BTreeSet::new(), Vec::new());
        for entry in self.entries() {
            let entry = entry?;
            if matches!(entry.what, What::Began)
                && names.insert(entry.stream.resource.group_resource().to_string())
            {
                found.push(entry.stream.resource.clone());
            }
        }
        Ok(found)
    }

    /// Finds a recorded resource by name: `pods`, `pod`, `po`, `deployments.apps`.
    pub fn resource(&self, word: &str) -> Result<Option<Resource>, RecordingError> {
        let recorded = self.resources()?;
        Ok(recorded.into_iter().find(|resource| is_called(resource, word)))
    }

    /// Every version of an object, and the gaps in which there may be more. An object of several streams is listed
    /// once.
    pub fn versions(&self, resource: &Resource, key: &ObjectKey) -> Result<Vec<Entry>, RecordingError> {
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        let mut is_known = false;
        for entry in self.entries() {
            let entry = entry?;
            if entry.stream.resource.group_resource() != resource.group_resource() {
                continue;
            }
            let is_wanted = match entry.key() {
                Some(other) => other == *key,
                // Streams that have not shown the object do not concern it.
                None => is_known && matches!(entry.what, What::Gap(_) | What::Ended(_)),
            };
            if !is_wanted {
                continue;
            }
            let what = (entry.what.word(), entry.revision, entry.key());
            is_known |= entry.object().is_some();
            if entry.object().is_none() || seen.insert(what) {
                found.push(entry);
            }
        }
        Ok(found)
    }

    /// The namespaces in which a resource had an object of that name.
    pub fn namespaces_of(&self, resource: &Resource, name: &str) -> Result<Vec<String>, RecordingError> {
        let mut found = BTreeSet::new();
        for entry in self.entries() {
            let entry = entry?;
            let is_wanted = entry.stream.resource.group_resource() == resource.group_resource();
            if let Some(key) = entry.key().filter(|key| is_wanted && key.name() == name) {
                found.insert(key.namespace().to_owned());
            }
        }
        Ok(found.into_iter().collect())
    }

    /// The objects that differ between two moments, in the order of resource, namespace and name.
    pub fn diff(&self, from: &Moment, to: &Moment) -> Result<Vec<ObjectDiff>, RecordingError> {
        let (old, new) = (self.state_at(from)?, self.state_at(to)?);
        Ok(diff(&old, &new))
    }

    /// The entries at which a condition became true for an object: it holds after the entry, and did not before.
    pub fn became(
        &self,
        resource: &Resource,
        key: Option<&ObjectKey>,
        holds: impl FnMut(&Object) -> bool,
    ) -> Result<Vec<Entry>, RecordingError> {
        let is_of_resource =
            |entry: &Entry| entry.stream.resource.group_resource() == resource.group_resource();
        let is_asked =
            |entry: &Entry| is_of_resource(entry) && key.is_none_or(|key| entry.key().as_ref() == Some(key));
        let entries = self
            .entries()
            .filter(|entry| entry.as_ref().map_or(true, is_asked));
        became(entries, holds)
    }
}

/// The entries at which a condition became true for an object: it holds after the event, and did not before.
pub fn became<E>(
    entries: impl IntoIterator<Item = Result<Entry, E>>,
    mut holds: impl FnMut(&Object) -> bool,
) -> Result<Vec<Entry>, E> {
    let (mut held, mut found) = (HashSet::new(), Vec::new());
    for entry in entries {
        let entry = entry?;
        let Some(object) = entry.object() else { continue };
        let is_deleted = matches!(entry.what, What::Deleted { .. });
        match !is_deleted && holds(object) {
            true if held.insert(object.key()) => found.push(entry),
            true => {}
            false => drop(held.remove(&object.key())),
        }
    }
    Ok(found)
}

/// The objects that differ between two states.
fn diff(old: &State, new: &State) -> Vec<ObjectDiff> {
    let resources: BTreeMap<String, Resource> = old
        .streams()
        .chain(new.streams())
        .map(|held| {
            let resource = held.stream.resource.clone();
            (resource.group_resource().to_string(), resource)
        })
        .collect();
    let mut found = Vec::new();
    for resource in resources.into_values() {
        found.extend(differences(
            &resource,
            &old.objects_of(&resource),
            &new.objects_of(&resource),
        ));
    }
    found
}

/// The objects of one resource that differ, sorted by key.
pub(crate) fn differences(
    resource: &Resource,
    before: &BTreeMap<ObjectKey, &Object>,
    after: &BTreeMap<ObjectKey, &Object>,
) -> Vec<ObjectDiff> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differ = |key: &&ObjectKey| {
        before.get(*key).map(|object| object.bytes()) != after.get(*key).map(|object| object.bytes())
    };
    let diff = |key: &ObjectKey| ObjectDiff {
        resource: resource.clone(),
        key: key.clone(),
        old: before.get(key).copied().cloned(),
        new: after.get(key).copied().cloned(),
    };
    keys.into_iter().filter(differ).map(diff).collect()
}

/// True if a name refers to a resource. Short names are those of built-in kinds.
fn is_called(resource: &Resource, word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let (name, group) = match word.split_once('.') {
        Some((name, group)) => (name, Some(group)),
        None => (word.as_str(), None),
    };
    if group.is_some_and(|group| group != resource.group) {
        return false;
    }
    let builtin = resources::by_plural(&resource.group, &resource.version, &resource.plural);
    let is_short = builtin.is_some_and(|builtin| builtin.short_names.iter().any(|short| short == name));
    resource.plural == name || resource.kind.to_ascii_lowercase() == name || is_short
}
