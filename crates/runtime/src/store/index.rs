//! Named indexes: objects by the values a function finds in them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use watchkeeper_wire::Object;

use super::chunks::Chunks;
use super::order::KeyRef;

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
    function: IndexFn,
    entries: Chunks<Entry>,
}

#[derive(Clone)]
struct Entry {
    /// Shared by neighbours of the same value.
    value: Arc<str>,
    object: Object,
}

impl Index {
    pub(super) fn new(name: &str, function: IndexFn) -> Self {
        Self {
            name: name.into(),
            function,
            entries: Chunks::default(),
        }
    }

    /// An object has come, gone or changed.
    pub(super) fn update(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let before = old.map_or(Vec::new(), |old| self.values_of(old));
        let after = new.map_or(Vec::new(), |new| self.values_of(new));
        if let Some(old) = old {
            let gone = before.iter().filter(|value| after.binary_search(value).is_err());
            gone.for_each(|value| self.remove(value, old));
        }
        if let Some(new) = new {
            after.iter().for_each(|value| self.put(value, new));
        }
    }

    /// The objects of one value, in the order of their keys.
    pub(super) fn get<'a>(&'a self, value: &'a str) -> impl Iterator<Item = &'a Object> + Clone {
        let first = self.entries.lower_bound(|entry| &*entry.value < value);
        let entries = self.entries.iter_from(first);
        entries
            .take_while(move |entry| &*entry.value == value)
            .map(|entry| &entry.object)
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

    fn values_of(&self, object: &Object) -> Vec<String> {
        let mut values = (self.function)(object);
        values.sort();
        values.dedup();
        values
    }

    fn put(&mut self, value: &str, object: &Object) {
        let found = self.entries.find(|entry| entry.compare(value, object));
        let entry = |value| Entry {
            value,
            object: object.clone(),
        };
        match found {
            Ok(place) => {
                let shared = self.entries.get(place).map(|entry| entry.value.clone());
                self.entries
                    .replace(place, entry(shared.unwrap_or_else(|| value.into())));
            }
            Err(place) => {
                let shared = self
                    .entries
                    .get(self.entries.lower_bound(|entry| &*entry.value < value));
                let shared = shared
                    .filter(|entry| &*entry.value == value)
                    .map(|entry| entry.value.clone());
                self.entries
                    .insert(place, entry(shared.unwrap_or_else(|| value.into())));
            }
        }
    }

    fn remove(&mut self, value: &str, object: &Object) {
        if let Ok(place) = self.entries.find(|entry| entry.compare(value, object)) {
            self.entries.remove(place);
        }
    }
}

impl Entry {
    fn compare(&self, value: &str, object: &Object) -> Ordering {
        let by_value = (*self.value).cmp(value);
        by_value.then_with(|| KeyRef::of(&self.object).cmp(KeyRef::of(object)))
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
