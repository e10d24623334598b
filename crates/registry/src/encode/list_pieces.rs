//! Encodes a list in pieces, each built on demand. A list of a hundred megabytes needs the memory of one piece, and
//! its start is sent before its end is encoded.

use std::sync::Arc;

use bytes::Bytes;
use watchkeeper_meta::Status;
use watchkeeper_wire::Encoding;
use watchkeeper_wire::protobuf::primitive::{WireType, field_len, put_bytes, put_tag, put_varint};
use watchkeeper_wire::protobuf::{Envelope, Message, encode_message};

use super::{OutputForm, PIECE_BYTES, Sent, View, custom, expected_piece_len};
use crate::definition::Definition;
use crate::list::List;
use crate::object::{self, StoredObject};

/// The field number of `items` in every list message.
const ITEMS: u32 = 2;

/// The pieces of a list. JSON ends with a newline.
pub struct ListPieces {
    definition: Arc<Definition>,
    list: List,
    form: OutputForm,
    next: Next,
}

/// The content of the next piece.
#[derive(Clone, Copy)]
enum Next {
    Beginning,
    Item(usize),
    Nothing,
}

impl ListPieces {
    /// The pieces of a page.
    pub fn new(definition: &Arc<Definition>, list: List, form: OutputForm) -> Self {
        Self {
            definition: definition.clone(),
            list,
            form,
            next: Next::Beginning,
        }
    }

    /// True after the last piece.
    pub fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn piece(&self, next: Next) -> Result<(Vec<u8>, Next), Status> {
        let sent = Sent::new(&self.definition, self.form.view);
        let first = match next {
            Next::Item(index) => index,
            _ => 0,
        };
        let items = self.list.items[first..].iter();
        let mut out = Vec::with_capacity(expected_piece_len(items, self.form.encoding));
        if let Next::Beginning = next {
            self.begin(&sent, &mut out)?;
        }
        for (index, item) in self.list.items.iter().enumerate().skip(first) {
            if out.len() >= PIECE_BYTES {
                return Ok((out, Next::Item(index)));
            }
            if index > 0 && self.form.encoding == Encoding::Json {
                out.push(b',');
            }
            self.add_item(&sent, &item.into(), &mut out)?;
        }
        self.end(&mut out);
        Ok((out, Next::Nothing))
    }

    fn add_item(&self, sent: &Sent<'_>, item: &StoredObject, out: &mut Vec<u8>) -> Result<(), Status> {
        let definition = &self.definition;
        match self.form.encoding {
            Encoding::Json if self.is_custom() => object::custom::write(definition, item, out),
            Encoding::Json => {
                let raw = sent.message(definition, item)?;
                match sent.view {
                    // Items of built-in lists do not state their type; the list does.
                    View::Whole => {
                        let message = Message::of_type(sent.schema, sent.type_id, &raw);
                        sent.write_message(message, out)
                    }
                    View::Metadata => sent.write_json(&raw, out),
                }
            }
            Encoding::Protobuf => {
                let message = item.shown(definition, sent.view)?;
                put_tag(out, ITEMS, WireType::Bytes);
                put_varint(out, message.len() as u64);
                message.write(out);
                Ok(())
            }
        }
    }

    fn begin(&self, sent: &Sent<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        match self.form.encoding {
            Encoding::Json if self.is_custom() => custom::begin_list(&self.definition, out),
            Encoding::Json => {
                let head = format!(
                    r#"{{"kind":"{}","apiVersion":"{}","metadata":"#,
                    sent.list_kind, sent.api_version
                );
                out.extend_from_slice(head.as_bytes());
                serde_json::to_writer(&mut *out, &ListMeta::of(&self.list))
                    .map_err(Status::internal_error)?;
                out.extend_from_slice(br#","items":"#);
                if !self.is_null() {
                    out.push(b'[');
                }
            }
            Encoding::Protobuf => {
                let meta = self.protobuf_meta(sent)?;
                let mut length = field_len(meta.len());
                for object in self.list.objects() {
                    length += field_len(object.shown(&self.definition, sent.view)?.len());
                }
                let envelope = Envelope {
                    api_version: sent.api_version,
                    kind: sent.list_kind,
                    raw: &[],
                };
                envelope.write_beginning(length, out);
                put_bytes(out, 1, &meta);
            }
        }
        Ok(())
    }

    fn end(&self, out: &mut Vec<u8>) {
        match self.form.encoding {
            Encoding::Json if self.is_custom() => custom::end_list(&self.definition, &self.list, out),
            Encoding::Json if self.is_null() => out.extend_from_slice(b"null}\n"),
            Encoding::Json => out.extend_from_slice(b"]}\n"),
            Encoding::Protobuf => Envelope::write_end(out),
        }
    }

    /// True if the items are custom objects, which are stored as the JSON that is sent.
    fn is_custom(&self) -> bool {
        self.definition.is_custom() && self.form.view == View::Whole
    }

    /// True if `items` is `null`: a nil slice in Go.
    fn is_null(&self) -> bool {
        self.list.items.is_empty() && self.form.view == View::Metadata
    }

    fn protobuf_meta(&self, sent: &Sent<'_>) -> Result<Vec<u8>, Status> {
        let meta = serde_json::to_value(ListMeta::of(&self.list)).map_err(Status::internal_error)?;
        let meta_type = sent.schema.type_named("meta/v1.ListMeta");
        let meta_type = meta_type.ok_or_else(|| Status::internal_error("the schema has no ListMeta"))?;
        encode_message(sent.schema, meta_type, &meta).map_err(Status::internal_error)
    }
}

impl Iterator for ListPieces {
    type Item = Result<Bytes, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done() {
            return None;
        }
        let next = std::mem::replace(&mut self.next, Next::Nothing);
        Some(self.piece(next).map(|(piece, next)| {
            self.next = next;
            piece.into()
        }))
    }
}

