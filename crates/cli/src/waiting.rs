//! Waits until one object meets a condition, by watching it: no polling, no missed state.

use serde_json::Value;
use watchkeeper_client::{DynamicApi, WatchEvent};
use watchkeeper_meta::{FieldSelector, ResourceVersion, WatchOptions};
use watchkeeper_wire::Object;

use crate::failure::Failure;

/// Completes when `wanted` returns true. It is called with the current object and after each change; `None` if
/// there is none.
pub(crate) async fn until(
    api: &DynamicApi,
    name: &str,
    mut wanted: impl FnMut(Option<&Value>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    loop {
        let (found, version) = match api.get(name).await {
            Ok(object) => (Some(value(&object)?), object.version()),
            // A watch without a version starts with the existing objects, so a creation in between is not missed.
            Err(error) if error.is_not_found() => (None, ResourceVersion::unset()),
            Err(error) => return Err(error.into()),
        };
        if wanted(found.as_ref())? {
            return Ok(());
        }
        let options = WatchOptions {
            field_selector: FieldSelector::name(name.to_owned()),
            resource_version: version,
            allow_bookmarks: true,
            ..Default::default()
        };
        let mut events = api.watch().with(&options).await?;
        // After a watch ends or breaks, the object is read again.
        while let Some(Ok(event)) = events.next().await {
            let met = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => wanted(Some(&value(&object)?))?,
                WatchEvent::Deleted(_) => wanted(None)?,
                WatchEvent::Bookmark(_) | WatchEvent::Undecodable(_) => false,
                WatchEvent::Error(_) => break,
            };
            if met {
                return Ok(());
            }
        }
    }
}

fn value(object: &Object) -> Result<Value, Failure> {
    object.to_value().map_err(Failure::other)
}
