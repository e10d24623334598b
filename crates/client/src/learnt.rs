//! What a client has learnt about its server, for all who share the client.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use watchkeeper_meta::GroupResource;

/// How long to believe that a server has no streaming lists. It may only have been slow, and it may be replaced by one
/// that has them; to try again costs whoever does ten seconds at most. client-go tries again with each list.
pub const STREAMING_PAUSE: Duration = Duration::from_secs(600);

/// What need not be tried again for a while. Holds one entry at most for each resource that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    without_streaming_lists: Mutex<HashMap<GroupResource, Instant>>,
}

impl Learnt {
    pub(crate) fn has_streaming_lists(&self, resource: &GroupResource) -> bool {
        let noted = self.noted().get(resource).copied();
        noted.is_none_or(|noted| noted.elapsed() >= STREAMING_PAUSE)
    }

    pub(crate) fn note_no_streaming_lists(&self, resource: GroupResource) {
        self.noted().insert(resource, Instant::now());
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<GroupResource, Instant>> {
        let noted = self.without_streaming_lists.lock();
        noted.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_learnt_is_forgotten_in_time() {
        let (learnt, pods) = (Learnt::default(), GroupResource::new("", "pods"));
        assert!(learnt.has_streaming_lists(&pods));
        learnt.note_no_streaming_lists(pods.clone());
        assert!(!learnt.has_streaming_lists(&pods));
        assert!(learnt.has_streaming_lists(&GroupResource::new("", "nodes")));
        tokio::time::advance(STREAMING_PAUSE).await;
        assert!(learnt.has_streaming_lists(&pods));
    }
}
