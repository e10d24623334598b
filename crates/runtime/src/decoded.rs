//! Structs beside objects: each version of an object is decoded when it is first read, once, and kept.
//!
//! A store keeps bytes, and most objects are never looked into. Who reads a [`Store<Pod>`](crate::store::Store) pays
//! for what is read: some 10 µs for the first read of a pod of 3 kB, a lookup for later ones, and memory of some
//! thirteen times its bytes for as long as this version is in the store. All who read the same kind from the same store
//! share the structs. Who reads objects as they are pays nothing.
//!
//! An object that does not decode is reported here, once per version: in the log, in [`Decoded::failures`] and in
//! [`Decoded::undecodable`]. Readers do not see it.

use std::any::Any;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::RwLock;
use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_wire::{Object, WireError};

use crate::store::Snapshot;

/// A struct of a type that its reader knows.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// Makes a struct of an object.
pub(crate) type Decode = fn(&Object) -> Result<Value, WireError>;

/// What has gone from the store is looked for when this many structs have been added since the last time, or as many
/// as there were left then.
const SWEEP_AFTER: usize = 64;

/// The structs that were read from a store, for one kind.
pub struct Decoded {
    /// At most one version of each object.
    entries: RwLock<HashTable<Arc<Entry>>>,
    hasher: RandomState,
    /// How many entries there may be before those that have gone are looked for.
    sweep_at: AtomicUsize,
    failures: AtomicU64,
}

struct Entry {
    object: Object,
    value: OnceLock<Result<Value, Arc<str>>>,
}

/// An object of a store that does not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Which object.
    pub key: ObjectKey,
    /// Which version of it.
    pub version: ResourceVersion,
    /// What is wrong with it.
    pub error: Arc<str>,
}

impl Decoded {
    /// How many versions of objects did not decode since the store was made.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How many structs are kept.
    pub fn kept(&self) -> usize {
        self.entries.read().len()
    }

    /// The objects of a state of the store that were read and do not decode, in the order of their keys.
    pub fn undecodable(&self, state: &Snapshot) -> Vec<Undecodable> {
        let entries = self.entries.read();
        let present = entries.iter().filter(|entry| entry.is_in(state));
        let mut undecodable: Vec<_> = present.filter_map(|entry| entry.failure()).collect();
        undecodable.sort_by(|a, b| a.key.cmp(&b.key));
        undecodable
    }

    /// The struct of an object: the one decoded before, if it is of the same version. `state` is what the object was
    /// read from; what is not in it any more may be forgotten.
    pub(crate) fn get(&self, object: &Object, state: Option<&Snapshot>, decode: Decode) -> Option<Value> {
        let entry = self.entry(object, state);
        // Outside the lock: others read meanwhile, and who wants the same waits.
        let value = entry.value.get_or_init(|| self.decode(object, decode));
        value.as_ref().ok().cloned()
    }

    fn decode(&self, object: &Object, decode: Decode) -> Result<Value, Arc<str>> {
        decode(object).map_err(|error| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            let key = object.key();
            tracing::error!(%key, version = object.resource_version(), %error, "an object of the store does not decode and is left out");
            error.to_string().into()
        })
    }

    fn entry(&self, object: &Object, state: Option<&Snapshot>) -> Arc<Entry> {
        let hash = self.hasher.hash_one(object.key_bytes());
        let same_key = |entry: &Arc<Entry>| entry.object.key_bytes() == object.key_bytes();
        if let Some(entry) = self.entries.read().find(hash, same_key)
            && entry.object.is_same_version(object)
        {
            return entry.clone();
        }
        let new = Arc::new(Entry {
            object: object.clone(),
            value: OnceLock::new(),
        });
        let mut entries = self.entries.write();
        match entries.find_mut(hash, same_key) {
            // Somebody else was faster.
            Some(entry) if entry.object.is_same_version(object) => return entry.clone(),
            // A look at the past, such as the old state of an update: it must not cost the present its struct.
            Some(entry) if is_newer(&entry.object, object) => {}
            Some(entry) => *entry = new.clone(),
            None => {
                let hash_of = |entry: &Arc<Entry>| self.hasher.hash_one(entry.object.key_bytes());
                entries.insert_unique(hash, new.clone(), hash_of);
                if let Some(state) = state {
                    self.sweep(&mut entries, state);
                }
            }
        }
        new
    }

    /// Forgets what has gone from the store. Costs a look at each entry, and comes after as many were added.
    fn sweep(&self, entries: &mut HashTable<Arc<Entry>>, state: &Snapshot) {
        if entries.len() < self.sweep_at.load(Ordering::Relaxed) {
            return;
        }
        entries.retain(|entry| {
            state
                .find(entry.object.namespace(), entry.object.name())
                .is_some()
        });
        let next = entries.len() + entries.len().max(SWEEP_AFTER);
        self.sweep_at.store(next, Ordering::Relaxed);
    }
}

impl Entry {
    fn is_in(&self, state: &Snapshot) -> bool {
        let present = state.find(self.object.namespace(), self.object.name());
        present.is_some_and(|present| present.is_same_version(&self.object))
    }

    fn failure(&self) -> Option<Undecodable> {
        let error = self.value.get()?.as_ref().err()?.clone();
        Some(Undecodable {
            key: self.object.key(),
            version: self.object.version(),
            error,
        })
    }
}

fn is_newer(one: &Object, other: &Object) -> bool {
    one.version().compare(&other.version()) == Some(std::cmp::Ordering::Greater)
}

impl Default for Decoded {
    fn default() -> Self {
        Self {
            entries: RwLock::default(),
            hasher: RandomState::default(),
            sweep_at: AtomicUsize::new(SWEEP_AFTER),
            failures: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoded")
            .field("kept", &self.kept())
            .field("failures", &self.failures())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::store::tests::object;

    fn decode(object: &Object) -> Result<Value, WireError> {
        Ok(Arc::new(object.decode::<Json>()?))
    }

    fn get(decoded: &Decoded, text: &str) -> Value {
        decoded.get(&object(text), None, decode).unwrap()
    }

    #[test]
    fn a_version_is_decoded_once() {
        let decoded = Decoded::default();
        let first = get(&decoded, "a/x@1");
        assert!(Arc::ptr_eq(&first, &get(&decoded, "a/x@1")));
        let next = get(&decoded, "a/x@2");
        assert!(!Arc::ptr_eq(&first, &next));
        assert_eq!(decoded.kept(), 1, "the old version is forgotten");
        let recreated = get(&decoded, "a/x@2#other");
        assert!(!Arc::ptr_eq(&next, &recreated));
    }

    #[test]
    fn a_look_at_the_past_does_not_cost_the_present_its_struct() {
        let decoded = Decoded::default();
        let present = get(&decoded, "a/x@2");
        get(&decoded, "a/x@1");
        assert!(Arc::ptr_eq(&present, &get(&decoded, "a/x@2")));
    }

    #[test]
    fn what_has_gone_from_the_store_is_forgotten() {
        let (decoded, empty) = (Decoded::default(), Snapshot::default());
        for number in 0..10 * SWEEP_AFTER {
            let object = object(&format!("a/x{number}@1"));
            decoded.get(&object, Some(&empty), decode).unwrap();
        }
        assert!(decoded.kept() < 2 * SWEEP_AFTER, "{}", decoded.kept());
    }
}
