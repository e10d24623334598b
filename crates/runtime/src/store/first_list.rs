//! The first list of an empty store. There is nothing to compare it with, so it becomes the store while it arrives:
//! every object is inserted when it is read, and when the list is complete it only has to be published.

use watchkeeper_wire::Object;

use super::order::KeyRef;
use super::relist::Relist;
use super::snapshot::Snapshot;
use crate::delta::{Cause, Delta};

/// The objects of the first list so far, and the indexes over them.
#[derive(Debug)]
pub(super) struct FirstList(Snapshot);

impl FirstList {
    /// For an empty store.
    pub(super) fn new(store: &Snapshot) -> Self {
        Self(store.clone())
    }

    /// Adds an object. Of two with the same key the later one counts.
    pub(super) fn add(&mut self, object: Object) {
        self.0.put(object);
    }

    /// An object that was listed and deleted before the list was complete.
    pub(super) fn remove(&mut self, object: &Object) {
        self.0.take(KeyRef::of(object));
    }

    /// The list is complete, and the store is still empty.
    pub(super) fn become_store(self, store: &mut Snapshot, cause: Cause, deltas: &mut Vec<Delta>) {
        store.take_over(self.0);
        let added = store.iter().cloned();
        deltas.extend(added.map(|object| Delta::Added { object, cause }));
    }

    /// The same list as a comparison, if the store was filled meanwhile or the list is only a part of it.
    pub(super) fn to_relist(&self, store: &Snapshot) -> Relist {
        let mut relist = Relist::default();
        for object in self.0.iter() {
            relist.add(object.clone(), store, None);
        }
        relist
    }
}
