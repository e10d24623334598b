//! Walks one message beside its type: what is there, and what is not there but must be shown.
//!
//! Go writes fields in the order of their numbers, so message and type are merged like two sorted lists:
//! every declared field comes out exactly once, as [`Step::Present`] or [`Step::Absent`], without a look-up
//! and without memory. Unknown fields are passed over. A message in another order is an
//! [`OutOfOrder`](ProtobufErrorKind::OutOfOrder) error, on which the caller turns to [`super::reorder`].

use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::schema::{Field, Shape, Type};

/// Messages within messages. No built-in kind comes near; only schemas of custom resources nest at will,
/// and in JSON they meet the same limit.
pub(super) const MAX_DEPTH: usize = 64;

/// The fields of one message.
#[derive(Clone)]
pub(super) struct Fields<'s, 'a> {
    declared: &'s Type,
    /// Position of the next declared field, by ascending number.
    next: usize,
    /// A tag that was read but whose turn has not come.
    tag: Option<(u32, WireType)>,
    pub(super) reader: Reader<'a>,
}

/// One declared field.
pub(super) enum Step<'s> {
    /// The reader stands at the field's value; whoever takes the step reads it, a list to its end.
    Present(&'s Field, WireType),
    /// The message does not have the field.
    Absent(&'s Field),
}

impl<'s, 'a> Fields<'s, 'a> {
    pub(super) fn new(declared: &'s Type, reader: Reader<'a>) -> Self {
        Self {
            declared,
            next: 0,
            tag: None,
            reader,
        }
    }

    /// The next declared field; `None` when all have been shown.
    #[inline]
    pub(super) fn step(&mut self) -> Result<Option<Step<'s>>, ProtobufError> {
        loop {
            if self.tag.is_none() {
                self.tag = self.reader.tag()?;
            }
            let expected = self.declared.wire_field(self.next);
            match (self.tag, expected) {
                (None, None) => return Ok(None),
                (Some((number, wire_type)), Some(field)) if number == field.number => {
                    self.next += 1;
                    self.tag = None;
                    return self.check(field, wire_type).map(Some);
                }
                (Some((number, _)), Some(field)) if field.number < number => {
                    self.next += 1;
                    return Ok(Some(Step::Absent(field)));
                }
                (None, Some(field)) => {
                    self.next += 1;
                    return Ok(Some(Step::Absent(field)));
                }
                (Some((number, wire_type)), _) => {
                    if self.declared.field_numbered(number).is_some() {
                        return Err(self.reader.error(ProtobufErrorKind::OutOfOrder { number }));
                    }
                    self.reader.skip(wire_type)?;
                    self.tag = None;
                }
            }
        }
    }

    fn check(&self, field: &'s Field, wire_type: WireType) -> Result<Step<'s>, ProtobufError> {
        // Numbers in lists may be packed into one run of bytes.
        let packed = wire_type == WireType::Bytes && matches!(field.shape, Shape::List(_));
        if wire_type != field.shape.wire_type() && !packed {
            return Err(self
                .reader
                .error(ProtobufErrorKind::UnexpectedWireType { number: field.number }));
        }
        Ok(Step::Present(field, wire_type))
    }
}

/// Passes to the next tag if it has the given number: the next item of a repeated field.
#[inline]
pub(super) fn next_item(reader: &mut Reader<'_>, number: u32) -> Result<Option<WireType>, ProtobufError> {
    let before = reader.clone();
    match reader.tag()? {
        Some((found, wire_type)) if found == number => Ok(Some(wire_type)),
        _ => {
            *reader = before;
            Ok(None)
        }
    }
}

impl Shape {
    /// How a value, or an item of a list, is laid out.
    #[inline]
    pub(super) fn wire_type(&self) -> WireType {
        match self {
            Shape::Bool | Shape::Int32 | Shape::Int64 => WireType::Varint,
            Shape::Float64 => WireType::Fixed64,
            Shape::List(item) => item.wire_type(),
            _ => WireType::Bytes,
        }
    }
}

impl Field {
    /// Whether JSON shows the field although it has no value, as Go does: structs always, others unless they
    /// are `omitempty`.
    pub(crate) fn shown_when_absent(&self) -> bool {
        if self.omit_zero {
            return false;
        }
        if self.pointer {
            return !self.omit_empty;
        }
        match self.shape {
            Shape::String(_)
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Float64
            | Shape::Bytes
            | Shape::List(_)
            | Shape::Map(_)
            | Shape::ListMessage(_)
            | Shape::Any => !self.omit_empty,
            _ => true,
        }
    }

    /// Whether JSON leaves out a field that is present but zero: the reader stands at its value.
    #[inline]
    pub(super) fn hidden_when_zero(&self, reader: &Reader<'_>) -> Result<bool, ProtobufError> {
        if self.pointer || !(self.omit_empty || self.omit_zero) {
            return Ok(false);
        }
        match self.shape {
            Shape::String(_)
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Bytes
            | Shape::ListMessage(_) => {
                // The number itself, or the length of what follows.
                Ok(reader.clone().varint()? == 0)
            }
            Shape::Float64 => Ok(reader.clone().fixed64()? << 1 == 0),
            Shape::Time if self.omit_zero => Ok(super::time::read(reader.clone().message()?)?.is_none()),
            _ => Ok(false),
        }
    }
}
