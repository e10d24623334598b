//! What a registry does only if other servers write to its store as well: it follows their definitions of kinds.
//!
//! Everything else it follows anyway, because it reads from the store and its feeds. What is served is put together when
//! a definition is written here; if it is written elsewhere, somebody has to notice.

use std::sync::Weak;
use std::time::Duration;

use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;
use watchkeeper_storage::{Feed, ReadError};

use crate::Registry;
use crate::registry::Inner;

/// The pause after definitions could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// Tells of definitions from now on; `None` if nobody else writes any.
pub(crate) fn definition_feed(registry: &Registry) -> Result<Option<Feed>, Status> {
    if !registry.store().is_shared() {
        return Ok(None);
    }
    let defining = registry.builtin(&builtin::CUSTOM_RESOURCE_DEFINITION)?;
    let after = registry.store().current_revision();
    let feed = registry.store().watch(&defining.prefix(""), after);
    feed.map(Some).map_err(Status::internal_error)
}

/// Brings what is served in line whenever a definition changes, until the registry is gone.
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
