//! What a client has learnt about its server, for all who share the client.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use watchkeeper_meta::GroupResource;

/// What need not be tried again. Holds one entry at most for each resource that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    without_streaming_lists: Mutex<HashSet<GroupResource>>,
}

impl Learnt {
    pub(crate) fn has_streaming_lists(&self, resource: &GroupResource) -> bool {
        !self.set().contains(resource)
    }

    pub(crate) fn note_no_streaming_lists(&self, resource: GroupResource) {
        self.set().insert(resource);
    }

    fn set(&self) -> MutexGuard<'_, HashSet<GroupResource>> {
        let set = self.without_streaming_lists.lock();
        set.unwrap_or_else(PoisonError::into_inner)
    }
}
