//! Copies a message with its fields sorted as Go writes them, for the fast readers.
//!
//! Items of a repeated field keep their order, the last of several scalar values wins, and several singular messages
//! are merged by concatenation, as protobuf defines. Unknown fields are dropped.

use super::de::Context;
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType, put_bytes, put_tag, put_varint};
use super::special;
use crate::schema::{Schema, Shape, TypeId};

/// The same message with its fields sorted.
pub(super) fn reorder(schema: &Schema, id: TypeId, raw: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let mut out = Vec::with_capacity(raw.len());
    message(Context::new(schema), id, Reader::new(raw), &mut out)?;
    Ok(out)
}

fn message(
    context: Context<'_>,
    id: TypeId,
    mut reader: Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let context = context.deeper(&reader)?;
    let declared = &context.schema[id];
    // Position, wire type and reader of every known field.
    let mut found: Vec<(usize, WireType, Reader<'_>)> = Vec::new();
    while let Some((number, wire_type)) = reader.tag()? {
        if let Some((position, _)) = declared.field_numbered(number) {
            found.push((position, wire_type, reader.clone()));
        }
        reader.skip(wire_type)?;
    }
    found.sort_by_key(|(position, ..)| declared.fields[*position].number);
    for run in found.chunk_by(|left, right| left.0 == right.0) {
        let field = &declared.fields[run[0].0];
        if let Some((_, _, reader)) = run
            .iter()
            .find(|(_, wire_type, _)| !fits(&field.shape, *wire_type))
        {
            let number = field.number;
            return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number }));
        }
        match &field.shape {
            Shape::List(item) | Shape::Map(item) => {
                let is_map = matches!(field.shape, Shape::Map(_));
                for (_, wire_type, reader) in run {
                    put_tag(out, field.number, *wire_type);
                    if is_map {
                        entry(context, item, reader.clone().message()?, out)?;
                    } else {
                        value(context, item, *wire_type, &mut [reader.clone()], out)?;
                    }
                }
            }
            shape => {
                put_tag(out, field.number, run[0].1);
                let mut readers: Vec<_> = run.iter().map(|(_, _, reader)| reader.clone()).collect();
                value(context, shape, run[0].1, &mut readers, out)?;
            }
        }
    }
    Ok(())
}

fn fits(shape: &Shape, wire_type: WireType) -> bool {
    wire_type == shape.wire_type() || wire_type == WireType::Bytes && matches!(shape, Shape::List(_))
}

/// Copies the values of several readers as one value.
fn value(
    context: Context<'_>,
    shape: &Shape,
    wire_type: WireType,
    readers: &mut [Reader<'_>],
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    match wire_type {
        WireType::Bytes => {
            let mut body = Vec::new();
            let is_message =
                !matches!(shape, Shape::String(_) | Shape::Bytes) && shape.wire_type() == WireType::Bytes;
            for reader in readers {
                let part = reader.bytes()?;
                if !is_message {
                    body.clear();
                }
                body.extend_from_slice(part);
            }
            if let Shape::Struct(id) = shape {
                let mut inner = Vec::with_capacity(body.len());
                message(context, *id, Reader::new(&body), &mut inner)?;
                body = inner;
            } else if let Shape::SchemaOrBool(id) | Shape::SchemaOrArray(id) | Shape::SchemaOrStrings(id) =
                shape
            {
                body = schema_or(context, *id, shape, &body)?;
            }
            put_varint(out, body.len() as u64);
            out.extend_from_slice(&body);
        }
        _ => {
            let last = readers.last_mut().expect("a run has at least one value");
            match wire_type {
                WireType::Varint => put_varint(out, last.varint()?),
                WireType::Fixed64 => out.extend_from_slice(&last.fixed64()?.to_le_bytes()),
                _ => out.extend_from_slice(&last.fixed32()?.to_le_bytes()),
            }
        }
    }
    Ok(())
}

/// A union of a JSON schema and something else: the schemas within are sorted too.
fn schema_or(context: Context<'_>, id: TypeId, shape: &Shape, body: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let (schema_number, other_number) = match shape {
        Shape::SchemaOrBool(_) => (2, 1),
        _ => (1, 2),
    };
    let is_array = matches!(shape, Shape::SchemaOrArray(_));
    let mut reader = Reader::new(body);
    let (mut schemas, mut others) = (Vec::new(), Vec::new());
    while let Some((number, wire_type)) = reader.tag()? {
        if wire_type == WireType::Bytes && (number == schema_number || number == other_number && is_array) {
            let mut inner = Vec::new();
            message(context, id, reader.message()?, &mut inner)?;
            let target = if number == schema_number {
                &mut schemas
            } else {
                &mut others
            };
            put_bytes(target, number, &inner);
        } else if wire_type == WireType::Bytes && number == other_number {
            put_bytes(&mut others, number, reader.bytes()?);
        } else if wire_type == WireType::Varint && number == other_number {
            put_tag(&mut others, number, wire_type);
            put_varint(&mut others, reader.varint()?);
        } else {
            reader.skip(wire_type)?;
        }
    }
    // Readers accept both orders; the schema comes first if its number is lower.
    schemas.append(&mut others);
    Ok(schemas)
}

fn entry(
    context: Context<'_>,
    shape: &Shape,
    reader: Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let (key, found) = special::map_entry(reader, shape)?;
    let mut body = Vec::new();
    put_bytes(&mut body, 1, key.as_bytes());
    if let Some(reader) = found {
        put_tag(&mut body, 2, shape.wire_type());
        value(context, shape, shape.wire_type(), &mut [reader], &mut body)?;
    }
    put_varint(out, body.len() as u64);
    out.extend_from_slice(&body);
    Ok(())
}
