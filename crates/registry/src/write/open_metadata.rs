//! A stored object decoded only where a patch changes it: labels, annotations, finalizers and managed fields.
//!
//! ```text
//! names, uid, times… │ labels │ annotations │ owners │ finalizers │ managers │ spec, status, data…
//! ════ as stored ════│     decoded only     │ stored │  likewise  │          │ ════ as stored ════
//!                    │     if patched       │        │            │
//! ```
//!
//! The rest is copied as bytes. An object that is not stored in this order, that of Kubernetes, is not opened.

use bytes::Bytes;
use serde_json::{Map, Value};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::protobuf::Envelope;
use watchkeeper_wire::protobuf::header::METADATA;
use watchkeeper_wire::protobuf::header::object_meta::{
    ANNOTATIONS, DELETION_TIMESTAMP, FINALIZERS, LABELS, MANAGED_FIELDS, OWNER_REFERENCES, UID,
};
use watchkeeper_wire::protobuf::primitive::{Reader, WireType, field_len, put_bytes, put_tag, put_varint};

/// Space for what a usual patch adds: a few annotations, and a manager.
const ADDED_BYTES: usize = 512;

/// A stored object that is not being deleted, with its patched fields decoded.
pub(crate) struct OpenMetadata<'s> {
    /// An object with only the decoded fields.
    pub(crate) value: Value,
    pub(crate) managers: Managers,
    envelope: Envelope<'s>,
    /// The fields before the labels.
    head: &'s [u8],
    labels: PatchedField<'s>,
    annotations: PatchedField<'s>,
    owners: &'s [u8],
    finalizers: PatchedField<'s>,
    /// The fields after the metadata.
    rest: &'s [u8],
}

/// A field that may be patched.
enum PatchedField<'s> {
    /// Not patched: the stored bytes.
    Closed(&'s [u8]),
    /// Decoded, in the value.
    Open,
}

impl<'s> OpenMetadata<'s> {
    /// Opens the patched fields of a stored object. `None` if it is being deleted, if a label or annotation affects
    /// the validation of its kind, or if its encoding is unusual.
    pub(crate) fn of(
        bytes: &'s [u8],
        opens: impl Fn(&str) -> bool,
        means_something: fn(&str) -> bool,
    ) -> Option<Self> {
        let envelope = Envelope::read(bytes).ok()?;
        let mut message = Fields::of(envelope.raw);
        let mut fields = Fields::of(message.next(METADATA)?);
        let mut metadata = Map::new();
        let mut part = |name: &str, stored: &'s [u8], value: Option<Value>| match value {
            None => PatchedField::Closed(stored),
            Some(value) => {
                if !is_empty(&value) {
                    metadata.insert(name.to_owned(), value);
                }
                PatchedField::Open
            }
        };
        let head = fields.head()?;
        let (stored, value) = fields.map(LABELS, opens("labels"), means_something)?;
        let labels = part("labels", stored, value);
        let (stored, value) = fields.map(ANNOTATIONS, opens("annotations"), means_something)?;
        let annotations = part("annotations", stored, value);
        let owners = fields.run(OWNER_REFERENCES);
        let (stored, value) = fields.texts(FINALIZERS, opens("finalizers"))?;
        let finalizers = part("finalizers", stored, value);
        let managers = std::iter::from_fn(|| fields.next(MANAGED_FIELDS).map(Reader::new));
        let managers = Managers::from_stored(managers).ok()?;
        fields.end()?;
        Some(Self {
            value: Value::Object(Map::from_iter([("metadata".to_owned(), metadata.into())])),
            managers,
            envelope,
            head,
            labels,
            annotations,
            owners,
            finalizers,
            rest: &envelope.raw[message.reader.offset()..],
        })
    }

    /// Encodes the object with another value and other managers.
    pub(crate) fn with(&self, value: &Value, managers: &Managers) -> Bytes {
        let room = self.envelope.raw.len() - self.rest.len() + ADDED_BYTES;
        let mut metadata = Vec::with_capacity(room);
        metadata.extend_from_slice(self.head);
        let part = |name: &str| &value["metadata"][name];
        match self.labels {
            PatchedField::Closed(stored) => metadata.extend_from_slice(stored),
            PatchedField::Open => put_map(LABELS, part("labels"), &mut metadata),
        }
        match self.annotations {
            PatchedField::Closed(stored) => metadata.extend_from_slice(stored),
            PatchedField::Open => put_map(ANNOTATIONS, part("annotations"), &mut metadata),
        }
        metadata.extend_from_slice(self.owners);
        match self.finalizers {
            PatchedField::Closed(stored) => metadata.extend_from_slice(stored),
            PatchedField::Open => put_texts(FINALIZERS, part("finalizers"), &mut metadata),
        }
        managers.put_stored(MANAGED_FIELDS, &mut metadata);
        self.closed(&metadata)
    }

    /// The object with this metadata instead of its own.
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

