//! Managers in the stored form: the `managedFields` of a protobuf `metadata`, read and written without an
//! intermediate value. They are half of many an object, and every write reads and writes them.

use smol_str::SmolStr;
use watchkeeper_meta::Time;
use watchkeeper_wire::protobuf::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use watchkeeper_wire::protobuf::primitive::{field_len, put_bytes, put_tag, put_varint, varint_len};

use super::{Manager, Managers, Operation, OwnedFields};

/// The only form of field sets.
const FIELDS_TYPE: &str = "FieldsV1";

/// The numbers of an entry's fields.
mod number {
    pub(super) const MANAGER: u32 = 1;
    pub(super) const OPERATION: u32 = 2;
    pub(super) const API_VERSION: u32 = 3;
    pub(super) const TIME: u32 = 4;
    pub(super) const FIELDS_TYPE: u32 = 6;
    pub(super) const FIELDS: u32 = 7;
    pub(super) const SUBRESOURCE: u32 = 8;
}

impl Managers {
    /// Reads stored entries.
    pub fn from_stored<'a>(entries: impl IntoIterator<Item = Reader<'a>>) -> Result<Self, ProtobufError> {
        entries
            .into_iter()
            .map(Manager::from_stored)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The entries in stored form, in their current order.
    pub fn to_stored(&self) -> impl Iterator<Item = Vec<u8>> {
        self.0.iter().map(|manager| {
            let (fields, mut out) = (manager.fields.to_json(), Vec::new());
            out.reserve(manager.stored_len(&fields));
            manager.put_stored(&fields, &mut out);
            out
        })
    }

    /// Writes the entries in stored form, each as a field of this number.
    pub fn put_stored(&self, number: u32, out: &mut Vec<u8>) {
        for manager in &self.0 {
            let fields = manager.fields.to_json();
            put_tag(out, number, WireType::Bytes);
            put_varint(out, manager.stored_len(&fields) as u64);
            manager.put_stored(&fields, out);
        }
    }
}

impl Manager {
    fn from_stored(mut reader: Reader<'_>) -> Result<Self, ProtobufError> {
        let mut manager = Self {
            name: SmolStr::default(),
            operation: Operation::Update,
            api_version: SmolStr::default(),
            time: None,
            subresource: SmolStr::default(),
            fields: OwnedFields::default(),
        };
        while let Some((number, wire_type)) = reader.tag()? {
            if wire_type != WireType::Bytes {
                reader.skip(wire_type)?;
                continue;
            }
            match number {
                number::MANAGER => manager.name = reader.text(number)?.into(),
                number::OPERATION => manager.operation = operation(&mut reader)?,
                number::API_VERSION => manager.api_version = reader.text(number)?.into(),
                number::TIME => manager.time = time(reader.message()?)?,
                number::FIELDS => manager.fields = fields(reader.message()?)?,
                number::SUBRESOURCE => manager.subresource = reader.text(number)?.into(),
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(manager)
    }

    /// Fields by ascending number, and empty texts too, as Go writes them.
    fn put_stored(&self, fields: &[u8], out: &mut Vec<u8>) {
        put_bytes(out, number::MANAGER, self.name.as_bytes());
        put_bytes(out, number::OPERATION, self.operation.as_str().as_bytes());
        put_bytes(out, number::API_VERSION, self.api_version.as_bytes());
        if let Some(time) = self.time {
            put_time(out, time);
        }
        put_bytes(out, number::FIELDS_TYPE, FIELDS_TYPE.as_bytes());
        put_fields(out, fields);
        put_bytes(out, number::SUBRESOURCE, self.subresource.as_bytes());
    }

    /// The number of bytes [`put_stored`](Self::put_stored) writes.
    fn stored_len(&self, fields: &[u8]) -> usize {
        let texts = [
            &*self.name,
            self.operation.as_str(),
            &*self.api_version,
            FIELDS_TYPE,
            &*self.subresource,
        ];
        let texts = texts.iter().map(|text| field_len(text.len())).sum::<usize>();
        let time = self.time.map_or(0, |time| field_len(time_len(time)));
        texts + time + field_len(field_len(fields.len()))
    }
}

fn operation(reader: &mut Reader<'_>) -> Result<Operation, ProtobufError> {
    match reader.text(number::OPERATION)? {
        "Apply" => Ok(Operation::Apply),
        "Update" => Ok(Operation::Update),
        found => Err(reader.error(ProtobufErrorKind::Other(format!(
            "{found:?} is neither Apply nor Update"
        )))),
    }
}

/// `{1: JSON text}`.
fn fields(mut reader: Reader<'_>) -> Result<OwnedFields, ProtobufError> {
    let mut fields = OwnedFields::default();
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (1, WireType::Bytes) => fields = OwnedFields::stored(reader.bytes()?),
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(fields)
}

fn put_fields(out: &mut Vec<u8>, text: &[u8]) {
    put_tag(out, number::FIELDS, WireType::Bytes);
    put_varint(out, field_len(text.len()) as u64);
    put_bytes(out, 1, text);
}

/// `{1: seconds, 2: nanoseconds}`; an empty message is no time.
fn time(mut reader: Reader<'_>) -> Result<Option<Time>, ProtobufError> {
    let mut time = None;
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (1, WireType::Varint) => time = Some(Time::from_seconds(reader.varint()? as i64)),
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(time)
}

fn time_len(time: Time) -> usize {
    1 + varint_len(time.seconds as u64) + 2
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    let seconds = time.seconds as u64;
    put_tag(out, number::TIME, WireType::Bytes);
    put_varint(out, time_len(time) as u64);
    put_tag(out, 1, WireType::Varint);
    put_varint(out, seconds);
    put_tag(out, 2, WireType::Varint);
    put_varint(out, 0);
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_wire::protobuf::encode_message;
    use watchkeeper_wire::schema::Schema;

    use super::*;

    #[test]
    fn entries_are_stored_as_the_codec_writes_them() {
        let metadata = json!({"managedFields": [
            {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "time": "2026-01-01T00:00:00Z",
             "fieldsV1": {"f:data": {".": {}, "f:k\"ey": {}, "f:x": {}}, "f:list": {"k:{\"name\":\"a b\"}": {}}}},
            {"manager": "n", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "subresource": "status", "fieldsV1": {"f:status": {}}},
        ]});
        let schema = Schema::builtin();
        let id = schema.type_named("meta/v1.ManagedFieldsEntry").unwrap();
        let entries = metadata["managedFields"].as_array().unwrap();
        let encoded: Vec<Vec<u8>> = entries
            .iter()
            .map(|entry| encode_message(schema, id, entry).unwrap())
            .collect();
        let managers = Managers::of(&json!({"metadata": metadata})).unwrap();
        assert_eq!(managers.to_stored().collect::<Vec<_>>(), encoded);
        let (mut fields, mut expected) = (Vec::new(), Vec::new());
        managers.put_stored(17, &mut fields);
        encoded
            .iter()
            .for_each(|entry| put_bytes(&mut expected, 17, entry));
        assert_eq!(fields, expected);
        let read = Managers::from_stored(encoded.iter().map(|entry| Reader::new(entry))).unwrap();
        assert_eq!(read, managers);
    }
}
