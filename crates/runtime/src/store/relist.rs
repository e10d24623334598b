//! A list that is compared with the objects of the store.
//!
//! Objects whose version the store has are replaced by the stored ones at once, so that a list costs the memory of
//! its changes and one reference per object, not that of a second store.
//!
//! An object that could not be decoded exists: its stored state stays. If not even its name could be read, it may be
//! any missing object, and none is reported as deleted.

use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::Object;

use super::order::KeyRef;
use super::snapshot::Snapshot;
use super::{Transform, transformed};
use crate::delta::{Cause, Delta};

/// The objects of one list so far.
#[derive(Debug, Default)]
pub(super) struct Relist {
    /// In the order received. `Gone` hides earlier entries of the same key.
    listed: Vec<Listed>,
    /// True if the list had an object without a readable name.
    has_unnamed: bool,
}

#[derive(Debug)]
enum Listed {
    /// The store has this version.
    Same(Object),
    /// The store has another version, or none.
    Other(Object),
    /// It was listed, and then deleted.
    Gone(Object),
    /// It was listed, and cannot be decoded.
    Unread(ObjectKey),
}

impl Listed {
    fn key(&self) -> KeyRef<'_> {
        match self {
            Self::Same(object) | Self::Other(object) | Self::Gone(object) => KeyRef::of(object),
            Self::Unread(key) => KeyRef::new(key.namespace(), key.name()),
        }
    }
}

impl Relist {
    /// Adds an object, transformed unless the store already has this version.
    pub(super) fn add(&mut self, object: Object, store: &Snapshot, transform: Option<&Transform>) {
        let known = store.find_key(KeyRef::of(&object));
        let same = known.filter(|known| known.is_same_version(&object)).cloned();
        self.listed.push(match same {
            Some(same) => Listed::Same(same),
            None => Listed::Other(transformed(object, transform)),
        });
    }

    /// An object that was listed and deleted before the list was complete.
    pub(super) fn remove(&mut self, object: Object) {
        self.listed.push(Listed::Gone(object));
    }

    /// Adds an object that cannot be decoded.
    pub(super) fn and_unread(mut self, key: Option<ObjectKey>) -> Self {
        match key {
            Some(key) => self.listed.push(Listed::Unread(key)),
            None => self.has_unnamed = true,
        }
        self
    }

    /// The changes to a store, within a namespace or in all of it: deletes first, then adds and updates, sorted by
    /// key.
    pub(super) fn finish(self, store: &Snapshot, namespace: Option<&str>, cause: Cause) -> Vec<Delta> {
        let has_unnamed = self.has_unnamed;
        let listed = self.sorted();
        let mut deltas: Vec<Delta> = match namespace {
            _ if has_unnamed => Vec::new(),
            Some(namespace) => gone(store.in_namespace(namespace), &listed, cause),
            None => gone(store.iter(), &listed, cause),
        };
        deltas.extend(listed.into_iter().filter_map(|listed| {
            let Listed::Other(object) = listed else {
                return None;
            };
            Some(match store.find_key(KeyRef::of(&object)).cloned() {
                None => Delta::Added { object, cause },
                Some(old) => Delta::Updated {
                    old,
                    new: object,
                    cause,
                },
            })
        }));
        deltas
    }

    /// One entry per key, the last one received, sorted by key.
    fn sorted(self) -> Vec<Listed> {
        let mut listed = self.listed;
        // Servers list in this order, which a stable sort exploits; equal keys stay in the order received.
        listed.sort_by(|a, b| a.key().cmp(b.key()));
        let mut last_of_each: Vec<Listed> = Vec::with_capacity(listed.len());
        for entry in listed {
            if last_of_each.last().is_some_and(|last| last.key() == entry.key()) {
                if let Listed::Unread(_) = entry {
                    continue; // what was read of it is the last state known
                }
                last_of_each.pop();
            }
            last_of_each.push(entry);
        }
        last_of_each.retain(|entry| !matches!(entry, Listed::Gone(_)));
        last_of_each
    }
}

/// The objects of the store that are not in the list; both are sorted by key.
fn gone<'a>(store: impl Iterator<Item = &'a Object>, listed: &[Listed], cause: Cause) -> Vec<Delta> {
    let mut listed = listed.iter().peekable();
    let missing = store.filter(|object| {
        let key = KeyRef::of(object);
        while listed.next_if(|other| other.key().cmp(key).is_lt()).is_some() {}
        listed.peek().is_none_or(|other| other.key() != key)
    });
    let deleted = |object: &Object| Delta::Deleted {
        old: object.clone(),
        last: object.clone(),
        final_state: false,
        cause,
    };
    missing.map(deleted).collect()
}
