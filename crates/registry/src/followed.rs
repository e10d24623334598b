//! A value derived from stored objects, recomputed when one of them has changed. A change applies to the next
//! request.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Mutex;
use watchkeeper_kinds::Kind;
use watchkeeper_meta::{ListOptions, Status};
use watchkeeper_storage::Feed;

use crate::definition::Definition;
use crate::reader::Reader;

/// A derived value, and the feeds that report changes to its inputs.
#[derive(Debug)]
pub(crate) struct Followed<T>(Mutex<Option<(Arc<T>, Vec<Feed>)>>);

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Followed<T> {
    /// The current value. `read` computes it and returns the feeds of its inputs; boxed, because it is rare, and every
    /// request would reserve space for it.
    pub(crate) async fn get<'a>(
        &self,
        read: impl FnOnce() -> BoxFuture<'a, Result<(T, Vec<Feed>), Status>>,
    ) -> Result<Arc<T>, Status> {
        let mut cached = self.0.lock().await;
        if let Some((made, feeds)) = cached.as_mut()
            && feeds.iter_mut().all(is_unchanged)
        {
            return Ok(made.clone());
        }
        let (made, feeds) = read().await?;
        let made = Arc::new(made);
        *cached = Some((made.clone(), feeds));
        Ok(made)
    }
}

impl Reader {
    /// All objects of a built-in resource, and a feed of later changes.
    pub async fn followed_values(&self, kind: &'static Kind) -> Result<(Vec<Value>, Feed), Status> {
        let definition = self.builtin(kind)?;
        // The feed starts before the read, so that a change in between is seen twice rather than missed.
        let after = self.store().current_revision();
        let feed = self.store().watch(&definition.prefix(""), after);
        let feed = feed.map_err(Status::internal_error)?;
        Ok((self.all_values(&definition).await?, feed))
    }

    pub(crate) async fn all_values(&self, definition: &Definition) -> Result<Vec<Value>, Status> {
        let list = self.list(definition, "", &ListOptions::default()).await?;
        list.objects().map(|object| object.to_value(definition)).collect()
    }
}

/// True if the feed has no new change.
fn is_unchanged(feed: &mut Feed) -> bool {
    loop {
        let before = feed.position();
        match feed.read() {
            Ok(batch) if !batch.changes.is_empty() => return false,
            Ok(batch) if batch.revision == before => return true,
            // Changes under other keys were skipped; there may be more.
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}
