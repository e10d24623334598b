//! An immutable state of a store.

use std::cmp::Ordering;
use std::sync::Arc;

use watchkeeper_meta::{LabelSelector, ObjectKey, ResourceVersion};
use watchkeeper_wire::Object;

use super::chunks::{Chunks, Place};
use super::index::{Index, IndexFn, NAMESPACE_INDEX, UnknownIndexError};
use super::order::KeyRef;
use super::slots::{Slot, Slots};
use super::table::Table;
use crate::delta::{Cause, Delta};

/// All objects at one version, with all indexes over them.
///
/// Objects are sorted by key, as a server lists them. That order also serves as the index [`NAMESPACE_INDEX`], which
/// every store has: the objects of a namespace are adjacent.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The objects. Everything else refers to them by slot and does not change when one is updated.
    slots: Slots,
    /// Sorted by key.
    order: Chunks<Slot>,
    table: Table,
    pub(super) indexes: Vec<Index>,
    pub(super) version: ResourceVersion,
    pub(super) synced: bool,
    /// Counts publications: orders the snapshots of one store even if versions have no order.
    pub(super) generation: u64,
    pub(super) object_bytes: usize,
}

impl Snapshot {
    /// The version: every change up to it is included, and none after it. Unset before the first list is complete.
    /// For several namespaces, the oldest of their versions.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// True once the first list was complete.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.find(key.namespace(), key.name())
    }

    /// One object by namespace (empty for cluster scope) and name.
    pub fn find(&self, namespace: &str, name: &str) -> Option<&Object> {
        self.find_key(KeyRef::new(namespace, name))
    }

    pub(super) fn find_key(&self, key: KeyRef<'_>) -> Option<&Object> {
        let (_, object) = self.table.find(key, &self.slots)?;
        Some(object)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &Object> + Clone {
        self.order.iter().filter_map(|slot| self.slots.get(*slot))
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.iter().map(Object::key)
    }

    /// The objects of one namespace. The cost is a search plus the result, however many others there are.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Object> + Clone {
        let first = self.place(KeyRef::new(namespace, ""));
        let slots = self.order.iter_from(first.unwrap_or_else(|place| place));
        let objects = slots.filter_map(|slot| self.slots.get(*slot));
        objects.take_while(move |object| object.key_bytes().0 == namespace.as_bytes())
    }

    /// The objects that match a label selector. Reads the labels of every object; an index does not.
    pub fn select<'a>(&'a self, selector: &'a LabelSelector) -> impl Iterator<Item = &'a Object> {
        self.iter()
            .filter(|object| selector.matches(object.labels().as_slice()))
    }

    /// The objects with a value in an index, sorted by key.
    pub fn by_index<'a>(
        &'a self,
        index: &str,
        value: &'a str,
    ) -> Result<impl Iterator<Item = &'a Object> + Clone, UnknownIndexError> {
        let added = self.added_index(index)?;
        let slots = added.map(|index| index.get(value)).into_iter().flatten();
        let in_order = added.is_none().then(|| self.in_namespace(value));
        let indexed = slots.filter_map(|slot| self.slots.get(slot));
        Ok(indexed.chain(in_order.into_iter().flatten()))
    }

    /// The objects that share a value of an index with this one, sorted by key. The object itself is included if it
    /// is stored; it need not be.
    pub fn index<'a>(
        &'a self,
        index: &str,
        object: &'a Object,
    ) -> Result<Vec<&'a Object>, UnknownIndexError> {
        let Some(index) = self.added_index(index)? else {
            return Ok(self.in_namespace(object.namespace()).collect());
        };
        let values = index.values_of(object);
        let slots = values.iter().flat_map(|value| index.get(value));
        let mut objects: Vec<&Object> = slots.filter_map(|slot| self.slots.get(slot)).collect();
        objects.sort_by(|a, b| KeyRef::of(a).cmp(KeyRef::of(b)));
        objects.dedup_by(|a, b| std::ptr::eq(*a, *b));
        Ok(objects)
    }

    /// Every value of an index, sorted.
    pub fn index_values(&self, index: &str) -> Result<impl Iterator<Item = &str>, UnknownIndexError> {
        let added = self.added_index(index)?;
        let values = added.map(Index::values).into_iter().flatten();
        let namespaces = added.is_none().then(|| self.namespaces());
        Ok(values.chain(namespaces.into_iter().flatten()))
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        let added = self.indexes.iter().map(|index| &*index.name);
        std::iter::once(NAMESPACE_INDEX).chain(added)
    }

    /// The memory of objects and arrays in bytes. Parts shared with other snapshots are included.
    pub fn memory_size(&self) -> usize {
        let indexes = self.indexes.iter().map(Index::memory_size);
        let arrays = self.slots.memory_size() + self.order.memory_size() + self.table.memory_size();
        self.object_bytes + arrays + indexes.sum::<usize>()
    }

    /// The changes since an older snapshot of the same store, sorted by key and coalesced: an object that was added
    /// and deleted in between does not appear. The cost is that of the changes.
    pub fn changes_since(&self, older: &Snapshot, cause: Cause) -> Vec<Delta> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        older.slots.compare(&self.slots, |old, new| {
            if old != new {
                before.extend(old.cloned());
                after.extend(new.cloned());
            }
        });
        // A slot may have passed to another key, and a key to another slot.
        let by_key = |a: &Object, b: &Object| KeyRef::of(a).cmp(KeyRef::of(b));
        before.sort_by(by_key);
        after.sort_by(by_key);
        merge(before, after, cause)
    }

    /// The number of publications of the store before this snapshot.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The index of a name; `None` for the namespace index, which is the key order.
    fn added_index(&self, name: &str) -> Result<Option<&Index>, UnknownIndexError> {
        let found = self.indexes.iter().find(|index| &*index.name == name);
        match found {
            None if name != NAMESPACE_INDEX => Err(UnknownIndexError {
                name: name.to_owned(),
            }),
            found => Ok(found),
        }
    }

    /// Every namespace with objects; empty for cluster scope.
    fn namespaces(&self) -> impl Iterator<Item = &str> {
        let namespace = |slot: &Slot| self.slots.get(*slot).map_or("", Object::namespace);
        let mut next = self.order.start();
        std::iter::from_fn(move || {
            let current = namespace(self.order.get(next)?);
            next = self.order.lower_bound(|slot| namespace(slot) <= current);
            Some(current)
        })
    }

    /// Adds an index over the existing objects.
    pub(super) fn add_index(&mut self, name: &str, function: IndexFn) {
        let mut index = Index::new(name, function);
        for slot in self.order.iter() {
            index.update(*slot, None, self.slots.get(*slot), &self.slots);
        }
        self.indexes.push(index);
    }

    /// Stores an object and returns the one it replaces.
    pub(super) fn put(&mut self, object: Object) -> Option<Object> {
        self.object_bytes += object.memory_size();
        let key = KeyRef::of(&object);
        let (slot, old) = match self.find_slot(key) {
            Ok(slot) => (slot, self.slots.replace(slot, object.clone())),
            Err(place) => {
                let slot = self.slots.insert(object.clone());
                self.order.insert(place, slot);
                self.table.insert(key, slot);
                (slot, None)
            }
        };
        self.object_bytes -= old.as_ref().map_or(0, Object::memory_size);
        for index in &mut self.indexes {
            index.update(slot, old.as_ref(), Some(&object), &self.slots);
        }
        old
    }

    /// Removes an object.
    pub(super) fn take(&mut self, key: KeyRef<'_>) -> Option<Object> {
        let (slot, _) = self.table.find(key, &self.slots)?;
        if let Ok(place) = self.place(key) {
            self.order.remove(place);
        }
        self.table.remove(key, slot);
        for index in &mut self.indexes {
            index.update(slot, self.slots.get(slot), None, &self.slots);
        }
        let old = self.slots.remove(slot)?;
        self.object_bytes -= old.memory_size();
        Some(old)
    }

    /// Takes over the objects and indexes of a filled copy; this snapshot must be empty.
    pub(super) fn take_over(&mut self, filled: Self) {
        let added_since = self.indexes.split_off(filled.indexes.len());
        self.slots = filled.slots;
        self.order = filled.order;
        self.table = filled.table;
        self.indexes = filled.indexes;
        self.object_bytes = filled.object_bytes;
        for index in added_since {
            self.add_index(&index.name, index.function);
        }
    }

    /// The slot of a key, or its position in the key order. Listed objects arrive in that order, so the end is tried
    /// first.
    fn find_slot(&self, key: KeyRef<'_>) -> Result<Slot, Place> {
        let last = self.order.last().and_then(|slot| self.slots.get(*slot));
        if last.is_none_or(|last| KeyRef::of(last).cmp(key).is_lt()) {
            return Err(self.order.end());
        }
        match self.table.find(key, &self.slots) {
            Some((slot, _)) => Ok(slot),
            None => Err(self.place(key).unwrap_or_else(|place| place)),
        }
    }

    /// The position of a key in the key order, or where it would be inserted.
    fn place(&self, key: KeyRef<'_>) -> Result<Place, Place> {
        self.order.find(|slot| {
            let object = self.slots.get(*slot);
            object.map_or(Ordering::Less, |object| KeyRef::of(object).cmp(key))
        })
    }
}

