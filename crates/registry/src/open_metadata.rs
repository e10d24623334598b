//! A stored object, open where people write on it: its labels, annotations and finalizers, and its managers.
//!
//! ```text
//! names, uid, times… │ labels │ annotations │ owners │ finalizers │ managers │ spec, status, data…
//! ════ as stored ════│ ────── a value ───── │ stored │  a value   │          │ ════ as stored ════
//! ```
//!
//! The rest is copied as it is, and no value is made of it. Whatever is not stored in this order, as Kubernetes stores
//! it, is not opened here.

use bytes::Bytes;
use serde_json::{Map, Value};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::protobuf::Envelope;
use watchkeeper_wire::protobuf::primitive::{Reader, WireType, field_len, put_bytes, put_tag, put_varint};

use crate::object::{MANAGED_FIELDS, METADATA};

/// Fields of an object's metadata, by ascending number as they are stored.
const UID: u32 = 5;
const DELETION_TIMESTAMP: u32 = 9;
const LABELS: u32 = 11;
const ANNOTATIONS: u32 = 12;
const OWNER_REFERENCES: u32 = 13;
const FINALIZERS: u32 = 14;

/// Room for what a usual patch adds: a few annotations, and a manager.
const ADDED_BYTES: usize = 512;

/// A stored object that is not being deleted, open where people write on it.
pub(crate) struct OpenMetadata<'s> {
    /// An object with the labels, annotations and finalizers in its metadata, and with nothing else.
    pub(crate) value: Value,
    pub(crate) managers: Managers,
    envelope: Envelope<'s>,
    /// What comes before the labels.
    head: &'s [u8],
    owners: &'s [u8],
    /// What comes behind the metadata.
    rest: &'s [u8],
}

impl<'s> OpenMetadata<'s> {
    /// Opens a stored object; `None` if it is being deleted, or is not stored as all are.
    pub(crate) fn of(bytes: &'s [u8]) -> Option<Self> {
        let envelope = Envelope::read(bytes).ok()?;
        let mut message = Fields::of(envelope.raw);
        let mut fields = Fields::of(message.next(METADATA)?);
        let head = fields.head()?;
        let labels = fields.map(LABELS)?;
        let annotations = fields.map(ANNOTATIONS)?;
        let owners = fields.run(OWNER_REFERENCES);
        let finalizers = fields.texts(FINALIZERS)?;
        let managers = std::iter::from_fn(|| fields.next(MANAGED_FIELDS).map(Reader::new));
        let managers = Managers::from_stored(managers).ok()?;
        fields.end()?;
        let parts = [
            ("annotations", annotations),
            ("finalizers", finalizers),
            ("labels", labels),
        ];
        let parts = parts.into_iter().filter(|(_, part)| !is_empty(part));
        let metadata = parts.map(|(name, part)| (name.to_owned(), part)).collect();
        Some(Self {
            value: Value::Object(Map::from_iter([("metadata".to_owned(), metadata)])),
            managers,
            envelope,
            head,
            owners,
            rest: &envelope.raw[message.reader.offset()..],
        })
    }

    /// What is stored of the object with another value and other managers.
    pub(crate) fn with(&self, value: &Value, managers: &Managers) -> Bytes {
        let room = self.envelope.raw.len() - self.rest.len() + ADDED_BYTES;
        let mut metadata = Vec::with_capacity(room);
        metadata.extend_from_slice(self.head);
        let part = |name: &str| &value["metadata"][name];
        put_map(LABELS, part("labels"), &mut metadata);
        put_map(ANNOTATIONS, part("annotations"), &mut metadata);
        metadata.extend_from_slice(self.owners);
        let finalizers = part("finalizers").as_array().into_iter().flatten();
        for finalizer in finalizers.filter_map(Value::as_str) {
            put_bytes(&mut metadata, FINALIZERS, finalizer.as_bytes());
        }
        for manager in managers.to_stored() {
            put_bytes(&mut metadata, MANAGED_FIELDS, &manager);
        }
        self.closed(&metadata)
    }

    /// The object with this metadata in the place of its own.
    fn closed(&self, metadata: &[u8]) -> Bytes {
        let length = field_len(metadata.len()) + self.rest.len();
        let mut bytes = Vec::with_capacity(length + 64);
        self.envelope.write_beginning(length, &mut bytes);
        put_bytes(&mut bytes, METADATA, metadata);
        bytes.extend_from_slice(self.rest);
        Envelope::write_end(&mut bytes);
        bytes.into()
    }
}

fn is_empty(part: &Value) -> bool {
    match part {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    }
}

/// Writes a map as Go does: an entry each, by ascending key.
fn put_map(number: u32, map: &Value, out: &mut Vec<u8>) {
    for (key, value) in map.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        put_tag(out, number, WireType::Bytes);
        put_varint(out, (field_len(key.len()) + field_len(value.len())) as u64);
        put_bytes(out, 1, key.as_bytes());
        put_bytes(out, 2, value.as_bytes());
    }
}

