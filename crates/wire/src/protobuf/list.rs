//! Splits a list body, in chunks of any size, into its items as slices, undecoded.
//!
//! ```text
//! k8s\0  Unknown { 1: TypeMeta, 2: raw = PodList { 1: ListMeta, 2: item, 2: item, … }, 3, 4 }
//! ```
//!
//! Lengths are known in advance: the splitter reads a tag and a length and returns what follows. An item within one
//! chunk is a slice of that chunk; one that straddles chunks is assembled in a reused buffer.

use watchkeeper_meta::ResourceVersion;

use super::envelope::{self, MAGIC};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::carry::Carry;
use crate::limits::{LIST_HEAD_LIMIT, OBJECT_LIMIT};
use crate::list_head::ListHead;

/// Fields of a list.
const LIST_META: u32 = 1;
const ITEMS: u32 = 2;

/// Cuts the items out of a protobuf list.
///
/// Used like its JSON counterpart: call [`next`](Self::next) until a chunk is used up, continue with the next chunk,
/// and call [`finish`](Self::finish) at the end.
#[derive(Debug, Default)]
pub struct ListSplitter {
    head: ListHead,
    state: State,
    /// The end of the list's message; `None` outside of it, in the envelope.
    list_end: Option<usize>,
    list_seen: bool,
    /// Part of an item, or of a field of the head.
    carry: Carry,
}

/// The element the next byte belongs to.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The first four bytes.
    #[default]
    Magic,
    /// A field's number and wire type.
    Tag(Varint),
    /// A number that is skipped.
    Number(Varint),
    /// The length of a field.
    Length(Field, Varint),
    /// The bytes of a field, with the number still to come.
    Bytes(Field, usize),
}

/// A partially read varint.
#[derive(Clone, Copy, Debug, Default)]
struct Varint {
    value: u64,
    /// Bits read so far.
    bits: u32,
}

/// A field of the envelope or of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    TypeMeta,
    List,
    /// Content encoding or content type.
    Content(u32),
    ListMeta,
    Item,
    Other,
}

