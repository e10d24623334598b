//! The forms of a response: those the registry encodes, and rarer ones derived from them: YAML, metadata-only
//! responses of version v1beta1, and Tables.

use std::sync::Arc;

use bytes::Bytes;
use memchr::{memchr_iter, memchr3, memmem};
use serde_json::Value;
use watchkeeper_meta::Status;
use watchkeeper_registry::encode::{self, ListPieces, OutputForm, View};
use watchkeeper_registry::{
    Clock, Definition, Format, IncludeObject, List, StoredObject, TablePrinter, Watch, WatchItem, partial,
    scale_table,
};
use watchkeeper_wire::protobuf::frame::{self, WatchFrame};
use watchkeeper_wire::protobuf::{Envelope, Message, encode_body, encode_message};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::tree_size::text_size;

use crate::negotiate::{Accepted, MetaVersion, Transform};
use crate::pretty::{MAX_GROWTH, SHORT};
use crate::status_bytes::escape_markup;

/// The version of metadata-only objects from the registry.
const META_V1: &str = "meta.k8s.io/v1";
/// Their version for clients older than v1.15.
const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

/// The negotiated form of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The result of content negotiation.
    pub accepted: Accepted,
    /// The part of each object included in a Table row.
    pub include: IncludeObject,
    /// The clock for ages in a Table. A watch prints Tables as long as it is open.
    pub clock: Clock,
}

impl Form {
    /// The Table printer, if a Table was negotiated.
    fn printer<'d>(&self, definition: &'d Definition) -> Option<TablePrinter<'d>> {
        matches!(self.accepted.transform, Transform::Table(_)).then(|| TablePrinter {
            definition,
            include: self.include,
            now: self.clock.now(),
        })
    }
}

/// One object.
pub(crate) fn object(definition: &Definition, object: &StoredObject, form: Form) -> Result<Bytes, Status> {
    let bytes = match form.printer(definition) {
        Some(printer) => without_markup(printer.object(object)?),
        None => encode::object(definition, object, output(form.accepted))?,
    };
    finished(bytes, form.accepted)
}

/// A page of a list.
pub(crate) fn list(definition: &Arc<Definition>, list: List, form: Form) -> Result<Bytes, Status> {
    let bytes = match form.printer(definition) {
        Some(printer) => without_markup(printer.list(&list)?),
        None => encode::list(definition, list, output(form.accepted))?,
    };
    finished(bytes, form.accepted)
}

/// A list in pieces; returns the list if its form must be built as a whole.
pub(crate) fn list_pieces(definition: &Arc<Definition>, list: List, form: Form) -> Result<ListPieces, List> {
    let Form { accepted, .. } = form;
    let is_whole = matches!(accepted.transform, Transform::Table(_))
        || is_old_metadata(accepted)
        || accepted.format == Format::Yaml
        || accepted.format == Format::Json && accepted.pretty;
    match is_whole {
        true => Err(list),
        false => Ok(ListPieces::new(definition, list, output(accepted))),
    }
}

/// The next frames of those a watch begins with in one piece; `None` if there are no more, or if their form is made one
/// by one.
///
/// Calls `sent` with the size of each event.
pub(crate) fn initial_frames(
    watch: &mut Watch,
    form: Form,
    sent: impl FnMut(usize),
) -> Option<Result<Bytes, Status>> {
    let Form { accepted, .. } = form;
    let is_plain = !matches!(accepted.transform, Transform::Table(_)) && !is_old_metadata(accepted);
    is_plain.then(|| encode::initial_events(watch, output(accepted), sent))?
}

