//! A store at one moment: what a reader sees, unchanged for as long as it is held.

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
/// Objects come in the order of their keys, as a server lists. That order is the index [`NAMESPACE_INDEX`], which every
/// store has: the objects of a namespace lie side by side.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The objects themselves. Everything else speaks of them by slot, and stays as it is when one is updated.
    slots: Slots,
    /// In the order of keys.
    order: Chunks<Slot>,
    table: Table,
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
        self.slots.len()
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

    /// The objects of one namespace. Costs a search and what it yields, however many others there are.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Object> + Clone {
        let first = self.place(KeyRef::new(namespace, ""));
        let slots = self.order.iter_from(first.unwrap_or_else(|place| place));
        let objects = slots.filter_map(|slot| self.slots.get(*slot));
        objects.take_while(move |object| object.key_bytes().0 == namespace.as_bytes())
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
        let added = self.added_index(index)?;
        let slots = added.map(|index| index.get(value)).into_iter().flatten();
        let in_order = added.is_none().then(|| self.in_namespace(value));
        let indexed = slots.filter_map(|slot| self.slots.get(slot));
        Ok(indexed.chain(in_order.into_iter().flatten()))
    }

    /// The objects that share a value of an index with this one, in the order of their keys. The object itself is among
    /// them if it is stored; it need not be.
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

    /// Every value an index has, in order.
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

    /// Bytes of memory this holds: objects, and the arrays that order them. What it shares with other snapshots
    /// counts in each.
    pub fn memory_size(&self) -> usize {
        let indexes = self.indexes.iter().map(Index::memory_size);
        let arrays = self.slots.memory_size() + self.order.memory_size() + self.table.memory_size();
        self.object_bytes + arrays + indexes.sum::<usize>()
    }

    /// What has changed since an older snapshot of the same store, in the order of keys and coalesced: an object
    /// that has come and gone between the two is not told. Costs what has changed, not what there is.
    pub fn changes_since(&self, older: &Snapshot, cause: Cause) -> Vec<Delta> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        older.slots.compare(&self.slots, |old, new| {
            if old != new {
                before.extend(old.cloned());
                after.extend(new.cloned());
            }
        });
        // A slot may have passed from one key to another, and a key from one slot to another.
        let by_key = |a: &Object, b: &Object| KeyRef::of(a).cmp(KeyRef::of(b));
        before.sort_by(by_key);
        after.sort_by(by_key);
        merge(before, after, cause)
    }

    /// How many times the store was published before this snapshot.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The index of a name; `None` for the one by namespaces, which is the order of keys.
    fn added_index(&self, name: &str) -> Result<Option<&Index>, UnknownIndexError> {
        let found = self.indexes.iter().find(|index| &*index.name == name);
        match found {
            None if name != NAMESPACE_INDEX => Err(UnknownIndexError {
                name: name.to_owned(),
            }),
            found => Ok(found),
        }
    }

    /// Every namespace that has objects; the empty one for cluster scope.
    fn namespaces(&self) -> impl Iterator<Item = &str> {
        let namespace = |slot: &Slot| self.slots.get(*slot).map_or("", Object::namespace);
        let mut next = self.order.start();
        std::iter::from_fn(move || {
            let current = namespace(self.order.get(next)?);
            next = self.order.lower_bound(|slot| namespace(slot) <= current);
            Some(current)
        })
    }

    /// Adds an index over what is there.
    pub(super) fn add_index(&mut self, name: &str, function: IndexFn) {
        let mut index = Index::new(name, function);
        for slot in self.order.iter() {
            index.update(*slot, None, self.slots.get(*slot), &self.slots);
        }
        self.indexes.push(index);
    }

    /// Puts an object in and returns the one it replaces.
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

    /// Takes an object out.
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

    /// Takes the objects of a copy of this snapshot, which is empty itself, and the indexes over them.
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

    /// The slot of a key, or its place in the order of keys if it has none. Objects that are listed come in that order,
    /// so that nothing has to be searched.
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

    /// Where a key is in the order of keys, or would have to be.
    fn place(&self, key: KeyRef<'_>) -> Result<Place, Place> {
        self.order.find(|slot| {
            let object = self.slots.get(*slot);
            object.map_or(Ordering::Less, |object| KeyRef::of(object).cmp(key))
        })
    }
}

/// What has become of some objects, both in the order of their keys.
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

/// Walks through a snapshot that it keeps alive.
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
