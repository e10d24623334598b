//! Copies an object without its `metadata.managedFields`: more than half of its bytes, and used only by server-side
//! apply.

use super::header::{METADATA, object_meta};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType, put_tag, put_varint};

/// Appends the object's message to `out` without its `metadata.managedFields`; the length of the metadata is
/// adjusted, all other bytes are unchanged.
///
/// On an error, `out` is unchanged.
pub fn copy_without(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let before = out.len();
    copy_object(bytes, out).inspect_err(|_| out.truncate(before))
}

/// The entries of the object's `metadata.managedFields`.
pub fn entries(bytes: &[u8]) -> Result<Vec<Reader<'_>>, ProtobufError> {
    let mut reader = Reader::new(bytes);
    let mut entries = Vec::new();
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (METADATA, WireType::Bytes) => collect_entries(reader.message()?, &mut entries)?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(entries)
}

fn collect_entries<'a>(mut metadata: Reader<'a>, entries: &mut Vec<Reader<'a>>) -> Result<(), ProtobufError> {
    while let Some((number, wire_type)) = metadata.tag()? {
        match (number, wire_type) {
            (object_meta::MANAGED_FIELDS, WireType::Bytes) => entries.push(metadata.message()?),
            _ => metadata.skip(wire_type)?,
        }
    }
    Ok(())
}

fn copy_object(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    let mut copied = 0;
    loop {
        let start = reader.offset();
        let Some((number, wire_type)) = reader.tag()? else {
            break;
        };
        if number != METADATA {
            reader.skip(wire_type)?;
            continue;
        }
        if wire_type != WireType::Bytes {
            return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number }));
        }
        out.extend_from_slice(&bytes[copied..start]);
        copy_metadata(reader.message()?, bytes, out)?;
        copied = reader.offset();
    }
    out.extend_from_slice(&bytes[copied..]);
    Ok(())
}

fn copy_metadata(reader: Reader<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    // Nearly always one run is kept, before the managed fields, or two, around them.
    let (mut kept_bytes, mut first, mut last) = (0, None, 0..0);
    each_kept_run(reader.clone(), |start, end| {
        kept_bytes += end - start;
        match first {
            None => first = Some(start..end),
            Some(_) => last = start..end,
        }
    })?;
    let first = first.unwrap_or_default();
    put_tag(out, METADATA, WireType::Bytes);
    put_varint(out, kept_bytes as u64);
    if first.len() + last.len() == kept_bytes {
        out.extend_from_slice(&bytes[first]);
        out.extend_from_slice(&bytes[last]);
        return Ok(());
    }
    each_kept_run(reader, |start, end| out.extend_from_slice(&bytes[start..end]))
}

/// Calls `keep` with the ends of each run of kept fields.
fn each_kept_run(mut reader: Reader<'_>, mut keep: impl FnMut(usize, usize)) -> Result<(), ProtobufError> {
    let mut run = reader.offset();
    loop {
        let start = reader.offset();
        let Some((number, wire_type)) = reader.tag()? else {
            keep(run, start);
            return Ok(());
        };
        reader.skip(wire_type)?;
        if number == object_meta::MANAGED_FIELDS {
            keep(run, start);
            run = reader.offset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::primitive::put_bytes;
    use super::*;

    fn object(metadata: &[(u32, &[u8])]) -> Vec<u8> {
        let (mut inner, mut out) = (Vec::new(), Vec::new());
        for (number, value) in metadata {
            put_bytes(&mut inner, *number, value);
        }
        put_bytes(&mut out, METADATA, &inner);
        put_bytes(&mut out, 2, b"spec");
        out
    }

    #[test]
    fn the_metadata_shrinks_and_the_rest_stays() {
        let large = [7; 200];
        let mut out = Vec::new();
        copy_without(
            &object(&[(17, &large), (1, b"a"), (17, &large), (3, b"b"), (17, b"")]),
            &mut out,
        )
        .unwrap();
        assert_eq!(out, object(&[(1, b"a"), (3, b"b")]));
    }

    #[test]
    fn nothing_is_left_behind_by_a_bad_object() {
        let mut out = b"before".to_vec();
        let mut bytes = object(&[(17, b"x")]);
        bytes.truncate(bytes.len() - 1);
        copy_without(&bytes, &mut out).unwrap_err();
        assert_eq!(out, b"before");
    }
}
