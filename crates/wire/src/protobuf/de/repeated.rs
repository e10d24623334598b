//! Repeated fields: the items of a list, the entries of a map.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::value::{Cursor, Place, ValueDeserializer};
use super::{Error, unexpected_wire_type};
use crate::protobuf::fields::next_item;
use crate::protobuf::primitive::{Reader, WireType};
use crate::protobuf::special::{self, ZEROS};
use crate::schema::Shape;

/// The items of a repeated field.
pub(super) struct Items<'s, 'r, 'de> {
    /// Has the shape of an item and moves from one to the next.
    at: &'r mut Cursor<'s, 'de>,
    /// The wire type of an item.
    wire_type: WireType,
    run: Run,
    /// The rest of a packed value.
    packed: Option<Cursor<'s, 'de>>,
}

/// The position within a run of items.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Run {
    /// The reader is at the first value.
    Before(WireType),
    /// The reader is at a tag.
    Within,
    /// All items have been read.
    Done,
}

impl<'s, 'r, 'de> Items<'s, 'r, 'de> {
    /// The items at a cursor that has their shape.
    #[inline(always)]
    pub(super) fn new(at: &'r mut Cursor<'s, 'de>, run: Run) -> Self {
        let wire_type = at.shape.wire_type();
        at.place = Place::At(wire_type);
        Self {
            at,
            wire_type,
            run,
            packed: None,
        }
    }

    /// Passes the items to a visitor and skips those it does not take.
    pub(super) fn visit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = visitor.visit_seq(&mut self)?;
        if self.run != Run::Done {
            self.drain()?;
        }
        Ok(value)
    }

    #[cold]
    fn drain(&mut self) -> Result<(), Error> {
        while self.find_next()? {
            self.cursor().skip()?;
        }
        Ok(())
    }

    /// Moves to the next item; returns false if there is none.
    #[inline(never)]
    fn find_next(&mut self) -> Result<bool, Error> {
        while self.packed.as_ref().is_none_or(|packed| packed.reader.is_empty()) {
            let found = match self.run {
                Run::Before(wire_type) => Some(wire_type),
                Run::Within => next_item(&mut self.at.reader, self.at.number, self.wire_type)?,
                Run::Done => None,
            };
            self.run = Run::Within;
            match found {
                Some(wire_type) if wire_type == self.wire_type => break,
                Some(WireType::Bytes) => self.unpack()?,
                Some(_) => return Err(unexpected_wire_type(&self.at.reader, self.at.number)),
                None => {
                    self.run = Run::Done;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    #[cold]
    fn unpack(&mut self) -> Result<(), Error> {
        self.packed = Some(Cursor {
            reader: self.at.reader.message()?,
            ..*self.at
        });
        Ok(())
    }

    /// The cursor at the item that was found.
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor<'s, 'de> {
        match &mut self.packed {
            Some(packed) if !packed.reader.is_empty() => packed,
            _ => self.at,
        }
    }

    /// The number of consecutive items, without packed ones. Skipping an item costs much less than growing a list.
    #[inline(never)]
    fn count(&self) -> usize {
        let (mut ahead, mut count) = (self.at.reader.clone(), 0);
        let next_item = |ahead: &mut _| next_item(ahead, self.at.number, self.wire_type).ok().flatten();
        let mut next = match self.run {
            Run::Before(wire_type) => Some(wire_type),
            Run::Within => next_item(&mut ahead),
            Run::Done => None,
        };
        while next == Some(self.wire_type) && ahead.skip(self.wire_type).is_ok() {
            count += 1;
            next = next_item(&mut ahead);
        }
        count
    }
}

impl<'de> SeqAccess<'de> for Items<'_, '_, 'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let offset = self.at.reader.offset();
        if !self.find_next()? {
            return Ok(None);
        }
        match seed.deserialize(ValueDeserializer(self.cursor())) {
            Ok(item) => Ok(Some(item)),
            Err(error) => Err(error.or_at(offset)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.count())
    }
}

/// The entries of a map field.
pub(super) struct Entries<'s, 'r, 'de> {
    at: &'r mut Cursor<'s, 'de>,
    is_first: bool,
    /// Positioned at the value of the entry whose key has been read.
    value: Cursor<'s, 'de>,
}

impl<'s, 'r, 'de> Entries<'s, 'r, 'de> {
    /// The entries at a cursor, with values of the given shape.
    #[inline(always)]
    pub(super) fn new(at: &'r mut Cursor<'s, 'de>, shape: &'s Shape) -> Self {
        Self {
            is_first: true,
            value: Cursor {
                context: at.context,
                shape,
                number: 2,
                place: Place::At(shape.wire_type()),
                reader: Reader::new(&[]),
            },
            at,
        }
    }

    /// Passes the entries to a visitor and skips those it does not take.
    pub(super) fn visit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = visitor.visit_map(&mut self)?;
        while self.next_key()?.is_some() {}
        Ok(value)
    }

    #[inline(never)]
    fn next_key(&mut self) -> Result<Option<&'de str>, Error> {
        let at = &mut *self.at;
        if !std::mem::take(&mut self.is_first) {
            match next_item(&mut at.reader, at.number, WireType::Bytes)? {
                Some(WireType::Bytes) => {}
                Some(_) => return Err(unexpected_wire_type(&at.reader, at.number)),
                None => return Ok(None),
            }
        }
        let (key, value) = special::map_entry(at.reader.message()?, self.value.shape)?;
        // A missing value is zero in Go, not nil.
        self.value.reader = value.unwrap_or(Reader::new(&ZEROS));
        Ok(Some(key))
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_, 'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.next_key()? {
            Some(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let offset = self.value.reader.offset();
        seed.deserialize(ValueDeserializer(&mut self.value))
            .map_err(|error| error.or_at(offset))
    }
}