/// The fields of a message, one after the other.
struct Fields<'s> {
    message: &'s [u8],
    reader: Reader<'s>,
}

impl<'s> Fields<'s> {
    fn of(message: &'s [u8]) -> Self {
        let reader = Reader::new(message);
        Self { message, reader }
    }

    /// The next field, if it has this number.
    fn next(&mut self, number: u32) -> Option<&'s [u8]> {
        let mut ahead = self.reader.clone();
        let field = match ahead.tag().ok()?? {
            (found, WireType::Bytes) if found == number => ahead.bytes().ok()?,
            _ => return None,
        };
        self.reader = ahead;
        Some(field)
    }

    /// All fields with this number that come next, unread.
    fn run(&mut self, number: u32) -> &'s [u8] {
        let start = self.reader.offset();
        while self.next(number).is_some() {}
        &self.message[start..self.reader.offset()]
    }

    /// The fields before the labels, unread. They must say who the object is, and not that it is being deleted.
    fn head(&mut self) -> Option<&'s [u8]> {
        let (mut ahead, mut has_uid) = (self.reader.clone(), false);
        while let Some((number, wire_type)) = ahead.tag().ok()?
            && number < LABELS
        {
            match number {
                UID => has_uid |= !ahead.bytes().ok()?.is_empty(),
                DELETION_TIMESTAMP => return None,
                _ => ahead.skip(wire_type).ok()?,
            }
            self.reader = ahead.clone();
        }
        has_uid.then(|| &self.message[..self.reader.offset()])
    }

    /// The map whose entries have this number.
    fn map(&mut self, number: u32) -> Option<Value> {
        let mut map = Map::new();
        while let Some(entry) = self.next(number) {
            let mut entry = Fields::of(entry);
            let (key, value) = (entry.text(1)?, entry.text(2)?);
            map.insert(key.to_owned(), value.into());
        }
        Some(Value::Object(map))
    }

    /// The texts that have this number.
    fn texts(&mut self, number: u32) -> Option<Value> {
        let mut texts = Vec::new();
        while let Some(text) = self.next(number) {
            texts.push(std::str::from_utf8(text).ok()?.into());
        }
        Some(Value::Array(texts))
    }

    fn text(&mut self, number: u32) -> Option<&'s str> {
        std::str::from_utf8(self.next(number)?).ok()
    }

    /// Nothing, if all has been read.
    fn end(&self) -> Option<()> {
        self.reader.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_meta::GroupVersionResource;

    use super::*;
    use crate::definition::Definition;
    use crate::object::StoredObject;

    /// A pod with this metadata, as it is stored.
    fn stored(metadata: &Value) -> Bytes {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let mut definitions = Definition::builtin().into_iter();
        let pods = definitions.find(|known| known.resource.group_version_resource() == pods);
        let pod = json!({"metadata": metadata, "spec": {"nodeName": "n"}});
        let managers = Managers::of(&pod).unwrap();
        StoredObject::encode(&pods.unwrap(), &pod, &managers).unwrap()
    }

    fn metadata() -> Value {
        json!({
            "name": "a",
            "uid": "u",
            "generation": 3,
            "labels": {"app": "x", "tier": ""},
            "annotations": {"example.com/seen": "1"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "w"}],
            "finalizers": ["example.com/a", "example.com/b"],
        })
    }

    #[test]
    fn what_is_opened_and_closed_is_as_it_was() {
        let mut managed = metadata();
        managed["managedFields"] = json!([{
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}},
        }]);
        for metadata in [metadata(), managed, json!({"name": "a", "uid": "u"})] {
            let bytes = stored(&metadata);
            let open = OpenMetadata::of(&bytes).unwrap();
            let mut shown = json!({});
            for name in ["labels", "annotations", "finalizers"] {
                metadata.get(name).inspect(|part| shown[name] = (*part).clone());
            }
            assert_eq!(open.value, json!({"metadata": shown}));
            assert_eq!(open.with(&open.value, &open.managers), bytes);
        }
    }

    #[test]
    fn what_is_not_usual_stays_closed() {
        let check = |name: &str, value: Value| {
            let mut metadata = metadata();
            metadata[name] = value;
            assert!(OpenMetadata::of(&stored(&metadata)).is_none(), "{name}");
        };
        check("uid", json!(""));
        check("deletionTimestamp", json!("2026-11-16T12:00:00Z"));
        let bytes = stored(&metadata());
        let opened = OpenMetadata::of(&bytes).unwrap();
        let (head, labels_last) = (opened.head, [opened.owners, b"\x5a\x04\x0a\x00\x12\x00"].concat());
        assert!(OpenMetadata::of(&opened.closed(&[head, &labels_last].concat())).is_none());
        assert!(OpenMetadata::of(&opened.closed(head)).is_some());
    }
}