/// The changes between two sets of objects, both sorted by key.
fn merge(before: Vec<Object>, after: Vec<Object>, cause: Cause) -> Vec<Delta> {
    let mut deltas = Vec::with_capacity(after.len());
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return deltas,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => KeyRef::of(old).cmp(KeyRef::of(new)),
        };
        let (old, new) = (
            before.next_if(|_| order.is_le()),
            after.next_if(|_| order.is_ge()),
        );
        deltas.extend(match (old, new) {
            (None, Some(object)) => Some(Delta::Added { object, cause }),
            (Some(old), None) => Some(Delta::Deleted {
                last: old.clone(),
                old,
                final_state: false,
                cause,
            }),
            (Some(old), Some(new)) if !old.is_same_version(&new) => Some(Delta::Updated { old, new, cause }),
            _ => None,
        });
    }
}

/// Iterates over a snapshot that it keeps alive.
#[derive(Debug)]
pub(crate) struct Walk {
    snapshot: Arc<Snapshot>,
    next: Place,
}

impl Walk {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let next = snapshot.order.start();
        Self { snapshot, next }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Iterator for Walk {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        let slot = *self.snapshot.order.get(self.next)?;
        self.next = self.snapshot.order.after(self.next);
        self.snapshot.slots.get(slot).cloned()
    }
}
