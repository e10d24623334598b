//! The first list of a store that is empty: there is nothing to compare it with, so it becomes the store while it comes
//! in. Every object is put in its place when it has just been read; when the list is complete, nothing is left to do but
//! to show it.

use watchkeeper_wire::Object;

use super::order::KeyRef;
use super::relist::Relist;
use super::snapshot::Snapshot;
use crate::delta::{Cause, Delta};

/// The objects of the first list so far, and the indexes over them.
#[derive(Debug)]
pub(super) struct FirstList(Snapshot);

impl FirstList {
    /// For a store that is empty.
    pub(super) fn new(store: &Snapshot) -> Self {
        Self(store.clone())
    }

    /// One object. Of two with the same key the later one counts.
    pub(super) fn add(&mut self, object: Object) {
        self.0.put(object);
    }

    /// An object that was listed and has gone before the list was complete.
    pub(super) fn remove(&mut self, object: &Object) {
        self.0.take(KeyRef::of(object));
    }

    /// The list is complete, and the store is still empty.
    pub(super) fn become_store(self, store: &mut Snapshot, cause: Cause, deltas: &mut Vec<Delta>) {
        store.take_over(self.0);
        let added = store.iter().cloned();
        deltas.extend(added.map(|object| Delta::Added { object, cause }));
    }

    /// The same list, for a store that was filled meanwhile, or if the list is not all there is.
    pub(super) fn to_relist(&self, store: &Snapshot) -> Relist {
        let mut relist = Relist::default();
        for object in self.0.iter() {
            relist.add(object.clone(), store, None);
        }
        relist
    }
}
