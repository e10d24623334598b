//! Copies an object's message with a resourceVersion inserted: stored objects have none.

use super::header::METADATA;
use super::header::object_meta::{MANAGED_FIELDS, RESOURCE_VERSION};
use super::primitive::{ProtobufError, Reader, WireType, field_len, put_bytes, put_tag, put_varint};

/// An object's message, split where its version goes. Fields are sorted by number, as Go writes them.
#[derive(Debug)]
pub struct Apart<'a> {
    /// The metadata up to the version.
    before: &'a [u8],
    /// The rest of the metadata.
    after: &'a [u8],
    /// The rest of the object.
    pub rest: &'a [u8],
}

impl<'a> Apart<'a> {
    /// Splits a message.
    pub fn of(message: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut reader = Reader::new(message);
        let metadata = match reader.tag()? {
            Some((METADATA, WireType::Bytes)) => reader.bytes()?,
            _ => {
                reader = Reader::new(message);
                &[]
            }
        };
        let (before, after) = around_version(metadata)?;
        Ok(Self {
            before,
            after,
            rest: &message[reader.offset()..],
        })
    }

    /// The length of the metadata with a version and additional managed fields.
    pub fn metadata_len(&self, version: &str, managed: &[Vec<u8>]) -> usize {
        // The tag of managed fields takes two bytes.
        let added: usize = managed.iter().map(|entry| field_len(entry.len()) + 1).sum();
        self.before.len() + field_len(version.len()) + self.after.len() + added
    }

    /// Writes the metadata as a field of the message.
    pub fn write_metadata(&self, version: &str, managed: &[Vec<u8>], out: &mut Vec<u8>) {
        put_tag(out, METADATA, WireType::Bytes);
        put_varint(out, self.metadata_len(version, managed) as u64);
        out.extend_from_slice(self.before);
        // Go writes an empty text too.
        put_bytes(out, RESOURCE_VERSION, version.as_bytes());
        out.extend_from_slice(self.after);
        for entry in managed {
            put_bytes(out, MANAGED_FIELDS, entry);
        }
    }
}

/// The bytes before and after the version in an object's metadata.
fn around_version(metadata: &[u8]) -> Result<(&[u8], &[u8]), ProtobufError> {
    let mut reader = Reader::new(metadata);
    let mut end = 0;
    while let Some((number, wire_type)) = reader.tag()? {
        if number > RESOURCE_VERSION {
            break;
        }
        reader.skip(wire_type)?;
        if number == RESOURCE_VERSION {
            return Ok((&metadata[..end], &metadata[reader.offset()..]));
        }
        end = reader.offset();
    }
    Ok(metadata.split_at(end))
}
