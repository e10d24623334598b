//! The part of a stored object that others of its kind have as well, for the store to keep once.
//!
//! Managed fields name every field that a manager has set. Objects made from one template by one program have the same,
//! and they often are more than half of an object. Only the times and managers beside them differ.

use std::ops::Range;

use watchkeeper_wire::protobuf::Envelope;
use watchkeeper_wire::protobuf::header::METADATA;
use watchkeeper_wire::protobuf::header::object_meta::MANAGED_FIELDS;
use watchkeeper_wire::protobuf::primitive::{Reader, WireType};

/// `fieldsV1` of an entry of the managed fields.
const FIELDS_V1: u32 = 7;

/// Shorter parts are not worth the place where they are kept.
const MIN_BYTES: usize = 256;

/// The longest set of managed fields of an object in protobuf. `None` for custom objects, which are stored as JSON.
pub fn shared_part(stored: &[u8]) -> Option<Range<usize>> {
    let envelope = Envelope::read(stored).ok()?;
    let metadata = fields(envelope.raw, METADATA).next()?;
    let longest = fields(metadata, MANAGED_FIELDS)
        .filter_map(|entry| fields(entry, FIELDS_V1).next())
        .max_by_key(|set| set.len())
        .filter(|set| set.len() >= MIN_BYTES)?;
    // It is a slice of the object.
    let start = longest.as_ptr().addr().checked_sub(stored.as_ptr().addr())?;
    Some(start..start + longest.len())
}

/// The fields of a message with a number.
fn fields(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader::new(message);
    std::iter::from_fn(move || {
        loop {
            match reader.tag().ok()?? {
                (found, WireType::Bytes) if found == number => return reader.bytes().ok(),
                (_, wire_type) => reader.skip(wire_type).ok()?,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use watchkeeper_wire::protobuf::primitive::put_bytes;

    use super::*;

    fn message(parts: &[(u32, &[u8])]) -> Vec<u8> {
        let mut message = Vec::new();
        for (number, bytes) in parts {
            put_bytes(&mut message, *number, bytes);
        }
        message
    }

    /// An object with managed fields of these lengths.
    fn object(lengths: &[usize]) -> Vec<u8> {
        let mut metadata = message(&[(1, b"web")]);
        for length in lengths {
            let entry = message(&[(1, b"manager"), (FIELDS_V1, &vec![b'f'; *length])]);
            put_bytes(&mut metadata, MANAGED_FIELDS, &entry);
        }
        let raw = message(&[(METADATA, &metadata), (2, b"spec")]);
        let mut object = b"k8s\0".to_vec();
        put_bytes(&mut object, 2, &raw);
        object
    }

    #[test]
    fn it_is_the_longest_set_of_managed_fields() {
        let check = |lengths: &[usize], longest: Option<usize>| {
            let object = object(lengths);
            let found = shared_part(&object).map(|range| object[range].to_vec());
            assert_eq!(found, longest.map(|length| vec![b'f'; length]), "{lengths:?}");
        };
        check(&[300, 900, 400], Some(900));
        check(&[300], Some(300));
        check(&[20], None);
        check(&[], None);
        assert_eq!(shared_part(br#"{"metadata": {}}"#), None);
    }
}