impl ListSplitter {
    /// The list's own fields read so far; complete after [`finish`](Self::finish).
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// The next item; `None` when the chunk is used up. Consumed bytes are removed from the front of `chunk`.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, ProtobufError> {
        self.carry.start_next();
        while !chunk.is_empty() {
            if let Some(last) = self.step(chunk)? {
                return Ok(Some(self.carry.complete(last)));
            }
        }
        Ok(None)
    }

    /// Returns an error unless the list has been seen and has ended: a body truncated before it is not an empty list.
    pub fn finish(&self) -> Result<(), ProtobufError> {
        match self.state {
            State::Tag(Varint { bits: 0, .. }) if self.list_end.is_none() && self.list_seen => Ok(()),
            _ => Err(self.error(ProtobufErrorKind::Truncated)),
        }
    }

    /// Consumes one number, or as much of a field as the chunk has; returns the last bytes of an item.
    fn step<'c>(&mut self, chunk: &mut &'c [u8]) -> Result<Option<&'c [u8]>, ProtobufError> {
        match self.state {
            State::Magic => self.magic(chunk)?,
            State::Tag(varint) => {
                if let Some(tag) = self.varint(chunk, varint, State::Tag)? {
                    self.begin_field(tag)?;
                }
            }
            State::Number(varint) => {
                if self.varint(chunk, varint, State::Number)?.is_some() {
                    self.end_field();
                }
            }
            State::Length(field, varint) => {
                if let Some(length) = self.varint(chunk, varint, |varint| State::Length(field, varint))? {
                    return self.begin_bytes(chunk, field, length);
                }
            }
            State::Bytes(field, left) => return self.bytes(chunk, field, left),
        }
        Ok(None)
    }

    fn magic(&mut self, chunk: &mut &[u8]) -> Result<(), ProtobufError> {
        if chunk[0] != MAGIC[self.carry.offset()] {
            return Err(envelope::no_magic(0));
        }
        self.carry.take(chunk, 1);
        if self.carry.offset() == MAGIC.len() {
            self.end_field();
        }
        Ok(())
    }

    fn varint(
        &mut self,
        chunk: &mut &[u8],
        mut varint: Varint,
        resume: impl Fn(Varint) -> State,
    ) -> Result<Option<u64>, ProtobufError> {
        while let Some(&byte) = chunk.first() {
            if self.list_end == Some(self.carry.offset()) {
                return Err(self.error(ProtobufErrorKind::Truncated));
            }
            varint.push(byte).map_err(|kind| self.error(kind))?;
            self.carry.take(chunk, 1);
            if byte < 0x80 {
                return Ok(Some(varint.value));
            }
        }
        self.state = resume(varint);
        Ok(None)
    }

    fn begin_field(&mut self, tag: u64) -> Result<(), ProtobufError> {
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(self.error(ProtobufErrorKind::FieldNumber(number)));
        }
        let field = self.field(number as u32);
        self.state = match (field, tag as u8 & 7) {
            (field, 2) => State::Length(field, Varint::default()),
            (Field::Other, 0) => State::Number(Varint::default()),
            (Field::Other, 1) => State::Bytes(Field::Other, self.check_room(8)?),
            (Field::Other, 5) => State::Bytes(Field::Other, self.check_room(4)?),
            (_, 0 | 1 | 5) => {
                let number = number as u32;
                return Err(self.error(ProtobufErrorKind::UnexpectedWireType { number }));
            }
            (_, other) => return Err(self.error(ProtobufErrorKind::WireType(other))),
        };
        Ok(())
    }

    fn field(&self, number: u32) -> Field {
        match (self.list_end, number) {
            (Some(_), LIST_META) => Field::ListMeta,
            (Some(_), ITEMS) => Field::Item,
            (None, envelope::TYPE_META) => Field::TypeMeta,
            (None, envelope::RAW) => Field::List,
            (None, envelope::CONTENT_ENCODING | envelope::CONTENT_TYPE) => Field::Content(number),
            _ => Field::Other,
        }
    }

    fn begin_bytes<'c>(
        &mut self,
        chunk: &mut &'c [u8],
        field: Field,
        length: u64,
    ) -> Result<Option<&'c [u8]>, ProtobufError> {
        let length = self.check_room(length)?;
        self.check_size(field, length)?;
        if field == Field::List {
            self.begin_list(length)?;
            return Ok(None);
        }
        self.bytes(chunk, field, length)
    }

    /// A field must end within its list.
    fn check_room(&self, length: u64) -> Result<usize, ProtobufError> {
        let room = self.list_end.unwrap_or(usize::MAX) - self.carry.offset();
        match usize::try_from(length) {
            Ok(length) if length <= room => Ok(length),
            _ => Err(self.error(ProtobufErrorKind::Truncated)),
        }
    }

    fn begin_list(&mut self, length: usize) -> Result<(), ProtobufError> {
        if std::mem::replace(&mut self.list_seen, true) {
            return Err(self.error(ProtobufErrorKind::Other(
                "the list occurs twice in its envelope".to_owned(),
            )));
        }
        self.list_end = Some(self.carry.offset() + length);
        self.end_field();
        Ok(())
    }

    fn bytes<'c>(
        &mut self,
        chunk: &mut &'c [u8],
        field: Field,
        left: usize,
    ) -> Result<Option<&'c [u8]>, ProtobufError> {
        let length = left.min(chunk.len());
        if field == Field::Item && length == left {
            let last = self.carry.take(chunk, length);
            self.end_field();
            return Ok(Some(last));
        }
        match field {
            Field::Other => drop(self.carry.take(chunk, length)),
            _ => self.carry.hold(chunk, length),
        }
        if length < left {
            self.state = State::Bytes(field, left - length);
            return Ok(None);
        }
        self.end_field();
        self.keep(field)?;
        self.carry.clear();
        Ok(None)
    }

    /// The next byte starts a field; after the list's last byte, one of the envelope.
    fn end_field(&mut self) {
        if self.list_end == Some(self.carry.offset()) {
            self.list_end = None;
        }
        self.state = State::Tag(Varint::default());
    }

    /// Stores a held field in the head.
    fn keep(&mut self, field: Field) -> Result<(), ProtobufError> {
        let (held, start) = (self.carry.held(), self.carry.start());
        match field {
            Field::TypeMeta => {
                let (api_version, kind) = envelope::type_meta(Reader::nested(held, start))?;
                (self.head.api_version, self.head.kind) = (api_version.to_owned(), kind.to_owned());
            }
            Field::ListMeta => self.head.read_meta(Reader::nested(held, start))?,
            Field::Content(number) => envelope::check_content(number, held, start)?,
            Field::List | Field::Item | Field::Other => {}
        }
        Ok(())
    }

    fn check_size(&self, field: Field, length: usize) -> Result<(), ProtobufError> {
        let (part, limit) = match field {
            Field::Item => ("an item", OBJECT_LIMIT),
            Field::TypeMeta | Field::Content(_) | Field::ListMeta => ("the head of a list", LIST_HEAD_LIMIT),
            // The list is split as it arrives, other fields are skipped: neither is held.
            Field::List | Field::Other => return Ok(()),
        };
        match length > limit {
            true => Err(self.error(ProtobufErrorKind::TooLarge { part, limit })),
            false => Ok(()),
        }
    }

    fn error(&self, kind: ProtobufErrorKind) -> ProtobufError {
        let offset = self.carry.offset();
        ProtobufError { offset, kind }
    }
}

impl Varint {
    fn push(&mut self, byte: u8) -> Result<(), ProtobufErrorKind> {
        // The tenth byte has only the 64th bit.
        if self.bits == 63 && byte > 1 {
            return Err(ProtobufErrorKind::VarintTooLong);
        }
        self.value |= u64::from(byte & 0x7f) << self.bits;
        self.bits += 7;
        Ok(())
    }
}

impl ListHead {
    fn read_meta(&mut self, mut reader: Reader<'_>) -> Result<(), ProtobufError> {
        while let Some((number, wire_type)) = reader.tag()? {
            match (number, wire_type) {
                (2, WireType::Bytes) => self.resource_version = ResourceVersion::new(reader.text(number)?),
                (3, WireType::Bytes) => self.continue_token = reader.text(number)?.to_owned(),
                (4, WireType::Varint) => self.remaining_item_count = Some(reader.varint()? as i64),
                (5, WireType::Bytes) => self.shard_selector = Some(shard_selector(reader.message()?)?),
                (2..=5, _) => return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number })),
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(())
    }
}

fn shard_selector(mut reader: Reader<'_>) -> Result<String, ProtobufError> {
    let mut selector = String::new();
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (1, WireType::Bytes) => selector = reader.text(number)?.to_owned(),
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(selector)
}

#[cfg(test)]
mod tests;