/// One frame of a watch. Only the first frame of a Table has columns.
pub(crate) fn frame(
    definition: &Definition,
    item: &WatchItem,
    form: Form,
    first: bool,
) -> Result<Bytes, Status> {
    let bytes = match form.printer(definition) {
        Some(printer) => without_markup(printer.watch_item(item, first)?),
        None => encode::watch_item(definition, item, output(form.accepted))?,
    };
    let bytes = match (item, form.accepted.format) {
        (WatchItem::Error(_), Format::Json) => without_markup(bytes),
        _ => bytes,
    };
    match (is_old_metadata(form.accepted), form.accepted.format) {
        (false, _) => Ok(bytes),
        (true, Format::Protobuf) => renamed_frame(&bytes),
        (true, _) => Ok(renamed_json(&bytes)),
    }
}

/// An object of a built-in kind that is not stored.
pub(crate) fn value(value: &Value, encoding: Format) -> Result<Bytes, Status> {
    let schema = Schema::builtin();
    let body = encode_body(schema, value).map_err(Status::internal_error)?;
    match encoding {
        Format::Protobuf => Ok(body.into()),
        Format::Yaml => Ok(yaml(value).into()),
        Format::Json => {
            let mut out = Vec::with_capacity(body.len() * 2);
            Message::open(schema, &body)
                .and_then(|message| message.write_json(&mut out))
                .map_err(Status::internal_error)?;
            out.push(b'\n');
            Ok(out.into())
        }
    }
}

/// A Scale.
pub(crate) fn scale(scale: &Value, form: Form) -> Result<Bytes, Status> {
    let accepted = form.accepted;
    let bytes = match accepted.transform {
        Transform::Table(_) => without_markup(scale_table(scale, form.include, form.clock.now())?),
        Transform::PartialObjectMetadata(_) => {
            let partial = partial(&scale["metadata"]);
            match accepted.format {
                Format::Protobuf => meta_value(&partial)?,
                Format::Json | Format::Yaml => format!("{partial}\n").into(),
            }
        }
        _ => return value(scale, accepted.format),
    };
    finished(bytes, accepted)
}

/// A document of the meta group, which has no API version of its own, as protobuf.
pub(crate) fn meta_value(value: &Value) -> Result<Bytes, Status> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let schema = Schema::builtin();
    let kind = text("kind");
    let id = schema.type_named(&format!("meta/v1.{kind}"));
    let id = id.ok_or_else(|| Status::internal_error(format!("{kind} has no schema")))?;
    let raw = encode_message(schema, id, value).map_err(Status::internal_error)?;
    let mut out = Vec::with_capacity(raw.len() + 64);
    Envelope {
        api_version: text("apiVersion"),
        kind,
        raw: &raw,
    }
    .write(&mut out);
    Ok(out.into())
}

/// A value as YAML. If indentation would make it many times as long, as JSON, which is YAML as well.
pub(crate) fn yaml(value: &Value) -> Vec<u8> {
    match indentation(value, 0) > MAX_GROWTH * text_size(value).max(SHORT) {
        true => format!("{value}\n").into_bytes(),
        false => watchkeeper_wire::yaml::to_string(value).into_bytes(),
    }
}

/// The spaces before the lines of a value as YAML, at most. Long texts are broken at spaces, where a line is full.
fn indentation(value: &Value, depth: usize) -> usize {
    const WIDTH: usize = 80;
    let room = WIDTH.saturating_sub(2 * depth).max(1);
    let lines = match value {
        Value::String(text) => 1 + memchr_iter(b' ', text.as_bytes()).count().min(text.len() / room),
        _ => 1,
    };
    let below: usize = match value {
        Value::Array(items) => items.iter().map(|item| indentation(item, depth + 1)).sum(),
        Value::Object(members) => members.values().map(|value| indentation(value, depth + 1)).sum(),
        _ => 0,
    };
    2 * depth * lines + below
}

fn output(form: Accepted) -> OutputForm {
    OutputForm {
        encoding: match form.format {
            Format::Json | Format::Yaml => watchkeeper_wire::Encoding::Json,
            Format::Protobuf => watchkeeper_wire::Encoding::Protobuf,
        },
        view: match form.transform {
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => View::Metadata,
            _ => View::Whole,
        },
    }
}