/// Encodes a map as Go does: one entry each, sorted by key.
fn put_map(number: u32, map: &Value, out: &mut Vec<u8>) {
    for (key, value) in map.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        put_tag(out, number, WireType::Bytes);
        put_varint(out, (field_len(key.len()) + field_len(value.len())) as u64);
        put_bytes(out, 1, key.as_bytes());
        put_bytes(out, 2, value.as_bytes());
    }
}

fn put_texts(number: u32, list: &Value, out: &mut Vec<u8>) {
    for text in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
        put_bytes(out, number, text.as_bytes());
    }
}

/// Iterates over the fields of a message.
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

    /// All following fields with this number, undecoded.
    fn run(&mut self, number: u32) -> &'s [u8] {
        let start = self.reader.offset();
        while self.next(number).is_some() {}
        &self.message[start..self.reader.offset()]
    }

    /// The fields before the labels, undecoded. They must contain name and uid, but no deletionTimestamp.
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

    /// The map with this field number: its bytes, and its value if it is opened. `None` if one of its keys is
    /// excluded.
    fn map(
        &mut self,
        number: u32,
        opens: bool,
        is_unfit: fn(&str) -> bool,
    ) -> Option<(&'s [u8], Option<Value>)> {
        let (start, mut map) = (self.reader.offset(), opens.then(Map::new));
        while let Some(entry) = self.next(number) {
            let mut entry = Fields::of(entry);
            let (key, value) = (entry.text(1)?, entry.text(2)?);
            if is_unfit(key) {
                return None;
            }
            if let Some(map) = &mut map {
                map.insert(key.to_owned(), value.into());
            }
        }
        let stored = &self.message[start..self.reader.offset()];
        Some((stored, map.map(Value::Object)))
    }

    /// The strings with this field number: their bytes, and their value if they are opened.
    fn texts(&mut self, number: u32, opens: bool) -> Option<(&'s [u8], Option<Value>)> {
        if !opens {
            return Some((self.run(number), None));
        }
        let mut texts = Vec::new();
        while let Some(text) = self.next(number) {
            texts.push(std::str::from_utf8(text).ok()?.into());
        }
        Some((&[], Some(Value::Array(texts))))
    }

    fn text(&mut self, number: u32) -> Option<&'s str> {
        std::str::from_utf8(self.next(number)?).ok()
    }

    /// `None` unless everything was read.
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

    /// A stored pod with this metadata.
    fn stored(metadata: &Value) -> Bytes {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let mut definitions = Definition::builtin().into_iter();
        let pods = definitions.find(|known| known.resource.group_version_resource() == pods);
        let pod = json!({"metadata": metadata, "spec": {"nodeName": "n"}});
        let managers = Managers::of(&pod).unwrap();
        StoredObject::encode(&pods.unwrap(), &pod, &managers).unwrap()
    }

    fn open(bytes: &[u8]) -> Option<OpenMetadata<'_>> {
        OpenMetadata::of(bytes, |_| true, |_| false)
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
    fn an_unchanged_object_is_encoded_to_equal_bytes() {
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
            let opened: [&[&str]; 4] = [
                &[],
                &["annotations"],
                &["finalizers", "labels"],
                &["labels", "annotations", "finalizers"],
            ];
            for names in opened {
                let open = OpenMetadata::of(&bytes, |name| names.contains(&name), |_| false).unwrap();
                let mut shown = json!({});
                for name in names {
                    metadata.get(name).inspect(|part| shown[name] = (*part).clone());
                }
                assert_eq!(open.value, json!({"metadata": shown}));
                assert_eq!(open.with(&open.value, &open.managers), bytes);
            }
        }
    }

    #[test]
    fn unusual_objects_are_not_opened() {
        let check = |name: &str, value: Value| {
            let mut metadata = metadata();
            metadata[name] = value;
            assert!(open(&stored(&metadata)).is_none(), "{name}");
        };
        check("uid", json!(""));
        check("deletionTimestamp", json!("2026-11-16T12:00:00Z"));
        let bytes = stored(&metadata());
        let opened = open(&bytes).unwrap();
        let (head, labels_last) = (opened.head, [opened.owners, b"\x5a\x04\x0a\x00\x12\x00"].concat());
        assert!(open(&opened.closed(&[head, &labels_last].concat())).is_none());
        assert!(open(&opened.closed(head)).is_some());
        assert!(OpenMetadata::of(&bytes, |_| false, |key| key == "tier").is_none());
        assert!(OpenMetadata::of(&bytes, |_| false, |key| key == "example.com/seen").is_none());
    }
}
