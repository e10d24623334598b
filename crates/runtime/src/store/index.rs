//! Named indexes: objects by the values a function finds in them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use watchkeeper_wire::Object;

use super::chunks::{Chunks, Place};
use super::order::KeyRef;
use super::slots::{Slot, Slots};

/// The index that every store has: objects by their namespace, as client-go's informers have it.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Finds the values under which an object is to be found. Must give the same values for the same object.
pub type IndexFn = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// The index of a store that asks for one it does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("index {name:?} does not exist")]
pub struct UnknownIndexError {
    /// The name asked for.
    pub name: String,
}

/// A second index by the name of one that exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("index {name:?} exists already")]
pub struct IndexExistsError {
    /// The name given.
    pub name: String,
}

/// One index: every value of every object, in the order of values and then of keys.
#[derive(Clone)]
pub(super) struct Index {
    pub(super) name: Arc<str>,
    pub(super) function: IndexFn,
    entries: Chunks<Entry>,
}

#[derive(Clone)]
struct Entry {
    /// Shared by neighbours of the same value.
    value: Arc<str>,
    slot: Slot,
}

impl Index {
    pub(super) fn new(name: &str, function: IndexFn) -> Self {
        Self {
            name: name.into(),
            function,
            entries: Chunks::default(),
        }
    }

    /// The object in a slot has come, gone or changed. It, or what it was, is in its slot.
    pub(super) fn update(&mut self, slot: Slot, old: Option<&Object>, new: Option<&Object>, slots: &Slots) {
        let before = old.map_or(Vec::new(), |old| self.values_of(old));
        let after = new.map_or(Vec::new(), |new| self.values_of(new));
        let Some(key) = old.or(new).map(KeyRef::of) else {
            return;
        };
        for value in before.iter().filter(|value| after.binary_search(value).is_err()) {
            if let Ok(place) = self.find(value, key, slots) {
                self.entries.remove(place);
            }
        }
        for value in after.iter().filter(|value| before.binary_search(value).is_err()) {
            if let Err(place) = self.find(value, key, slots) {
                let value = self.shared(value);
                self.entries.insert(place, Entry { value, slot });
            }
        }
    }

    /// The slots of one value, in the order of their keys.
    pub(super) fn get<'a>(&'a self, value: &'a str) -> impl Iterator<Item = Slot> + Clone + 'a {
        let first = self.entries.lower_bound(|entry| &*entry.value < value);
        let entries = self.entries.iter_from(first);
        entries
            .take_while(move |entry| &*entry.value == value)
            .map(|entry| entry.slot)
    }

    /// Every value, once, in order.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        let mut next = self.entries.lower_bound(|_| false);
        std::iter::from_fn(move || {
            let value = &*self.entries.get(next)?.value;
            next = self.entries.lower_bound(|entry| &*entry.value <= value);
            Some(value)
        })
    }

    pub(super) fn memory_size(&self) -> usize {
        self.entries.memory_size()
    }

    /// The values of an object, once each and in order.
    pub(super) fn values_of(&self, object: &Object) -> Vec<String> {
        let mut values = (self.function)(object);
        values.sort();
        values.dedup();
        values
    }

    fn find(&self, value: &str, key: KeyRef<'_>, slots: &Slots) -> Result<Place, Place> {
        self.entries.find(|entry| {
            let by_value = (*entry.value).cmp(value);
            by_value.then_with(|| {
                slots
                    .get(entry.slot)
                    .map_or(Ordering::Less, |object| KeyRef::of(object).cmp(key))
            })
        })
    }

    /// The value as its other objects have it.
    fn shared(&self, value: &str) -> Arc<str> {
        let first = self.entries.lower_bound(|entry| &*entry.value < value);
        let known = self.entries.get(first).filter(|entry| &*entry.value == value);
        known.map_or_else(|| value.into(), |entry| entry.value.clone())
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name)
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}
