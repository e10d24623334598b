//! Facts learnt about a server, shared by all users of the client.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use watchkeeper_meta::GroupResource;

/// The time a server is assumed to lack streaming lists. It may only have been slow, or may be replaced by one that
/// has them; another attempt costs at most ten seconds. client-go tries again with each list.
pub const STREAMING_PAUSE: Duration = Duration::from_secs(600);

/// Features that need not be tried again for a while. At most one entry per requested resource.
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
    async fn a_missing_feature_is_tried_again_after_ten_minutes() {
        let (learnt, pods) = (Learnt::default(), GroupResource::new("", "pods"));
        assert!(learnt.has_streaming_lists(&pods));
        learnt.note_no_streaming_lists(pods.clone());
        assert!(!learnt.has_streaming_lists(&pods));
        assert!(learnt.has_streaming_lists(&GroupResource::new("", "nodes")));
        tokio::time::advance(STREAMING_PAUSE).await;
        assert!(learnt.has_streaming_lists(&pods));
    }
}
