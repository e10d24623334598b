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
    pub(super) context: Context<'s>,
    pub(super) shape: &'s Shape,
    pub(super) number: u32,
    pub(super) run: Run<'de>,
    pub(super) reader: &'r mut Reader<'de>,
}

/// Where a run of items stands.
pub(super) enum Run<'de> {
    /// The reader stands at the first value.
    Before(WireType),
    /// The reader stands at a tag.
    Within,
    /// Numbers packed into one value.
    Packed(Reader<'de>),
    /// All items have been read.
    Done,
}

impl<'s, 'de> Items<'s, '_, 'de> {
    /// Shows the items to a visitor, and passes over those it did not want.
    pub(super) fn visit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = visitor.visit_seq(&mut self)?;
        self.drain()?;
        Ok(value)
    }

    #[inline(never)]
    fn drain(&mut self) -> Result<(), Error> {
        while !matches!(self.run, Run::Done) {
            if let Some(value) = self.next()? {
                value.skip()?;
            }
        }
        Ok(())
    }

    /// The next item.
    #[inline]
    fn next<'a>(&'a mut self) -> Result<Option<ValueDeserializer<'s, 'a, 'de>>, Error> {
        if matches!(&self.run, Run::Packed(packed) if packed.is_empty()) {
            self.run = Run::Within;
        }
        if !matches!(self.run, Run::Packed(_)) {
            let wire_type = match std::mem::replace(&mut self.run, Run::Within) {
                Run::Before(wire_type) => Some(wire_type),
                _ => next_item(self.reader, self.number)?,
            };
            match wire_type {
                Some(wire_type) if wire_type == self.shape.wire_type() => {}
                Some(WireType::Bytes) => {
                    self.run = Run::Packed(self.reader.message()?);
                    return self.next();
                }
                Some(_) => return Err(unexpected_wire_type(self.reader, self.number)),
                None => {
                    self.run = Run::Done;
                    return Ok(None);
                }
            }
        }
        Ok(Some(ValueDeserializer {
            context: self.context,
            shape: self.shape,
            number: self.number,
            place: Place::At(self.shape.wire_type()),
            reader: match &mut self.run {
                Run::Packed(packed) => packed,
                _ => self.reader,
            },
        }))
    }
}

impl<'de> SeqAccess<'de> for Items<'_, '_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let offset = self.reader.offset();
        match self.next()? {
            Some(value) => seed
                .deserialize(value)
                .map(Some)
                .map_err(|error| located(error, offset)),
            None => Ok(None),
        }
    }
}

/// The entries of a map field.
pub(super) struct Entries<'s, 'r, 'de> {
    pub(super) context: Context<'s>,
    pub(super) shape: &'s Shape,
    pub(super) number: u32,
    pub(super) is_first: bool,
    /// The value of the entry whose key has been read.
    pub(super) value: Option<Reader<'de>>,
    pub(super) reader: &'r mut Reader<'de>,
}

impl<'s, 'de> Entries<'s, '_, 'de> {
    /// Shows the entries to a visitor, and passes over those it did not want.
    pub(super) fn visit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = visitor.visit_map(&mut self)?;
        while self.next_key()?.is_some() {}
        Ok(value)
    }

    #[inline]
    fn next_key(&mut self) -> Result<Option<&'de str>, Error> {
        if !std::mem::take(&mut self.is_first) {
            match next_item(self.reader, self.number)? {
                Some(WireType::Bytes) => {}
                Some(_) => return Err(unexpected_wire_type(self.reader, self.number)),
                None => return Ok(None),
            }
        }
        let (key, value) = special::map_entry(self.reader.message()?, self.shape)?;
        self.value = value;
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
        // A value that is missing is not nil in Go, only zero.
        let mut reader = self.value.take().unwrap_or(Reader::new(&ZEROS));
        let offset = reader.offset();
        let value = ValueDeserializer {
            context: self.context,
            shape: self.shape,
            number: 2,
            place: Place::At(self.shape.wire_type()),
            reader: &mut reader,
        };
        seed.deserialize(value).map_err(|error| located(error, offset))
    }
}
