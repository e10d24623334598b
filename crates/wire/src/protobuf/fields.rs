//! Walks one message beside its type: what is there, and what is not there but must be shown.
//!
//! Go writes fields in the order of their numbers, so message and type are merged like two sorted lists, without
//! a look-up by name and without memory. Of the fields that JSON would not show, present zeros and most of the
//! absent ones, nothing comes out. Unknown fields are passed over. A message in another order is an
//! [`OutOfOrder`](ProtobufErrorKind::OutOfOrder) error, on which the caller turns to [`super::reorder`].

use super::de::{Error, unexpected_wire_type};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::schema::{Field, Hidden, Slot, Type};

/// Messages within messages. No built-in kind comes near; only schemas of custom resources nest at will,
/// and in JSON they meet the same limit.
pub(super) const MAX_DEPTH: usize = 64;

/// The fields of one message.
#[derive(Clone)]
pub(super) struct Fields<'s, 'a> {
    declared: &'s Type,
    /// Position of the next declared field, by ascending number.
    next: usize,
    pub(super) reader: Reader<'a>,
}

/// One field that JSON shows.
pub(super) enum Step<'s> {
    /// The reader stands at the field's value; whoever takes the step reads it, a list to its end.
    Present(&'s Field, WireType),
    /// The message does not have the field.
    Absent(&'s Field),
}

impl<'s, 'a> Fields<'s, 'a> {
    #[inline]
    pub(super) fn new(declared: &'s Type, reader: Reader<'a>) -> Self {
        Self {
            declared,
            next: 0,
            reader,
        }
    }

    /// The next field to show; `None` when all have been shown.
    #[inline(always)]
    pub(super) fn step(&mut self) -> Result<Option<Step<'s>>, Error> {
        let slots = &self.declared.slots;
        // Copies that the compiler can keep in registers: Go writes many zeros that are only passed over.
        let (mut reader, mut next) = (self.reader.clone(), self.next);
        loop {
            if reader.is_empty() {
                self.reader = reader;
                return Ok(self.absent_before(next, slots.len()));
            }
            let at_tag = reader.clone();
            let tag = reader.varint()?;
            let position = slots.position((tag >> 3) as u32);
            let (position, slot, wire_type) = match position.map(|position| (position, slots.at(position))) {
                Some((position, slot)) if u64::from(slot.tag) == tag => (position, slot, slot.wire_type),
                _ => match self.unusual(at_tag.clone())? {
                    Unusual::Skipped(behind) => {
                        reader = behind;
                        continue;
                    }
                    Unusual::Packed(position) => (position, slots.at(position), WireType::Bytes),
                },
            };
            if position < next {
                return Err(self.out_of_order(position, reader.offset()));
            }
            if (slots.at(next).next_shown as usize) < position {
                // The tag is read again when all that is missing before it has been shown.
                self.reader = at_tag;
                return Ok(self.absent_before(next, position));
            }
            next = position + 1;
            let is_hidden = match slot.hidden {
                Hidden::Never => false,
                Hidden::WhenZero => reader.skip_zero(),
                Hidden::WhenZeroFloat | Hidden::WhenZeroTime => match behind_zero(reader.clone(), slot)? {
                    Some(behind) => {
                        reader = behind;
                        true
                    }
                    None => false,
                },
            };
            if !is_hidden {
                (self.reader, self.next) = (reader, next);
                return Ok(Some(Step::Present(self.field(slot), wire_type)));
            }
        }
    }

    /// Whether nothing is left, neither in the message nor to be shown without it.
    pub(super) fn is_done(&self) -> bool {
        let slots = &self.declared.slots;
        self.reader.is_empty() && slots.at(self.next).next_shown as usize >= slots.len()
    }

    #[inline]
    fn field(&self, slot: &Slot) -> &'s Field {
        &self.declared.fields[slot.field as usize]
    }

    /// The next field from `next` on that is shown although it is absent, if it stands before `end`.
    fn absent_before(&mut self, next: usize, end: usize) -> Option<Step<'s>> {
        let slots = &self.declared.slots;
        let shown = slots.at(next).next_shown as usize;
        if shown >= end {
            self.next = next.max(end);
            return None;
        }
        self.next = shown + 1;
        Some(Step::Absent(self.field(slots.at(shown))))
    }

    /// Looks at a field that is unknown, packed or laid out wrongly.
    #[cold]
    fn unusual(&self, mut reader: Reader<'a>) -> Result<Unusual<'a>, Error> {
        let Some((number, wire_type)) = reader.tag()? else {
            return Ok(Unusual::Skipped(reader));
        };
        match self.declared.slots.position(number) {
            None => {
                reader.skip(wire_type)?;
                Ok(Unusual::Skipped(reader))
            }
            Some(position) if wire_type == WireType::Bytes && self.declared.slots.at(position).is_list => {
                Ok(Unusual::Packed(position))
            }
            Some(_) => Err(unexpected_wire_type(&reader, number)),
        }
    }

    #[cold]
    fn out_of_order(&self, position: usize, offset: usize) -> Error {
        let number = self.field(self.declared.slots.at(position)).number;
        let kind = ProtobufErrorKind::OutOfOrder { number };
        ProtobufError { offset, kind }.into()
    }
}

/// A field that has not the tag its type says.
enum Unusual<'a> {
    /// Nobody knows it: the reader stands behind it.
    Skipped(Reader<'a>),
    /// The position of a list whose numbers are packed into one value.
    Packed(usize),
}

/// Where the reader stands behind a floating-point number or a time that JSON leaves out because it is zero.
#[inline(never)]
fn behind_zero<'a>(mut reader: Reader<'a>, slot: &Slot) -> Result<Option<Reader<'a>>, Error> {
    let is_zero = match slot.hidden {
        Hidden::WhenZeroFloat => reader.fixed64()? << 1 == 0,
        _ => super::time::read(reader.message()?)?.is_none(),
    };
    Ok(is_zero.then_some(reader))
}

/// Passes to the next tag if it has the given number: the next item of a repeated field, whose items are nearly
/// always laid out as `usual`.
#[inline(always)]
pub(super) fn next_item(
    reader: &mut Reader<'_>,
    number: u32,
    usual: WireType,
) -> Result<Option<WireType>, ProtobufError> {
    if reader.is_empty() {
        return Ok(None);
    }
    let mut behind_tag = reader.clone();
    let tag = behind_tag.varint()?;
    if tag == u64::from(number << 3 | usual.code()) {
        *reader = behind_tag;
        return Ok(Some(usual));
    }
    if tag >> 3 != u64::from(number) {
        return Ok(None);
    }
    Ok(reader.tag()?.map(|(_, wire_type)| wire_type))
}
