//! Two ways to read an object: decode it when asked, or keep what was decoded.
//!
//! A store keeps bytes. `object.decode::<Pod>()` reads them into a struct each time it is called: some 10 µs for a pod
//! of 3 kB, and the memory only while the struct lives. That is right for most: a reconcile reads one object and is
//! done.
//!
//! A kind that is read over and over can keep its decoded values: [`DecodedStore`] reads an informer's store and does.
//! The first read of each version decodes, later ones cost a lookup; a version that was replaced is forgotten when the
//! new one is read. The price is memory: a decoded pod takes some thirteen times its bytes. Only objects that are read
//! are kept, and no more than the limit. The figures are from `crates/bench/README.md`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::{Object, WireError};

use crate::store::Store;

/// As many values are kept by default; a full cache forgets one value for each that comes.
pub const DEFAULT_LIMIT: usize = 10_000;

/// Decoded values of the objects that are read most. Clones share them.
pub struct Decoded<K> {
    values: Arc<Mutex<HashMap<ObjectKey, Value<K>>>>,
    limit: usize,
}

/// A store whose objects are read as structs, for a kind that is read over and over. Clones share what is kept.
pub struct DecodedStore<K> {
    store: Store,
    values: Decoded<K>,
}

struct Value<K> {
    uid: Box<str>,
    version: Box<str>,
    decoded: Arc<K>,
}

impl<K: DeserializeOwned> Decoded<K> {
    /// Keeps [`DEFAULT_LIMIT`] values.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// Keeps at most so many values.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            values: Arc::default(),
            limit: limit.max(1),
        }
    }

    /// The object as a struct: the one decoded before, if it is of the same version.
    pub fn get(&self, object: &Object) -> Result<Arc<K>, WireError> {
        let key = object.key();
        if let Some(value) = self.values.lock().get(&key)
            && *value.version == *object.resource_version()
            && *value.uid == *object.uid()
        {
            return Ok(value.decoded.clone());
        }
        // Decoded outside the lock: others read meanwhile, and at worst two decode the same.
        let decoded = Arc::new(object.decode::<K>()?);
        let value = Value {
            uid: object.uid().into(),
            version: object.resource_version().into(),
            decoded: decoded.clone(),
        };
        let mut values = self.values.lock();
        if values.len() >= self.limit
            && !values.contains_key(&key)
            && let Some(any) = values.keys().next().cloned()
        {
            values.remove(&any);
        }
        values.insert(key, value);
        Ok(decoded)
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.values.lock().remove(key);
    }

    /// How many values are kept.
    pub fn len(&self) -> usize {
        self.values.lock().len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: DeserializeOwned> DecodedStore<K> {
    /// Reads this store and keeps at most so many values.
    pub fn new(store: Store, limit: usize) -> Self {
        let values = Decoded::with_limit(limit);
        Self { store, values }
    }

    /// One object as it is at this moment; `None` if there is none, and what was kept of it goes.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, WireError> {
        let Some(object) = self.store.get(key) else {
            self.values.forget(key);
            return Ok(None);
        };
        self.values.get(&object).map(Some)
    }

    /// The objects as bytes.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The values that are kept.
    pub fn kept(&self) -> &Decoded<K> {
        &self.values
    }
}

impl<K> Clone for DecodedStore<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            values: self.values.clone(),
        }
    }
}

impl<K> fmt::Debug for DecodedStore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DecodedStore").field(&self.values).finish()
    }
}

impl<K: DeserializeOwned> Default for Decoded<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for Decoded<K> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            limit: self.limit,
        }
    }
}

impl<K> fmt::Debug for Decoded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoded")
            .field("kept", &self.values.lock().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{self, tests::object};
    use crate::watcher::Event;

    #[test]
    fn a_version_is_decoded_once() {
        let decoded = Decoded::<serde_json::Value>::new();
        let first = decoded.get(&object("a/x@1")).unwrap();
        assert!(Arc::ptr_eq(&first, &decoded.get(&object("a/x@1")).unwrap()));
        let next = decoded.get(&object("a/x@2")).unwrap();
        assert_eq!(next["metadata"]["resourceVersion"], "2");
        assert_eq!(decoded.len(), 1, "the old version is forgotten");
        let recreated = decoded.get(&object("a/x@2#other")).unwrap();
        assert!(!Arc::ptr_eq(&next, &recreated));
        decoded.forget(&ObjectKey::new("a", "x"));
        assert!(decoded.is_empty());
    }

    #[test]
    fn a_decoded_store_follows_its_store() {
        let (store, mut writer) = store::new();
        let decoded = DecodedStore::<serde_json::Value>::new(store, 10);
        let key = ObjectKey::new("a", "x");
        let mut deltas = Vec::new();
        let mut apply = |event| {
            writer.apply(0, event, &mut deltas);
            writer.publish();
        };
        assert!(decoded.get(&key).unwrap().is_none());
        apply(Event::Modified(object("a/x@1")));
        let first = decoded.get(&key).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &decoded.clone().get(&key).unwrap().unwrap()));
        apply(Event::Modified(object("a/x@2")));
        assert_eq!(
            decoded.get(&key).unwrap().unwrap()["metadata"]["resourceVersion"],
            "2"
        );
        apply(Event::Deleted(object("a/x@3")));
        assert!(decoded.get(&key).unwrap().is_none());
        assert!(decoded.kept().is_empty(), "what is gone is not kept");
    }

    #[test]
    fn no_more_than_the_limit_is_kept() {
        let decoded = Decoded::<serde_json::Value>::with_limit(3);
        for number in 0..10 {
            decoded.get(&object(&format!("a/x{number}@1"))).unwrap();
        }
        assert_eq!(decoded.len(), 3);
    }
}
