//! Fields that stand in a message more than once: the items of a list, the entries of a map.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::value::{Place, ValueDeserializer};
use super::{Context, Error, located, unexpected_wire_type};
use crate::protobuf::fields::next_item;
use crate::protobuf::primitive::{Reader, WireType};
use crate::protobuf::special::{self, ZEROS};
use crate::schema::Shape;

/// The items of a repeated field.
pub(super) struct Items<'s, 'r, 'de> {
    context: &'r Context<'s>,
    shape: &'s Shape,
    /// How an item is laid out.
    wire_type: WireType,
    number: u32,
    run: Run,
    /// What is left of numbers that are packed into one value.
    packed: Reader<'de>,
    reader: &'r mut Reader<'de>,
}

/// Where a run of items stands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Run {
    /// The reader stands at the first value.
    Before(WireType),
    /// The reader stands at a tag.
    Within,
    /// All items have been read.
    Done,
}

impl<'s, 'r, 'de> Items<'s, 'r, 'de> {
    #[inline]
    pub(super) fn new(
        context: &'r Context<'s>,
        shape: &'s Shape,
        number: u32,
        run: Run,
        reader: &'r mut Reader<'de>,
    ) -> Self {
        Self {
            context,
            shape,
            wire_type: shape.wire_type(),
            number,
            run,
            packed: Reader::new(&[]),
            reader,
        }
    }

    /// Shows the items to a visitor, and passes over those it did not want.
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
            self.value().skip()?;
        }
        Ok(())
    }

    /// Goes to the next item; false when there is none.
    #[inline(never)]
    fn find_next(&mut self) -> Result<bool, Error> {
        while self.packed.is_empty() {
            let found = match self.run {
                Run::Before(wire_type) => Some(wire_type),
                Run::Within => next_item(self.reader, self.number, self.wire_type)?,
                Run::Done => None,
            };
            self.run = Run::Within;
            match found {
                Some(wire_type) if wire_type == self.wire_type => break,
                Some(WireType::Bytes) => self.packed = self.reader.message()?,
                Some(_) => return Err(unexpected_wire_type(self.reader, self.number)),
                None => {
                    self.run = Run::Done;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The item that was found.
    #[inline]
    fn value(&mut self) -> ValueDeserializer<'s, '_, 'de> {
        ValueDeserializer {
            context: self.context,
            shape: self.shape,
            number: self.number,
            place: Place::At(self.wire_type),
            reader: match self.packed.is_empty() {
                true => self.reader,
                false => &mut self.packed,
            },
        }
    }

    /// How many items follow each other, packed ones not counted. Passing over an item costs much less than a
    /// list that grows while it is filled.
    #[inline(never)]
    fn count(&self) -> usize {
        let (mut ahead, mut count) = (self.reader.clone(), 0);
        let mut next = match self.run {
            Run::Before(wire_type) => Some(wire_type),
            Run::Within => next_item(&mut ahead, self.number, self.wire_type).ok().flatten(),
            Run::Done => None,
        };
        while next == Some(self.wire_type) && ahead.skip(self.wire_type).is_ok() {
            count += 1;
            next = next_item(&mut ahead, self.number, self.wire_type).ok().flatten();
        }
        count
    }
}

impl<'de> SeqAccess<'de> for Items<'_, '_, 'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let offset = self.reader.offset();
        if !self.find_next()? {
            return Ok(None);
        }
        match seed.deserialize(self.value()) {
            Ok(item) => Ok(Some(item)),
            Err(error) => Err(located(error, offset)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.count())
    }
}

/// The entries of a map field.
pub(super) struct Entries<'s, 'r, 'de> {
    pub(super) context: &'r Context<'s>,
    pub(super) shape: &'s Shape,
    pub(super) number: u32,
    pub(super) is_first: bool,
    /// Stands at the value of the entry whose key has been read.
    pub(super) value: Reader<'de>,
    pub(super) reader: &'r mut Reader<'de>,
}

impl<'s, 'de> Entries<'s, '_, 'de> {
    /// Shows the entries to a visitor, and passes over those it did not want.
    pub(super) fn visit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = visitor.visit_map(&mut self)?;
        while self.next_key()?.is_some() {}
        Ok(value)
    }

    #[inline(never)]
    fn next_key(&mut self) -> Result<Option<&'de str>, Error> {
        if !std::mem::take(&mut self.is_first) {
            match next_item(self.reader, self.number, WireType::Bytes)? {
                Some(WireType::Bytes) => {}
                Some(_) => return Err(unexpected_wire_type(self.reader, self.number)),
                None => return Ok(None),
            }
        }
        let (key, value) = special::map_entry(self.reader.message()?, self.shape)?;
        // A value that is missing is not nil in Go, only zero.
        self.value = value.unwrap_or(Reader::new(&ZEROS));
        Ok(Some(key))
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.next_key()? {
            Some(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let offset = self.value.offset();
        let value = ValueDeserializer {
            context: self.context,
            shape: self.shape,
            number: 2,
            place: Place::At(self.shape.wire_type()),
            reader: &mut self.value,
        };
        match seed.deserialize(value) {
            Ok(value) => Ok(value),
            Err(error) => Err(located(error, offset)),
        }
    }
}