fn finished(bytes: Bytes, form: Accepted) -> Result<Bytes, Status> {
    let bytes = match (is_old_metadata(form), form.format) {
        (false, _) => bytes,
        (true, Format::Protobuf) => renamed_protobuf(&bytes)?,
        (true, _) => renamed_json(&bytes),
    };
    match form.format {
        Format::Protobuf | Format::Json => Ok(bytes),
        Format::Yaml => {
            let value: Value = serde_json::from_slice(&bytes).map_err(Status::internal_error)?;
            Ok(yaml(&value).into())
        }
    }
}

/// Escapes markup characters in a Table or Status, as Go does; objects are encoded with escapes already. They occur
/// only inside JSON strings, so the whole document can be processed; most documents have none and are not copied.
fn without_markup(json: Bytes) -> Bytes {
    let separator = memmem::find(&json, "\u{2028}".as_bytes()).or(memmem::find(&json, "\u{2029}".as_bytes()));
    if memchr3(b'<', b'>', b'&', &json).or(separator).is_none() {
        return json;
    }
    match String::from_utf8(json.into()) {
        Ok(text) => escape_markup(text).into(),
        Err(error) => error.into_bytes().into(),
    }
}

fn is_old_metadata(form: Accepted) -> bool {
    matches!(
        form.transform,
        Transform::Table(MetaVersion::V1Beta1)
            | Transform::PartialObjectMetadata(MetaVersion::V1Beta1)
            | Transform::PartialObjectMetadataList(MetaVersion::V1Beta1)
    )
}

/// Quotes in strings are escaped, so the quoted version after its key occurs only where an object states its version.
fn renamed_json(bytes: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(bytes);
    let (old, new) = [META_V1, META_V1BETA1]
        .map(|version| format!(r#""apiVersion":"{version}""#))
        .into();
    text.replace(&old, &new).into_bytes().into()
}

fn renamed_protobuf(bytes: &[u8]) -> Result<Bytes, Status> {
    let envelope = Envelope::read(bytes).map_err(Status::internal_error)?;
    let mut out = Vec::with_capacity(bytes.len() + 8);
    renamed(envelope).write(&mut out);
    Ok(out.into())
}

fn renamed_frame(bytes: &[u8]) -> Result<Bytes, Status> {
    const LENGTH_BYTES: usize = 4;
    let event = frame::event(&bytes[LENGTH_BYTES..]).map_err(Status::internal_error)?;
    let event = WatchFrame {
        object: renamed(event.object),
        ..event
    };
    let mut out = Vec::with_capacity(bytes.len() + 8);
    frame::write(&event, &mut out);
    Ok(out.into())
}

fn renamed(envelope: Envelope<'_>) -> Envelope<'_> {
    match envelope.api_version {
        META_V1 => Envelope {
            api_version: META_V1BETA1,
            ..envelope
        },
        _ => envelope,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_that_would_become_many_times_as_long_is_json() {
        let deep = |inner: Value| (0..100).fold(inner, |inner, _| serde_json::json!([inner]));
        let few = deep(serde_json::json!([1, 2]));
        assert!(yaml(&few).starts_with(b"- - - "));
        for many in [serde_json::json!(vec![0; 50_000]), "a ".repeat(50_000).into()] {
            let many = deep(many);
            assert_eq!(yaml(&many), format!("{many}\n").into_bytes());
        }
    }

    #[test]
    fn only_stated_versions_are_renamed() {
        let text = br#"{"apiVersion":"meta.k8s.io/v1","note":"\"apiVersion\":\"meta.k8s.io/v1\""}"#;
        let renamed = renamed_json(text);
        let expected = r#"{"apiVersion":"meta.k8s.io/v1beta1","note":"\"apiVersion\":\"meta.k8s.io/v1\""}"#;
        assert_eq!(std::str::from_utf8(&renamed).unwrap(), expected);
    }
}
