//! Encodes objects, lists and watch events: as JSON or protobuf, whole or metadata only.
//!
//! Objects are encoded from their stored bytes without an intermediate value: copied for protobuf, transcoded for
//! JSON. Custom objects are stored as JSON, so only their metadata is transcoded.

mod custom;
mod initial_events;
mod list_pieces;

pub use crate::object::View;
pub use initial_events::initial_events;
pub use list_pieces::ListPieces;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use watchkeeper_kinds::Completion;
use watchkeeper_meta::{Status, WatchEventKind};
use watchkeeper_storage::{KeyValue, Revision};
use watchkeeper_wire::Encoding;
use watchkeeper_wire::protobuf::frame::{self, WatchFrame};
use watchkeeper_wire::protobuf::{Envelope, Message, encode_body, encode_message};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::definition::Definition;
use crate::list::List;
use crate::object::StoredObject;
use crate::watch::{Event, WatchItem};

/// The annotation of the bookmark that ends the initial events of a watch.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The version of metadata-only objects.
const META_API_VERSION: &str = "meta.k8s.io/v1";

/// The size at which a piece of a streamed body ends, after the object that reaches it: eight full HTTP/2 frames.
const PIECE_BYTES: usize = 128 << 10;

/// Space for the field names around an object.
const NAMES: usize = 128;

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputForm {
    /// JSON or protobuf.
    pub encoding: Encoding,
    /// Whole objects or metadata only.
    pub view: View,
}

impl OutputForm {
    /// The number of a form, for the cache of encoded events. Versions of a resource share a history but not their
    /// encoded events.
    fn number(self, definition: &Definition) -> u8 {
        u8::from(self.encoding == Encoding::Protobuf)
            | u8::from(self.view == View::Metadata) << 1
            | u8::from(definition.conversion.is_some()) << 2
            | definition.custom.as_ref().map_or(0, |custom| custom.number) << 3
    }
}

/// Encodes one object; JSON ends with a newline.
pub fn object(definition: &Definition, object: &StoredObject, form: OutputForm) -> Result<Bytes, Status> {
    if definition.is_custom() && form.view == View::Whole {
        return custom::object(definition, object);
    }
    let sent = Sent::new(definition, form.view);
    let message = object.shown(definition, form.view)?;
    let mut out = Vec::with_capacity(expected_len(message.len(), form.encoding));
    match form.encoding {
        Encoding::Protobuf => {
            sent.envelope(&[]).write_beginning(message.len(), &mut out);
            message.write(&mut out);
            Envelope::write_end(&mut out);
        }
        Encoding::Json => {
            sent.write_json(&message.to_vec(), &mut out)?;
            out.push(b'\n');
        }
    }
    Ok(out.into())
}

/// Encodes a page of a list; JSON ends with a newline.
pub fn list(definition: &Arc<Definition>, list: List, form: OutputForm) -> Result<Bytes, Status> {
    let mut pieces = ListPieces::new(definition, list, form);
    let first = pieces.next().transpose()?.unwrap_or_default();
    let Some(second) = pieces.next() else {
        return Ok(first);
    };
    let mut whole = Vec::from(first);
    for piece in std::iter::once(second).chain(pieces) {
        whole.extend_from_slice(&piece?);
    }
    Ok(whole.into())
}

/// Encodes a line or a frame of a watch stream. An event is encoded once per form, however many watches there are.
pub fn watch_item(definition: &Definition, item: &WatchItem, form: OutputForm) -> Result<Bytes, Status> {
    let sent = Sent::new(definition, form.view);
    if definition.is_custom()
        && form.view == View::Whole
        && let Some(line) = custom::bookmark_line(definition, item)?
    {
        return Ok(line);
    }
    match item {
        WatchItem::Event(event) => sent.shared_event(definition, event, form),
        WatchItem::Bookmark {
            revision,
            initial_events_end,
        } => {
            let bookmark = bookmark(definition, *revision, *initial_events_end)?;
            let raw = sent.bookmark(bookmark)?;
            sent.frame(WatchEventKind::Bookmark, &raw, form.encoding)
        }
        WatchItem::Error(status) => error_frame(status, form.encoding),
    }
}

/// The object of a bookmark: empty except for its type and version.
pub(crate) fn bookmark(
    definition: &Definition,
    revision: Revision,
    initial_events_end: bool,
) -> Result<Value, Status> {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if initial_events_end {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    let mut empty = definition.recanonicalized(json!({"metadata": metadata}))?;
    // The canonical form always has `replicas`, even if a client omits it.
    if definition.kind.states_replicas {
        empty["spec"]["replicas"] = json!(0);
    }
    Ok(empty)
}

/// The encoding of a resource's objects, with the type they state.
struct Sent<'d> {
    schema: &'d Schema,
    type_id: TypeId,
    api_version: &'d str,
    kind: &'d str,
    list_kind: &'d str,
    view: View,
    completion: Option<Completion>,
}

impl<'d> Sent<'d> {
    fn new(definition: &'d Definition, view: View) -> Self {
        match view {
            View::Whole => Self {
                schema: &definition.schema,
                type_id: definition.type_id,
                api_version: &definition.api_version,
                kind: &definition.resource.kind,
                list_kind: &definition.list_kind,
                view,
                completion: definition.kind.completion,
            },
            View::Metadata => Self {
                schema: Schema::builtin(),
                type_id: Schema::builtin()
                    .type_named("meta/v1.PartialObjectMetadata")
                    .unwrap_or(definition.type_id),
                api_version: META_API_VERSION,
                kind: "PartialObjectMetadata",
                list_kind: "PartialObjectMetadataList",
                view,
                completion: None,
            },
        }
    }

