//! The envelope around every protobuf body: four bytes, then a message with the type and the object's own message.
//!
//! ```text
//! k8s\0  Unknown { 1: TypeMeta { 1: apiVersion, 2: kind }, 2: raw, 3: contentEncoding, 4: contentType }
//! ```

use super::primitive::{
    ProtobufError, ProtobufErrorKind, Reader, WireType, field_len, put_bytes, put_tag, put_varint,
};

/// The prefix of every enveloped body.
pub const MAGIC: [u8; 4] = *b"k8s\0";

pub(super) const TYPE_META: u32 = 1;
pub(super) const RAW: u32 = 2;
pub(super) const CONTENT_ENCODING: u32 = 3;
pub(super) const CONTENT_TYPE: u32 = 4;

/// The type and message of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `apiVersion` of the object.
    pub api_version: &'a str,
    /// `kind` of the object.
    pub kind: &'a str,
    /// The object's own message.
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads an envelope.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        Self::read_at(bytes, 0)
    }

    /// Reads an envelope that starts `base` bytes into the outermost slice.
    pub(super) fn read_at(bytes: &'a [u8], base: usize) -> Result<Self, ProtobufError> {
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            return Err(no_magic(base));
        };
        let mut reader = Reader::nested(rest, base + MAGIC.len());
        let mut envelope = Self::default();
        while let Some((number, wire_type)) = reader.tag()? {
            match (number, wire_type) {
                (TYPE_META, WireType::Bytes) => {
                    (envelope.api_version, envelope.kind) = type_meta(reader.message()?)?;
                }
                (RAW, WireType::Bytes) => envelope.raw = reader.bytes()?,
                (CONTENT_ENCODING | CONTENT_TYPE, WireType::Bytes) => {
                    let offset = reader.offset();
                    check_content(number, reader.bytes()?, offset)?;
                }
                (TYPE_META..=CONTENT_TYPE, _) => {
                    return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number }));
                }
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(envelope)
    }

    /// Appends the envelope as a Go server writes it: all four fields, the last two empty.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_beginning(self.raw.len(), out);
        out.extend_from_slice(self.raw);
        Self::write_end(out);
    }

    /// Appends the bytes before a message of this length, which is written separately.
    pub fn write_beginning(&self, raw_len: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        self.put_type_meta(out);
        put_tag(out, RAW, WireType::Bytes);
        put_varint(out, raw_len as u64);
    }

    /// Appends the bytes after the message.
    pub fn write_end(out: &mut Vec<u8>) {
        put_bytes(out, CONTENT_ENCODING, b"");
        put_bytes(out, CONTENT_TYPE, b"");
    }

    /// The length of the envelope around a message of this length.
    pub(super) fn len_around(&self, raw_len: usize) -> usize {
        let end = 2 * field_len(0);
        MAGIC.len() + field_len(self.type_meta_len()) + field_len(raw_len) + end
    }

    fn put_type_meta(&self, out: &mut Vec<u8>) {
        put_tag(out, TYPE_META, WireType::Bytes);
        put_varint(out, self.type_meta_len() as u64);
        put_bytes(out, 1, self.api_version.as_bytes());
        put_bytes(out, 2, self.kind.as_bytes());
    }

    fn type_meta_len(&self) -> usize {
        field_len(self.api_version.len()) + field_len(self.kind.len())
    }
}

pub(super) fn no_magic(offset: usize) -> ProtobufError {
    ProtobufError {
        offset,
        kind: ProtobufErrorKind::Other(
            "not a Kubernetes protobuf body: it does not begin with k8s\\0".to_owned(),
        ),
    }
}

/// Reads a `TypeMeta`: apiVersion and kind.
pub(super) fn type_meta(mut reader: Reader<'_>) -> Result<(&str, &str), ProtobufError> {
    let (mut api_version, mut kind) = ("", "");
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (1, WireType::Bytes) => api_version = reader.text(1)?,
            (2, WireType::Bytes) => kind = reader.text(2)?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok((api_version, kind))
}

/// The content must be a plain protobuf message: Kubernetes sends nothing else in an envelope.
pub(super) fn check_content(number: u32, value: &[u8], offset: usize) -> Result<(), ProtobufError> {
    if value.is_empty() || number == CONTENT_TYPE && value == b"application/vnd.kubernetes.protobuf" {
        return Ok(());
    }
    let what = match number {
        CONTENT_ENCODING => "encoding",
        _ => "type",
    };
    let text = String::from_utf8_lossy(&value[..value.len().min(64)]).into_owned();
    Err(ProtobufError {
        offset,
        kind: ProtobufErrorKind::Other(format!("content {what} {text:?} is not supported")),
    })
}
