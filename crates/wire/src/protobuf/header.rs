//! Reads the header of an object (identity, version, labels, owners) without decoding the rest.
//!
//! `ObjectMeta` is field 1 of every kind, so no schema is needed. The other fields are skipped by their length; only
//! the length is checked.

use std::borrow::Cow;

use watchkeeper_meta::{Header, OwnerReference, Time};

use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::TextPairs;

/// Field of `ObjectMeta` in every object.
pub const METADATA: u32 = 1;

/// Fields of `ObjectMeta`, by ascending number, the order in which they are stored.
pub mod object_meta {
    /// `metadata.name`.
    pub const NAME: u32 = 1;
    /// `metadata.namespace`.
    pub const NAMESPACE: u32 = 3;
    /// `metadata.uid`.
    pub const UID: u32 = 5;
    /// `metadata.resourceVersion`.
    pub const RESOURCE_VERSION: u32 = 6;
    /// `metadata.generation`.
    pub const GENERATION: u32 = 7;
    /// `metadata.creationTimestamp`.
    pub const CREATION_TIMESTAMP: u32 = 8;
    /// `metadata.deletionTimestamp`.
    pub const DELETION_TIMESTAMP: u32 = 9;
    /// `metadata.labels`.
    pub const LABELS: u32 = 11;
    /// `metadata.annotations`.
    pub const ANNOTATIONS: u32 = 12;
    /// `metadata.ownerReferences`.
    pub const OWNER_REFERENCES: u32 = 13;
    /// `metadata.finalizers`.
    pub const FINALIZERS: u32 = 14;
    /// `metadata.managedFields`.
    pub const MANAGED_FIELDS: u32 = 17;
}

/// Reads the header from an object's own message. `apiVersion` and `kind` are empty: they are in the envelope.
pub fn header(bytes: &[u8]) -> Result<Header<'_>, ProtobufError> {
    let mut header = Header::default();
    each_metadata(bytes, |reader| read_metadata::<true>(reader, &mut header))?;
    Ok(header)
}

/// Like [`header`], but labels, owners and finalizers are only checked; [`Object`](crate::Object) does not keep them.
pub(crate) fn identity(bytes: &[u8]) -> Result<Header<'_>, ProtobufError> {
    let mut header = Header::default();
    each_metadata(bytes, |reader| read_metadata::<false>(reader, &mut header))?;
    Ok(header)
}

/// Reads `metadata.annotations`, in order.
pub fn annotations(bytes: &[u8]) -> Result<TextPairs<'_>, ProtobufError> {
    metadata_pairs(bytes, object_meta::ANNOTATIONS)
}

/// Reads `metadata.labels`, in order.
pub fn labels(bytes: &[u8]) -> Result<TextPairs<'_>, ProtobufError> {
    metadata_pairs(bytes, object_meta::LABELS)
}

fn metadata_pairs(bytes: &[u8], field: u32) -> Result<TextPairs<'_>, ProtobufError> {
    let mut pairs = TextPairs::new();
    each_metadata(bytes, |reader| {
        while let Some((number, wire_type)) = reader.tag()? {
            match number == field {
                true => pairs.push(map_entry(message(reader, number, wire_type)?)?),
                false => reader.skip(wire_type)?,
            }
        }
        Ok(())
    })?;
    Ok(pairs)
}

/// Calls `read` with the object's metadata. In protobuf, a message that occurs twice is merged.
fn each_metadata<'a>(
    bytes: &'a [u8],
    mut read: impl FnMut(&mut Reader<'a>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            METADATA => read(&mut message(&mut reader, number, wire_type)?)?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(())
}

/// If `LISTS`, labels, owners and finalizers are kept.
fn read_metadata<'a, const LISTS: bool>(
    reader: &mut Reader<'a>,
    header: &mut Header<'a>,
) -> Result<(), ProtobufError> {
    fn keep<T, const LISTS: bool>(list: &mut Vec<T>, entry: T) {
        if LISTS {
            list.push(entry);
        }
    }
    use object_meta::*;
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            NAME => header.name = text(reader, number, wire_type)?,
            NAMESPACE => header.namespace = text(reader, number, wire_type)?,
            UID => header.uid = text(reader, number, wire_type)?,
            RESOURCE_VERSION => header.resource_version = text(reader, number, wire_type)?,
            GENERATION => header.generation = varint(reader, number, wire_type)? as i64,
            CREATION_TIMESTAMP => header.creation_timestamp = time(message(reader, number, wire_type)?)?,
            DELETION_TIMESTAMP => header.deletion_timestamp = time(message(reader, number, wire_type)?)?,
            LABELS => {
                let label = map_entry(message(reader, number, wire_type)?)?;
                keep::<_, LISTS>(&mut header.labels, label);
            }
            OWNER_REFERENCES => {
                let owner = owner_reference(message(reader, number, wire_type)?)?;
                keep::<_, LISTS>(&mut header.owner_references, owner);
            }
            FINALIZERS => {
                let finalizer = text(reader, number, wire_type)?;
                keep::<_, LISTS>(&mut header.finalizers, finalizer);
            }
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(())
}

fn owner_reference(mut reader: Reader<'_>) -> Result<OwnerReference<'_>, ProtobufError> {
    let reader = &mut reader;
    let mut owner = OwnerReference::default();
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            1 => owner.kind = text(reader, number, wire_type)?,
            3 => owner.name = text(reader, number, wire_type)?,
            4 => owner.uid = text(reader, number, wire_type)?,
            5 => owner.api_version = text(reader, number, wire_type)?,
            6 => owner.controller = varint(reader, number, wire_type)? != 0,
            7 => owner.block_owner_deletion = varint(reader, number, wire_type)? != 0,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(owner)
}

/// A time; an empty message is Go's zero time, which means unset.
fn time(mut reader: Reader<'_>) -> Result<Option<Time>, ProtobufError> {
    let reader = &mut reader;
    if reader.is_empty() {
        return Ok(None);
    }
    let mut time = Time::default();
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            1 => time.seconds = varint(reader, number, wire_type)? as i64,
            2 => time.nanos = varint(reader, number, wire_type)? as i32,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(Some(time))
}

fn map_entry(mut reader: Reader<'_>) -> Result<(Cow<'_, str>, Cow<'_, str>), ProtobufError> {
    let reader = &mut reader;
    let mut entry = (Cow::Borrowed(""), Cow::Borrowed(""));
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            1 => entry.0 = text(reader, number, wire_type)?,
            2 => entry.1 = text(reader, number, wire_type)?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(entry)
}

#[inline]
fn text<'a>(
    reader: &mut Reader<'a>,
    number: u32,
    wire_type: WireType,
) -> Result<Cow<'a, str>, ProtobufError> {
    check_type(reader, number, wire_type, WireType::Bytes)?;
    reader.text(number).map(Cow::Borrowed)
}

#[inline]
fn varint(reader: &mut Reader<'_>, number: u32, wire_type: WireType) -> Result<u64, ProtobufError> {
    check_type(reader, number, wire_type, WireType::Varint)?;
    reader.varint()
}

#[inline]
fn message<'a>(
    reader: &mut Reader<'a>,
    number: u32,
    wire_type: WireType,
) -> Result<Reader<'a>, ProtobufError> {
    check_type(reader, number, wire_type, WireType::Bytes)?;
    reader.message()
}

#[inline]
fn check_type(
    reader: &Reader<'_>,
    number: u32,
    found: WireType,
    wanted: WireType,
) -> Result<(), ProtobufError> {
    match found == wanted {
        true => Ok(()),
        false => Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number })),
    }
}
