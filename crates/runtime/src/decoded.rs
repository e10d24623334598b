//! A cache of decoded structs: each version of an object is decoded once, when it is first read.
//!
//! A store keeps bytes, and most objects are never decoded. A reader of a [`Store<Pod>`](crate::store::Store) pays
//! for what it reads: some 10 µs for the first read of a pod of 3 kB, a look-up for later ones, and some thirteen
//! times its bytes in memory while this version is in the store. All readers of the same kind and store share the
//! structs. Reading undecoded objects costs nothing.
//!
//! An object that does not decode is reported once per version: in the log, in [`Decoded::failures`] and in
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

/// A struct of a type its reader knows.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// Decodes an object.
pub(crate) type Decode = fn(&Object) -> Result<Value, WireError>;

/// Stale structs are swept after this many were added since the last sweep, or as many as remained then.
const SWEEP_AFTER: usize = 64;

/// The structs read from a store, for one kind.
pub struct Decoded {
    /// At most one version of each object.
    entries: RwLock<HashTable<Arc<Entry>>>,
    hasher: RandomState,
    /// The number of entries that triggers the next sweep.
    sweep_at: AtomicUsize,
    failures: AtomicU64,
}

struct Entry {
    object: Object,
    value: OnceLock<Result<Value, Arc<str>>>,
}

/// An object in a store that does not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Its key.
    pub key: ObjectKey,
    /// Its version.
    pub version: ResourceVersion,
    /// The error.
    pub error: Arc<str>,
}

impl Decoded {
    /// The number of versions that did not decode since the store was created.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The number of cached structs.
    pub fn kept(&self) -> usize {
        self.entries.read().len()
    }

    /// The objects of a snapshot that were read and do not decode, sorted by key.
    pub fn undecodable(&self, state: &Snapshot) -> Vec<Undecodable> {
        let entries = self.entries.read();
        let present = entries.iter().filter(|entry| entry.is_in(state));
        let mut undecodable: Vec<_> = present.filter_map(|entry| entry.failure()).collect();
        undecodable.sort_by(|a, b| a.key.cmp(&b.key));
        undecodable
    }

    /// The struct of an object, from the cache if it is of the same version. `state` is the snapshot the object was
    /// read from; structs of objects that are not in it may be dropped.
    pub(crate) fn get(&self, object: &Object, state: Option<&Snapshot>, decode: Decode) -> Option<Value> {
        let entry = self.entry(object, state);
        // Outside the lock: other reads proceed, and a second reader of the same object waits.
        let value = entry.value.get_or_init(|| self.decode(object, decode));
        value.as_ref().ok().cloned()
    }

    fn decode(&self, object: &Object, decode: Decode) -> Result<Value, Arc<str>> {
        decode(object).map_err(|error| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            let key = object.key();
            tracing::error!(%key, version = object.resource_version(), %error, "object in the store cannot be decoded and is skipped");
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
            // Another thread was faster.
            Some(entry) if entry.object.is_same_version(object) => return entry.clone(),
            // An older state, such as that of an update, must not evict the current struct.
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

    /// Drops structs of objects that are no longer in the store. The cost is linear, after as many additions.
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
