//! An inventory: key, uid and version of each object of a stream, without the objects.

use std::collections::HashMap;

use watchkeeper_meta::{ObjectKey, ResourceVersion};

/// The objects of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    objects: HashMap<ObjectKey, Held, foldhash::fast::RandomState>,
}

/// An object as last reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Distinguishes an object from a later one of the same name.
    pub uid: Box<str>,
    /// Its version.
    pub version: ResourceVersion,
}

impl Inventory {
    /// The last report of an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Held> {
        self.objects.get(key)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects, unordered.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Held)> {
        self.objects.iter()
    }

    pub(super) fn put(&mut self, key: &str, uid: Box<str>, version: ResourceVersion) {
        if let Some(key) = ObjectKey::parse(key) {
            self.objects.insert(key, Held { uid, version });
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some(key) = ObjectKey::parse(key) {
            self.objects.remove(&key);
        }
    }
}
