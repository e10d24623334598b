//! Walks one message beside its type: what is there, and what is not there but must be shown.
//!
//! Go writes fields in the order of their numbers, so message and type are merged like two sorted lists, without
//! a look-up by name and without memory. Of the fields that JSON would not show, present zeros and most of the
//! absent ones, nothing comes out. Unknown fields are passed over. A message in another order is an
//! [`OutOfOrder`](ProtobufErrorKind::OutOfOrder) error, on which the caller turns to [`super::reorder`].

use super::de::{Error, unexpected_wire_type};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::schema::{Field, Hidden, Type};

/// Messages within messages. No built-in kind comes near; only schemas of custom resources nest at will,
/// and in JSON they meet the same limit.
pub(super) const MAX_DEPTH: usize = 64;

/// The fields of one message.
#[derive(Clone)]
pub(super) struct Fields<'s, 'a> {
    declared: &'s Type,
    /// Position of the next declared field, by ascending number.
    next: usize,
    /// Position of the field whose tag has been read; beyond all at the end of the message.
    target: usize,
    /// The layout of the field at the target, once its tag has been read.
    found: Option<WireType>,
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
    pub(super) fn new(declared: &'s Type, reader: Reader<'a>) -> Self {
        Self {
            declared,
            next: 0,
            target: 0,
            found: None,
            reader,
        }
    }

    /// The next field to show; `None` when all have been shown.
    #[inline]
    pub(super) fn step(&mut self) -> Result<Option<Step<'s>>, Error> {
        loop {
            let shown = self.declared.slots.at(self.next).next_shown as usize;
            if shown < self.target {
                self.next = shown + 1;
                return Ok(Some(Step::Absent(self.field(shown))));
            }
            if let Some(wire_type) = self.found.take() {
                let position = self.target;
                self.target += 1;
                self.next = self.target;
                if !self.is_hidden(position, wire_type)? {
                    return Ok(Some(Step::Present(self.field(position), wire_type)));
                }
            } else {
                self.next = self.next.max(self.target);
                if !self.find()? {
                    return Ok(None);
                }
            }
        }
    }

    fn field(&self, position: usize) -> &'s Field {
        &self.declared.fields[self.declared.slots.at(position).field as usize]
    }

    /// Reads tags up to the next field to show; false when all is done.
    #[inline]
    fn find(&mut self) -> Result<bool, Error> {
        let slots = &self.declared.slots;
        let mut next = self.next;
        // A copy that the compiler can keep in registers: Go writes many zeros that are only passed over.
        let mut reader = self.reader.clone();
        while !reader.is_empty() {
            let at_tag = reader.clone();
            let tag = reader.varint()?;
            let position = slots.position((tag >> 3) as u32);
            let Some(position) = position.filter(|position| slots.at(*position).tag as u64 == tag) else {
                reader = at_tag;
                match self.unusual(&mut reader)? {
                    Some(found) if found >= next => {
                        self.reader = reader;
                        (self.next, self.target, self.found) = (next, found, Some(WireType::Bytes));
                        return Ok(true);
                    }
                    Some(found) => return Err(self.out_of_order(found, &reader)),
                    None => continue,
                }
            };
            if position < next {
                return Err(self.out_of_order(position, &reader));
            }
            let slot = slots.at(position);
            let is_passed = slot.hidden == Hidden::WhenZero
                && slots.at(next).next_shown as usize >= position
                && reader.skip_zero();
            if !is_passed {
                self.reader = reader;
                (self.next, self.target, self.found) = (next, position, Some(slot.wire_type));
                return Ok(true);
            }
            next = position + 1;
        }
        self.reader = reader;
        // What is left is absent.
        (self.next, self.target) = (next, slots.len());
        Ok(next < slots.len())
    }

    /// A field that is unknown, packed or laid out wrongly. The position of a packed list comes out.
    #[cold]
    fn unusual(&self, reader: &mut Reader<'a>) -> Result<Option<usize>, Error> {
        let Some((number, wire_type)) = reader.tag()? else {
            return Ok(None);
        };
        match self.declared.slots.position(number) {
            None => {
                reader.skip(wire_type)?;
                Ok(None)
            }
            Some(position) if wire_type == WireType::Bytes && self.declared.slots.at(position).is_list => {
                Ok(Some(position))
            }
            Some(_) => Err(unexpected_wire_type(reader, number)),
        }
    }

    #[cold]
    fn out_of_order(&self, position: usize, reader: &Reader<'_>) -> Error {
        let number = self.field(position).number;
        reader.error(ProtobufErrorKind::OutOfOrder { number }).into()
    }

    /// Whether JSON leaves out the value at which the reader stands; if so, it is passed over.
    #[inline]
    fn is_hidden(&mut self, position: usize, wire_type: WireType) -> Result<bool, Error> {
        let is_hidden = match self.declared.slots.at(position).hidden {
            Hidden::Never => false,
            Hidden::WhenZero => self.reader.clone().varint()? == 0,
            Hidden::WhenZeroFloat => self.reader.clone().fixed64()? << 1 == 0,
            Hidden::WhenZeroTime => super::time::read(self.reader.clone().message()?)?.is_none(),
        };
        if is_hidden {
            self.reader.skip(wire_type)?;
        }
        Ok(is_hidden)
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