/// A list's own metadata, in the order Go prints it.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta<'a> {
    resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    continue_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard_info: Option<ShardInfo<'a>>,
}

#[derive(serde::Serialize)]
struct ShardInfo<'a> {
    selector: &'a str,
}

impl<'a> ListMeta<'a> {
    fn of(list: &'a List) -> Self {
        Self {
            resource_version: list.revision.to_string(),
            continue_token: list.continue_token.as_deref(),
            remaining_item_count: list.remaining,
            shard_info: list
                .shard_selector
                .as_deref()
                .map(|selector| ShardInfo { selector }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use watchkeeper_patch::managed_fields::Managers;
    use watchkeeper_storage::{KeyValue, Revision};
    use watchkeeper_wire::protobuf::primitive::Reader;

    use super::*;

    fn definition(group: &str, version: &str, kind: &str) -> Arc<Definition> {
        let all = Definition::builtin();
        let mut all = all.into_iter().filter(|known| {
            let resource = &known.resource;
            (&*resource.group, &*resource.version, &*resource.kind) == (group, version, kind)
        });
        all.next().unwrap()
    }

    /// `count` objects, each a quarter of a piece long.
    fn list(definition: &Definition, count: u64) -> List {
        let object = |number: u64| {
            let note = "x".repeat(PIECE_BYTES / 4);
            let metadata = json!({"name": format!("n{number}"), "uid": "u", "annotations": {"note": note}});
            let value = json!({"metadata": metadata, "data": {"k": "v"}});
            KeyValue {
                key: "".into(),
                value: StoredObject::encode(definition, &value, &Managers::new())
                    .unwrap()
                    .into(),
                create_revision: Revision::FIRST,
                mod_revision: Revision::new(number + 9),
            }
        };
        List {
            items: (0..count).map(object).collect(),
            revision: Revision::new(100),
            ..List::default()
        }
    }

    /// Each object encoded on its own, without its type if the list states it.
    fn alone(definition: &Definition, list: &List, form: OutputForm) -> Vec<Value> {
        let objects = list.objects().map(|object| {
            let bytes = super::super::object(definition, &object, form).unwrap();
            let mut value: Value = serde_json::from_slice(&bytes).unwrap();
            if let (View::Whole, Value::Object(fields)) = (form.view, &mut value) {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            value
        });
        objects.collect()
    }

    fn check(definition: &Arc<Definition>, view: View, count: u64, pieces: usize) {
        let json = OutputForm {
            encoding: Encoding::Json,
            view,
        };
        let protobuf = OutputForm {
            encoding: Encoding::Protobuf,
            view,
        };
        let expected = list(definition, count);
        let made = |form| -> Vec<Bytes> {
            let made = ListPieces::new(definition, list(definition, count), form);
            made.map(Result::unwrap).collect()
        };
        let text: Value = serde_json::from_slice(&made(json).concat()).unwrap();
        assert_eq!(text["metadata"]["resourceVersion"], "100");
        let shown = text["items"].as_array().cloned().unwrap_or_default();
        assert_eq!(shown, alone(definition, &expected, json));

        let parts = made(protobuf);
        assert_eq!(parts.len(), pieces);
        let body = parts.concat();
        let envelope = Envelope::read(&body).unwrap();
        let mut again = Vec::new();
        envelope.write(&mut again);
        assert_eq!(body, again);
        let sent = Sent::new(definition, view);
        let message = |object: StoredObject| sent.message(definition, &object).unwrap();
        let alone: Vec<Vec<u8>> = expected.objects().map(message).collect();
        assert_eq!(items(envelope.raw), alone);
    }

    /// The items in a list's message.
    fn items(raw: &[u8]) -> Vec<&[u8]> {
        let (mut reader, mut items) = (Reader::new(raw), Vec::new());
        while let Some((number, wire_type)) = reader.tag().unwrap() {
            match number {
                ITEMS => items.push(reader.bytes().unwrap()),
                _ => reader.skip(wire_type).unwrap(),
            }
        }
        items
    }

    #[test]
    fn pieces_add_up_to_the_list() {
        let maps = definition("", "v1", "ConfigMap");
        for view in [View::Whole, View::Metadata] {
            check(&maps, view, 0, 1);
            check(&maps, view, 1, 1);
            check(&maps, view, 10, 3);
        }
    }

    #[test]
    fn pieces_add_up_to_the_list_in_a_version_that_is_not_stored() {
        let scalers = definition("autoscaling", "v1", "HorizontalPodAutoscaler");
        check(&scalers, View::Whole, 5, 2);
        check(&scalers, View::Metadata, 5, 2);
    }
}
