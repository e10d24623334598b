//! A list that comes in beside the objects already there: what it changes, found by comparison.
//!
//! Objects whose version is known are dropped at once in favour of the one in the store, so that a list costs the
//! memory of its changes and one reference per object, not that of a second store.

use watchkeeper_wire::Object;

use super::Transform;
use super::order::KeyRef;
use super::snapshot::Snapshot;
use crate::delta::{Cause, Delta};

/// The objects of one list so far.
#[derive(Debug, Default)]
pub(super) struct Relist {
    /// In the order received. `Gone` hides what was listed before it under the same key.
    listed: Vec<Listed>,
}

#[derive(Debug)]
enum Listed {
    Here(Object),
    Gone(Object),
}

impl Listed {
    fn object(&self) -> &Object {
        match self {
            Self::Here(object) | Self::Gone(object) => object,
        }
    }
}

impl Relist {
    /// One object of the list, which `transform` changes unless the store has it already.
    pub(super) fn add(&mut self, object: Object, store: &Snapshot, transform: Option<&Transform>) {
        let known = store.find(object.namespace(), object.name());
        let known = known.filter(|known| known.is_same_version(&object)).cloned();
        let object = known.unwrap_or_else(|| match transform {
            Some(transform) => transform(object),
            None => object,
        });
        self.listed.push(Listed::Here(object));
    }

    /// An object that was listed and has gone before the list was complete.
    pub(super) fn remove(&mut self, object: Object) {
        self.listed.push(Listed::Gone(object));
    }

    /// What the list changes in a store, within a namespace or in all of it: first what is gone, then what is new
    /// or other, in the order of keys.
    pub(super) fn finish(self, store: &Snapshot, namespace: Option<&str>, cause: Cause) -> Vec<Delta> {
        let listed = self.sorted();
        let mut deltas: Vec<Delta> = match namespace {
            Some(namespace) => gone(store.in_namespace(namespace), &listed, cause),
            None => gone(store.iter(), &listed, cause),
        };
        deltas.extend(listed.into_iter().filter_map(|object| {
            match store.find(object.namespace(), object.name()) {
                None => Some(Delta::Added { object, cause }),
                Some(old) if old.is_same_version(&object) => None,
                Some(old) => Some(Delta::Updated {
                    old: old.clone(),
                    new: object,
                    cause,
                }),
            }
        }));
        deltas
    }

    /// One object per key, the last one received, in the order of keys.
    fn sorted(self) -> Vec<Object> {
        let mut listed = self.listed;
        // Servers list in this order already, which a stable sort notices; of equal keys the later stays later.
        listed.sort_by(|a, b| KeyRef::of(a.object()).cmp(KeyRef::of(b.object())));
        let mut objects: Vec<Object> = Vec::with_capacity(listed.len());
        for entry in listed {
            let same = |last: &Object| KeyRef::of(last) == KeyRef::of(entry.object());
            if objects.last().is_some_and(same) {
                objects.pop();
            }
            if let Listed::Here(object) = entry {
                objects.push(object);
            }
        }
        objects
    }
}

/// The objects of the store that are not in the list; both in the order of keys.
fn gone<'a>(store: impl Iterator<Item = &'a Object>, listed: &[Object], cause: Cause) -> Vec<Delta> {
    let mut listed = listed.iter().peekable();
    let missing = store.filter(|object| {
        let key = KeyRef::of(object);
        while listed
            .next_if(|other| KeyRef::of(other).cmp(key).is_lt())
            .is_some()
        {}
        listed.peek().is_none_or(|other| KeyRef::of(other) != key)
    });
    let deleted = |object: &Object| Delta::Deleted {
        last: object.clone(),
        final_state: false,
        cause,
    };
    missing.map(deleted).collect()
}
