//! Encodes custom objects: JSON, almost as stored.

use bytes::Bytes;
use serde_json::json;
use watchkeeper_meta::{Status, WatchEventKind};

use super::bookmark;
use crate::definition::Definition;
use crate::list::List;
use crate::object::StoredObject;
use crate::object::custom::write;
use crate::watch::WatchItem;

/// One object; ends with a newline.
pub(super) fn object(definition: &Definition, object: &StoredObject) -> Result<Bytes, Status> {
    let mut out = Vec::with_capacity(object.bytes.len() + 64);
    write(definition, object, &mut out)?;
    out.push(b'\n');
    Ok(out.into())
}

/// Writes the start of a list, up to its items.
pub(super) fn begin_list(definition: &Definition, out: &mut Vec<u8>) {
    let head = format!(r#"{{"apiVersion":"{}","items":["#, definition.api_version);
    out.extend_from_slice(head.as_bytes());
}

/// Writes the end of a list, after its items; ends with a newline.
pub(super) fn end_list(definition: &Definition, list: &List, out: &mut Vec<u8>) {
    let mut meta = json!({
        "continue": list.continue_token.as_deref().unwrap_or_default(),
        "resourceVersion": list.revision.to_string(),
    });
    if let Some(remaining) = list.remaining {
        meta["remainingItemCount"] = json!(remaining);
    }
    if let Some(selector) = &list.shard_selector {
        meta["shardInfo"] = json!({"selector": selector});
    }
    let tail = format!(r#"],"kind":"{}","metadata":{meta}}}"#, definition.list_kind);
    out.extend_from_slice(tail.as_bytes());
    out.push(b'\n');
}

/// Appends an event of a watch; ends with a newline.
pub(super) fn write_event(
    definition: &Definition,
    kind: WatchEventKind,
    object: &StoredObject,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    begin_event(kind, out);
    write(definition, object, out)?;
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Encodes a bookmark; ends with a newline. `None` for other items.
pub(super) fn bookmark_line(definition: &Definition, item: &WatchItem) -> Result<Option<Bytes>, Status> {
    let WatchItem::Bookmark {
        revision,
        initial_events_end,
    } = item
    else {
        return Ok(None);
    };
    let object = bookmark(definition, *revision, *initial_events_end)?;
    let mut out = Vec::with_capacity(256);
    begin_event(WatchEventKind::Bookmark, &mut out);
    serde_json::to_writer(&mut out, &object).map_err(Status::internal_error)?;
    out.extend_from_slice(b"}\n");
    Ok(Some(out.into()))
}

fn begin_event(kind: WatchEventKind, out: &mut Vec<u8>) {
    out.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
}
