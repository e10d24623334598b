//! Follows the CustomResourceDefinitions that other servers write to a shared store.
//!
//! All other state is derived from the store and its feeds. The served kinds are recompiled when this server writes a
//! definition; definitions written by another server arrive through this feed.

use std::sync::Weak;
use std::time::Duration;

use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;
use watchkeeper_storage::{Feed, ReadError};

use crate::Registry;
use crate::registry::Inner;

/// The pause after a failed read of definitions.
const RETRY: Duration = Duration::from_secs(1);

/// A feed of definitions; `None` if no other server writes to the store.
pub(crate) fn definition_feed(registry: &Registry) -> Result<Option<Feed>, Status> {
    if !registry.store().is_shared() {
        return Ok(None);
    }
    let defining = registry.builtin(&builtin::CUSTOM_RESOURCE_DEFINITION)?;
    let after = registry.store().current_revision();
    let feed = registry.store().watch(&defining.prefix(""), after);
    feed.map(Some).map_err(Status::internal_error)
}

/// Updates the served kinds whenever a definition changes, until the registry is dropped.
pub(crate) async fn follow_definitions(registry: Weak<Inner>, mut feed: Feed) {
    loop {
        match feed.next().await {
            Ok(_) => {}
            Err(ReadError::Compacted { .. }) => drop(feed.skip_dropped()),
            Err(_) => return,
        }
        while let Some(registry) = Registry::upgrade(&registry) {
            match registry.settle_custom_kinds().await {
                Ok(()) => break,
                Err(status) => tracing::warn!("custom kinds are not up to date: {}", status.message),
            }
            drop(registry);
            tokio::time::sleep(RETRY).await;
        }
    }
}
