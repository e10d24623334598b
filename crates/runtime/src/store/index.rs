//! Named indexes: objects by the values a function returns for them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use watchkeeper_wire::Object;

use super::chunks::{Chunks, Place};
use super::order::KeyRef;
use super::slots::{Slot, Slots};

/// The index every store has: objects by namespace, as in client-go's informers.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Returns the values of an object. Must return the same values for the same object.
pub type IndexFn = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// An unknown index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("index {name:?} does not exist")]
pub struct UnknownIndexError {
    /// The name asked for.
    pub name: String,
}

/// An index of that name exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("index {name:?} exists already")]
pub struct IndexExistsError {
    /// The name given.
    pub name: String,
}

/// One index: every value of every object, sorted by value and then by key.
#[derive(Clone)]
pub(super) struct Index {
    pub(super) name: Arc<str>,
    pub(super) function: IndexFn,
    entries: Chunks<Entry>,
}

#[derive(Clone)]
struct Entry {
    /// Shared by neighbours with the same value.
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

    /// Updates the entries of an object that was added, removed or changed.
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

    /// The slots of one value, sorted by key.
    pub(super) fn get<'a>(&'a self, value: &'a str) -> impl Iterator<Item = Slot> + Clone + 'a {
        let first = self.entries.lower_bound(|entry| &*entry.value < value);
        let entries = self.entries.iter_from(first);
        entries
            .take_while(move |entry| &*entry.value == value)
            .map(|entry| entry.slot)
    }

    /// Every value, without duplicates, sorted.
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

    /// The values of an object, without duplicates, sorted.
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

    /// The value, sharing the allocation of a neighbour.
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