    /// The encoded part of an object's message.
    fn message(&self, definition: &Definition, object: &StoredObject) -> Result<Vec<u8>, Status> {
        Ok(object.shown(definition, self.view)?.to_vec())
    }

    fn envelope<'a>(&'a self, raw: &'a [u8]) -> Envelope<'a> {
        Envelope {
            api_version: self.api_version,
            kind: self.kind,
            raw,
        }
    }

    fn write_json(&self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        let message = Message::of_kind(self.schema, self.api_version, self.kind, raw);
        self.write_message(message.map_err(Status::internal_error)?, out)
    }

    fn write_message(&self, message: Message<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        let start = out.len();
        message.write_json(out).map_err(Status::internal_error)?;
        if let Some(completion) = self.completion {
            (completion.json)(out, start);
        }
        Ok(())
    }

    fn shared_event(
        &self,
        definition: &Definition,
        event: &Event,
        form: OutputForm,
    ) -> Result<Bytes, Status> {
        let mut failed = None;
        let bytes = event.encoded(form.number(definition), |event| {
            let object = &event.object;
            let mut frame = Vec::with_capacity(expected_len(object.bytes.len(), form.encoding));
            match self.write_event(definition, event.kind, object, form.encoding, &mut frame) {
                Ok(()) => frame.into(),
                Err(status) => {
                    failed = Some(status);
                    Bytes::new()
                }
            }
        });
        match failed {
            Some(status) => Err(status),
            // Another watch failed to encode it.
            None if bytes.is_empty() => Err(Status::internal_error("an event cannot be encoded")),
            None => Ok(bytes),
        }
    }

    /// Encodes the object of a bookmark.
    fn bookmark(&self, object: Value) -> Result<Vec<u8>, Status> {
        let shown = match self.view {
            View::Whole => object,
            View::Metadata => json!({"metadata": object["metadata"]}),
        };
        encode_message(self.schema, self.type_id, &shown).map_err(Status::internal_error)
    }

    fn frame(&self, kind: WatchEventKind, raw: &[u8], encoding: Encoding) -> Result<Bytes, Status> {
        let mut out = Vec::with_capacity(expected_len(raw.len(), encoding));
        match encoding {
            Encoding::Protobuf => frame::write(&self.watch_frame(kind, raw), &mut out),
            Encoding::Json => self.write_line(kind, raw, &mut out)?,
        }
        Ok(out.into())
    }

    /// Appends the frame or line of an event. On an error, `out` has a part of it.
    fn write_event(
        &self,
        definition: &Definition,
        kind: WatchEventKind,
        object: &StoredObject,
        encoding: Encoding,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        if definition.is_custom() && self.view == View::Whole {
            return custom::write_event(definition, kind, object, out);
        }
        let message = object.shown(definition, self.view)?;
        match encoding {
            Encoding::Protobuf => {
                frame::write_beginning(&self.watch_frame(kind, &[]), message.len(), out);
                message.write(out);
                frame::write_end(out);
                Ok(())
            }
            Encoding::Json => self.write_line(kind, &message.to_vec(), out),
        }
    }

    fn watch_frame<'a>(&'a self, kind: WatchEventKind, raw: &'a [u8]) -> WatchFrame<'a> {
        WatchFrame {
            word: kind.as_str(),
            object: self.envelope(raw),
        }
    }

    fn write_line(&self, kind: WatchEventKind, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        out.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
        self.write_json(raw, out)?;
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

/// The estimated length of an encoded object: a copy with names around it, or JSON, which repeats field names.
fn expected_len(length: usize, encoding: Encoding) -> usize {
    match encoding {
        Encoding::Protobuf => length + NAMES,
        Encoding::Json => length * 2 + NAMES,
    }
}

/// The estimated length of a piece that starts with these objects.
fn expected_piece_len<'i>(items: impl Iterator<Item = &'i KeyValue>, encoding: Encoding) -> usize {
    let mut length = NAMES;
    for item in items {
        // The object that fills it may be the next one.
        let is_full = length >= PIECE_BYTES;
        length += expected_len(item.value.len(), encoding);
        if is_full {
            break;
        }
    }
    length
}

/// The last item of a failed watch.
fn error_frame(status: &Status, encoding: Encoding) -> Result<Bytes, Status> {
    let value: Value = serde_json::to_value(status).map_err(Status::internal_error)?;
    let mut out = Vec::new();
    match encoding {
        Encoding::Json => {
            out.extend_from_slice(br#"{"type":"ERROR","object":"#);
            serde_json::to_writer(&mut out, status).map_err(Status::internal_error)?;
            out.extend_from_slice(b"}\n");
        }
        Encoding::Protobuf => {
            let body = encode_body(Schema::builtin(), &value).map_err(Status::internal_error)?;
            let object = Envelope::read(&body).map_err(Status::internal_error)?;
            frame::write(
                &WatchFrame {
                    word: WatchEventKind::Error.as_str(),
                    object,
                },
                &mut out,
            );
        }
    }
    Ok(out.into())
}
