//! A list that comes in beside the objects already there: what it changes, found by comparison.
//!
//! Objects whose version is known are dropped at once in favour of the one in the store, so that a list costs the
//! memory of its changes and one reference per object, not that of a second store.
//!
//! An object that could not be read is there all the same: what the store has of it stays. Where not even its name
//! could be read, it may be any of those that are missing, and none of them is told as gone.

use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::Object;

use super::order::KeyRef;
use super::snapshot::Snapshot;
use super::{Transform, transformed};
use crate::delta::{Cause, Delta};

/// The objects of one list so far.
#[derive(Debug, Default)]
pub(super) struct Relist {
    /// In the order received. `Gone` hides what was listed before it under the same key.
    listed: Vec<Listed>,
    /// Whether an object was listed of which nobody knows the name.
    has_unnamed: bool,
}

#[derive(Debug)]
enum Listed {
    /// The store has it as it is listed.
    Same(Object),
    /// The store has another state of it, or none.
    Other(Object),
    /// It was listed, and is gone.
    Gone(Object),
    /// It was listed, and cannot be read.
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
    /// One object of the list, which `transform` changes unless the store has it already.
    pub(super) fn add(&mut self, object: Object, store: &Snapshot, transform: Option<&Transform>) {
        let known = store.find_key(KeyRef::of(&object));
        let same = known.filter(|known| known.is_same_version(&object)).cloned();
        self.listed.push(match same {
            Some(same) => Listed::Same(same),
            None => Listed::Other(transformed(object, transform)),
        });
    }

    /// An object that was listed and has gone before the list was complete.
    pub(super) fn remove(&mut self, object: Object) {
        self.listed.push(Listed::Gone(object));
    }

    /// And an object that cannot be read.
    pub(super) fn and_unread(mut self, key: Option<ObjectKey>) -> Self {
        match key {
            Some(key) => self.listed.push(Listed::Unread(key)),
            None => self.has_unnamed = true,
        }
        self
    }

    /// What the list changes in a store, within a namespace or in all of it: first what is gone, then what is new
    /// or other, in the order of keys.
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

    /// One object per key, the last one received, in the order of keys.
    fn sorted(self) -> Vec<Listed> {
        let mut listed = self.listed;
        // Servers list in this order already, which a stable sort notices; of equal keys the later stays later.
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

/// The objects of the store that are not in the list; both in the order of keys.
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
