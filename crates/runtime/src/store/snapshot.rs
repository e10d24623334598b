//! A store at one moment: what a reader sees, unchanged for as long as it is held.

use std::sync::Arc;

use watchkeeper_meta::{LabelSelector, ObjectKey, ResourceVersion};
use watchkeeper_wire::Object;

use super::chunks::{Chunks, Place};
use super::index::{Index, UnknownIndexError};
use super::order::KeyRef;
use crate::delta::{Cause, Delta};

/// All objects at one version, with all indexes over them.
///
/// Objects come in the order of their keys, as a server lists. That order is the namespace index: the objects of a
/// namespace lie side by side.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(super) objects: Chunks<Object>,
    pub(super) indexes: Vec<Index>,
    pub(super) version: ResourceVersion,
    pub(super) synced: bool,
    /// Counts publications: two snapshots of one store can be put in order even where versions cannot.
    pub(super) generation: u64,
    pub(super) object_bytes: usize,
}

impl Snapshot {
    /// Every change up to this version is in, and none after it. Unset before the first list is complete. Where
    /// several namespaces are followed, the oldest of their versions.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// Whether the first list was complete.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.find(key.namespace(), key.name())
    }

    /// One object by its namespace, empty for cluster scope, and its name.
    pub fn find(&self, namespace: &str, name: &str) -> Option<&Object> {
        let key = KeyRef { namespace, name };
        let place = self.objects.find(|object| KeyRef::of(object).cmp(key)).ok()?;
        self.objects.get(place)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &Object> + Clone {
        self.objects.iter()
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.iter().map(Object::key)
    }

    /// The objects of one namespace. Costs a search and what it yields, however many others there are.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Object> + Clone {
        let start = KeyRef { namespace, name: "" };
        let first = self
            .objects
            .lower_bound(|object| KeyRef::of(object).cmp(start).is_lt());
        let objects = self.objects.iter_from(first);
        objects.take_while(move |object| object.namespace() == namespace)
    }

    /// The objects whose labels a selector matches. Reads the labels of every object; an index does not.
    pub fn select<'a>(&'a self, selector: &'a LabelSelector) -> impl Iterator<Item = &'a Object> {
        self.iter()
            .filter(|object| selector.matches(object.labels().as_slice()))
    }

    /// The objects an index has under a value, in the order of their keys.
    pub fn by_index<'a>(
        &'a self,
        index: &str,
        value: &'a str,
    ) -> Result<impl Iterator<Item = &'a Object> + Clone, UnknownIndexError> {
        Ok(self.index(index)?.get(value))
    }

    /// Every value an index has, in order.
    pub fn index_values(&self, index: &str) -> Result<impl Iterator<Item = &str>, UnknownIndexError> {
        Ok(self.index(index)?.values())
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        self.indexes.iter().map(|index| &*index.name)
    }

    /// Bytes of memory this holds: objects, and the arrays that order them. What it shares with other snapshots
    /// counts in each.
    pub fn memory_size(&self) -> usize {
        let indexes = self.indexes.iter().map(Index::memory_size);
        self.object_bytes + self.objects.memory_size() + indexes.sum::<usize>()
    }

    /// What has changed since an older snapshot of the same store, in the order of keys and coalesced: an object
    /// that has come and gone between the two is not told. Costs what has changed, not what there is.
    pub fn changes_since(&self, older: &Snapshot, cause: Cause) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let order = |a: &Object, b: &Object| KeyRef::of(a).cmp(KeyRef::of(b));
        older.objects.compare(&self.objects, order, |old, new| {
            deltas.extend(match (old.cloned(), new.cloned()) {
                (None, Some(object)) => Some(Delta::Added { object, cause }),
                (Some(last), None) => Some(Delta::Deleted {
                    last,
                    final_state: false,
                    cause,
                }),
                (Some(old), Some(new)) if !old.is_same_version(&new) => {
                    Some(Delta::Updated { old, new, cause })
                }
                _ => None,
            });
        });
        deltas
    }

    /// How many times the store was published before this snapshot.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn index(&self, name: &str) -> Result<&Index, UnknownIndexError> {
        let found = self.indexes.iter().find(|index| &*index.name == name);
        found.ok_or_else(|| UnknownIndexError {
            name: name.to_owned(),
        })
    }

    /// Puts an object in and returns the one it replaces.
    pub(super) fn put(&mut self, object: Object) -> Option<Object> {
        self.object_bytes += object.memory_size();
        let key = KeyRef::of(&object);
        let old = match self.objects.find(|other| KeyRef::of(other).cmp(key)) {
            Ok(place) => self.objects.replace(place, object.clone()),
            Err(place) => {
                self.objects.insert(place, object.clone());
                None
            }
        };
        self.object_bytes -= old.as_ref().map_or(0, Object::memory_size);
        for index in &mut self.indexes {
            index.update(old.as_ref(), Some(&object));
        }
        old
    }

    /// Takes an object out.
    pub(super) fn take(&mut self, namespace: &str, name: &str) -> Option<Object> {
        let key = KeyRef { namespace, name };
        let place = self.objects.find(|object| KeyRef::of(object).cmp(key)).ok()?;
        let old = self.objects.remove(place)?;
        self.object_bytes -= old.memory_size();
        for index in &mut self.indexes {
            index.update(Some(&old), None);
        }
        Some(old)
    }
}

/// Walks through a snapshot that it keeps alive.
#[derive(Debug)]
pub(crate) struct Walk {
    snapshot: Arc<Snapshot>,
    next: Place,
}

impl Walk {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let next = snapshot.objects.start();
        Self { snapshot, next }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Iterator for Walk {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        let object = self.snapshot.objects.get(self.next)?.clone();
        self.next = self.snapshot.objects.after(self.next);
        Some(object)
    }
}
