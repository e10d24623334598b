//! Walks one message along its type: the fields that are present, and the absent ones JSON shows.
//!
//! Go writes fields by ascending number, so message and type are merged like two sorted lists, without look-up by
//! name and without allocation. Fields JSON would omit (present zeros, most absent fields) are skipped, and so are
//! unknown fields. A message in another order is an [`OutOfOrder`](ProtobufErrorKind::OutOfOrder) error; the caller
//! then uses [`super::reorder`].

use super::de::{Error, unexpected_wire_type};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::limits::NESTING_LIMIT;
use crate::schema::{Field, NONE, Shown, Slot, Slots, Type};

/// The deepest nesting of messages. Only the schemas of custom resources nest without bound. What fits into JSON fits
/// here: one level of JSON is at most two messages, as the items of a list are.
pub(super) const MAX_DEPTH: usize = 2 * NESTING_LIMIT as usize;

/// The fields of one message. The caller keeps the reader, because it reads the values too.
#[derive(Clone)]
pub(super) struct Fields<'s> {
    declared: &'s Type,
    /// The lowest number that may come next.
    next: u32,
    /// The next number whose field is shown even if absent; [`NONE`] if there is none.
    shown: u16,
}

/// One field that JSON shows.
pub(super) enum Step<'s, 'a> {
    /// The reader is at the field's value; the caller reads it, a list as a whole.
    Present(&'s Slot, WireType),
    /// The message does not have the field.
    Absent(&'s Field),
    /// The fields of this message belong to the outer object. The reader is empty if the field is absent.
    Embedded(&'s Slot, Reader<'a>),
}

impl<'s> Fields<'s> {
    #[inline(always)]
    pub(super) fn new(declared: &'s Type) -> Self {
        let shown = declared.slots.at(0).shown_after;
        Self {
            declared,
            next: 0,
            shown,
        }
    }

    /// The slots of the message's type.
    #[inline(always)]
    pub(super) fn slots(&self) -> &'s Slots {
        &self.declared.slots
    }

    /// The next field to show, if it is present, known and in order, as nearly all are. Otherwise nothing is
    /// consumed, and [`step`](Self::step) decides. Makes no calls, so that it needs few registers.
    #[inline(always)]
    pub(super) fn usual_step(&mut self, place: &mut Reader<'_>) -> Option<&'s Slot> {
        let slots = self.slots();
        let (mut reader, mut next, mut shown) = (place.clone(), self.next, self.shown);
        loop {
            let tag = reader.short_varint()?;
            let (number, slot) = (tag >> 3, slots.at(tag >> 3));
            if slot.tag != tag || number < next || number > u32::from(shown) {
                return None;
            }
            (next, shown) = (number + 1, slot.shown_after);
            match slot.shown {
                Shown::Always => {}
                Shown::UnlessZero if reader.skip_byte(0) => continue,
                Shown::UnlessZero if reader.rest().first() != Some(&0x80) => {}
                _ => return None,
            }
            (self.next, self.shown) = (next, shown);
            place.go_to(&reader);
            return Some(slot);
        }
    }

    /// The next field to show; `None` after the last.
    #[inline(always)]
    pub(super) fn step<'a>(&mut self, place: &mut Reader<'a>) -> Result<Option<Step<'s, 'a>>, Error> {
        let slots = self.slots();
        // Copies that the compiler can keep in registers: Go writes many zeros that are only skipped.
        let (mut reader, mut next, mut shown) = (place.clone(), self.next, self.shown);
        loop {
            if reader.is_empty() {
                *place = reader;
                return Ok(match shown {
                    NONE => None,
                    shown => Some(self.absent(shown)),
                });
            }
            let at_tag = reader.clone();
            let tag = reader.varint()?;
            let number = (tag >> 3) as u32;
            let slot = slots.at(number);
            let mut wire_type = slot.wire_type;
            if u64::from(slot.tag) != tag {
                match self.unusual(at_tag.clone())? {
                    Unusual::Skipped(behind) => {
                        reader = behind;
                        continue;
                    }
                    Unusual::Packed => wire_type = WireType::Bytes,
                }
            }
            if number < next {
                return Err(out_of_order(number, reader.offset()));
            }
            if u32::from(shown) < number {
                // The tag is read again after the missing fields before it.
                *place = at_tag;
                return Ok(Some(self.absent(shown)));
            }
            next = number + 1;
            shown = slot.shown_after;
            let is_hidden = match slot.shown {
                Shown::Always | Shown::Embedded => false,
                Shown::UnlessZero => reader.skip_zero(),
                Shown::UnlessZeroFloat | Shown::UnlessZeroTime => match behind_zero(reader.clone(), slot)? {
                    Some(behind) => {
                        reader = behind;
                        true
                    }
                    None => false,
                },
            };
            if is_hidden {
                continue;
            }
            (self.next, self.shown) = (next, shown);
            if slot.shown == Shown::Embedded {
                let inner = reader.message()?;
                *place = reader;
                return Ok(Some(Step::Embedded(slot, inner)));
            }
            *place = reader;
            return Ok(Some(Step::Present(slot, wire_type)));
        }
    }

    /// True if nothing is left, in the message or to be shown without it.
    pub(super) fn is_done(&self, reader: &Reader<'_>) -> bool {
        reader.is_empty() && self.shown == NONE
    }

    /// Shows the absent field of that number.
    #[inline(never)]
    fn absent<'a>(&mut self, number: u16) -> Step<'s, 'a> {
        let slot = self.slots().at(u32::from(number));
        self.next = u32::from(number) + 1;
        self.shown = slot.shown_after;
        match slot.shown {
            Shown::Embedded => Step::Embedded(slot, Reader::new(&[])),
            _ => Step::Absent(&self.declared.fields[slot.field as usize]),
        }
    }

    /// Handles a field that is unknown, packed or has the wrong wire type.
    #[cold]
    fn unusual<'a>(&self, mut reader: Reader<'a>) -> Result<Unusual<'a>, Error> {
        let Some((number, wire_type)) = reader.tag()? else {
            return Ok(Unusual::Skipped(reader));
        };
        match self.declared.slots.find(number) {
            None => {
                reader.skip(wire_type)?;
                Ok(Unusual::Skipped(reader))
            }
            Some(slot) if wire_type == WireType::Bytes && slot.is_list => Ok(Unusual::Packed),
            Some(_) => Err(unexpected_wire_type(&reader, number)),
        }
    }
}

#[cold]
fn out_of_order(number: u32, offset: usize) -> Error {
    let kind = ProtobufErrorKind::OutOfOrder { number };
    ProtobufError { offset, kind }.into()
}

/// A field whose tag differs from its type's.
enum Unusual<'a> {
    /// Unknown: the reader is after it.
    Skipped(Reader<'a>),
    /// A list whose numbers are packed into one value.
    Packed,
}

/// The reader after a float or time that JSON omits because it is zero.
#[inline(never)]
fn behind_zero<'a>(mut reader: Reader<'a>, slot: &Slot) -> Result<Option<Reader<'a>>, Error> {
    let is_zero = match slot.shown {
        Shown::UnlessZeroFloat => reader.fixed64()? << 1 == 0,
        _ => super::time::is_zero(reader.message()?)?,
    };
    Ok(is_zero.then_some(reader))
}

/// Consumes the next tag if it has the given number: the next item of a repeated field, nearly always of wire type
/// `usual`.
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
