//! A list body in chunks of any size in, its items out as slices, undecoded.
//!
//! ```text
//! k8s\0  Unknown { 1: TypeMeta, 2: raw = PodList { 1: ListMeta, 2: item, 2: item, … }, 3, 4 }
//! ```
//!
//! Lengths are known in advance, so nothing is searched: the splitter reads a tag and a length and hands out what
//! follows. An item that lies within one chunk is a slice of that chunk; one that straddles chunks is put together
//! once in a buffer that is used again.

use watchkeeper_meta::ResourceVersion;

use super::envelope::{self, MAGIC};
use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType};
use crate::limits::{LIST_HEAD_LIMIT, OBJECT_LIMIT};
use crate::list::ListHead;

/// Fields of a list.
const LIST_META: u32 = 1;
const ITEMS: u32 = 2;

/// Cuts the items out of a protobuf list.
///
/// It is used as its JSON sister is: call [`next`](Self::next) until a chunk is used up, then bring the next chunk,
/// and [`finish`](Self::finish) at the end.
#[derive(Debug, Default)]
pub struct ListSplitter {
    head: ListHead,
    state: State,
    /// Bytes of the body that have been consumed.
    offset: usize,
    /// Where the list's message ends; `None` outside of it, in the envelope.
    list_end: Option<usize>,
    list_seen: bool,
    /// The part of a field that earlier chunks brought.
    held: Vec<u8>,
    /// The last item was yielded from `held`, which the next call may empty.
    held_is_yielded: bool,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The first four bytes.
    #[default]
    Magic,
    /// A field's number and layout.
    Tag(Varint),
    /// A number that is passed over.
    Number(Varint),
    /// The length of a field.
    Length(Field, Varint),
    /// Bytes of a field of which so many are still to come.
    Bytes(Field, usize),
}

/// A varint of which a part has been read.
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

/// A finished item.
enum Cut<'c> {
    InChunk(&'c [u8]),
    Held,
}

impl ListSplitter {
    /// What the list has said about itself so far; all of it after [`finish`](Self::finish).
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// The next item; `None` when the chunk is used up. Consumed bytes are taken off the front of `chunk`.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, ProtobufError> {
        if std::mem::take(&mut self.held_is_yielded) {
            self.held.clear();
        }
        while !chunk.is_empty() {
            match self.step(chunk)? {
                Some(Cut::InChunk(item)) => return Ok(Some(item)),
                Some(Cut::Held) => {
                    self.held_is_yielded = true;
                    return Ok(Some(&self.held));
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// An error unless the list has ended.
    pub fn finish(&self) -> Result<(), ProtobufError> {
        match self.state {
            State::Tag(Varint { bits: 0, .. }) if self.list_end.is_none() => Ok(()),
            _ => Err(self.error(ProtobufErrorKind::Truncated)),
        }
    }

    /// Consumes at least one byte: one number, or as much of a field as the chunk has.
    fn step<'c>(&mut self, chunk: &mut &'c [u8]) -> Result<Option<Cut<'c>>, ProtobufError> {
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
        if chunk[0] != MAGIC[self.offset] {
            return Err(envelope::no_magic(0));
        }
        self.take(chunk, 1);
        if self.offset == MAGIC.len() {
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
            if self.list_end == Some(self.offset) {
                return Err(self.error(ProtobufErrorKind::Truncated));
            }
            varint.push(byte).map_err(|kind| self.error(kind))?;
            self.take(chunk, 1);
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
    ) -> Result<Option<Cut<'c>>, ProtobufError> {
        let length = self.check_room(length)?;
        self.check_size(field, length)?;
        if field == Field::List {
            self.begin_list(length)?;
            return Ok(None);
        }
        self.bytes(chunk, field, length)
    }

    /// A field must end within the list it stands in.
    fn check_room(&self, length: u64) -> Result<usize, ProtobufError> {
        let room = self.list_end.unwrap_or(usize::MAX) - self.offset;
        match usize::try_from(length) {
            Ok(length) if length <= room => Ok(length),
            _ => Err(self.error(ProtobufErrorKind::Truncated)),
        }
    }

    fn begin_list(&mut self, length: usize) -> Result<(), ProtobufError> {
        if std::mem::replace(&mut self.list_seen, true) {
            return Err(self.error(ProtobufErrorKind::Other(
                "the list stands twice in its envelope".to_owned(),
            )));
        }
        self.list_end = Some(self.offset + length);
        self.end_field();
        Ok(())
    }

    fn bytes<'c>(
        &mut self,
        chunk: &mut &'c [u8],
        field: Field,
        left: usize,
    ) -> Result<Option<Cut<'c>>, ProtobufError> {
        let part = self.take(chunk, left.min(chunk.len()));
        if part.len() < left {
            if field != Field::Other {
                self.held.extend_from_slice(part);
            }
            self.state = State::Bytes(field, left - part.len());
            return Ok(None);
        }
        self.end_field();
        if field == Field::Item && self.held.is_empty() {
            return Ok(Some(Cut::InChunk(part)));
        }
        if field != Field::Other {
            self.held.extend_from_slice(part);
        }
        match field {
            Field::Item => return Ok(Some(Cut::Held)),
            _ => self.keep(field)?,
        }
        self.held.clear();
        Ok(None)
    }

    /// The next byte begins a field; behind the list's last byte, one of the envelope.
    fn end_field(&mut self) {
        if self.list_end == Some(self.offset) {
            self.list_end = None;
        }
        self.state = State::Tag(Varint::default());
    }

    /// Notes a field of the head, which lies in `held`.
    fn keep(&mut self, field: Field) -> Result<(), ProtobufError> {
        let base = self.offset - self.held.len();
        match field {
            Field::TypeMeta => {
                let (api_version, kind) = envelope::type_meta(Reader::nested(&self.held, base))?;
                (self.head.api_version, self.head.kind) = (api_version.to_owned(), kind.to_owned());
            }
            Field::ListMeta => self.head.read_meta(Reader::nested(&self.held, base))?,
            Field::Content(number) => envelope::check_content(number, &self.held, base)?,
            Field::List | Field::Item | Field::Other => {}
        }
        Ok(())
    }

    fn check_size(&self, field: Field, length: usize) -> Result<(), ProtobufError> {
        let (part, limit) = match field {
            Field::Item => ("an item", OBJECT_LIMIT),
            Field::TypeMeta | Field::Content(_) | Field::ListMeta => ("the head of a list", LIST_HEAD_LIMIT),
            // The first is cut into items as it comes, the second is passed over: neither is held.
            Field::List | Field::Other => return Ok(()),
        };
        match length > limit {
            true => Err(self.error(ProtobufErrorKind::TooLarge { part, limit })),
            false => Ok(()),
        }
    }

    fn take<'c>(&mut self, chunk: &mut &'c [u8], length: usize) -> &'c [u8] {
        let (part, rest) = chunk.split_at(length);
        *chunk = rest;
        self.offset += length;
        part
    }

    fn error(&self, kind: ProtobufErrorKind) -> ProtobufError {
        let offset = self.offset;
        ProtobufError { offset, kind }
    }
}

impl Varint {
    fn push(&mut self, byte: u8) -> Result<(), ProtobufErrorKind> {
        // The tenth byte holds the 64th bit alone.
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
                (2..=4, _) => return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number })),
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::super::primitive::put_bytes;
    use super::*;
    use crate::protobuf::Envelope;

    type Split = (ListHead, Vec<Vec<u8>>);

    fn split(body: &[u8], size: usize) -> Result<Split, ProtobufError> {
        let mut splitter = ListSplitter::default();
        let mut items = Vec::new();
        for mut chunk in body.chunks(size) {
            while let Some(item) = splitter.next(&mut chunk)? {
                items.push(item.to_vec());
            }
        }
        splitter.finish()?;
        Ok((splitter.head, items))
    }

    fn join(items: &[Vec<u8>]) -> Vec<u8> {
        let mut raw = Vec::new();
        put_bytes(&mut raw, LIST_META, b"\x0a\x00\x12\x017\x1a\x03abc\x20\x03");
        for item in items {
            put_bytes(&mut raw, ITEMS, item);
        }
        enveloped(&raw)
    }

    fn enveloped(raw: &[u8]) -> Vec<u8> {
        let (mut body, api_version, kind) = (Vec::new(), "v1", "PodList");
        Envelope {
            api_version,
            kind,
            raw,
        }
        .write(&mut body);
        body
    }

    #[test]
    fn items_and_head_are_found_in_chunks_of_any_size() {
        let items = [vec![], vec![7; 300], b"abc".to_vec(), vec![]];
        let body = join(&items);
        for size in 1..=body.len() {
            let (head, found) = split(&body, size).unwrap();
            assert_eq!(found, items, "in {size}s");
            assert_eq!((&*head.api_version, head.item_kind()), ("v1", Some("Pod")));
            assert_eq!(head.resource_version.as_str(), "7");
            assert_eq!(
                (&*head.continue_token, head.remaining_item_count),
                ("abc", Some(3))
            );
        }
        assert_eq!(split(&enveloped(b""), 1).unwrap().1.len(), 0);
    }

    #[test]
    fn bad_lists_are_named_with_their_offset() {
        fn check(body: &[u8], expect: Expect) {
            let whole = split(body, body.len().max(1)).unwrap_err();
            expect.assert_eq(&whole.to_string());
            assert_eq!(split(body, 1).unwrap_err(), whole, "in single bytes");
        }
        check(b"", expect!["invalid protobuf at byte 0: truncated"]);
        check(
            br#"{"kind":"#,
            expect![[
                r"invalid protobuf at byte 0: not a Kubernetes protobuf body: it does not begin with k8s\0"
            ]],
        );
        check(
            b"k8s\0\x12\x04\x12\x09ab",
            expect!["invalid protobuf at byte 8: truncated"],
        );
        check(
            b"k8s\0\x12\x04\x12\x02a",
            expect!["invalid protobuf at byte 9: truncated"],
        );
        check(
            b"k8s\0\x12\x01\x82\x01",
            expect!["invalid protobuf at byte 7: truncated"],
        );
        check(
            b"k8s\0\x12\x05\x19aaaaaaaa\x12\x01a",
            expect!["invalid protobuf at byte 7: truncated"],
        );
        check(
            b"k8s\0\x12\x02\x10\x01",
            expect!["invalid protobuf at byte 7: field 2 has the wrong wire type"],
        );
        check(
            b"k8s\0\x12\x02\x13\x01",
            expect!["invalid protobuf at byte 7: wire type 3 is not supported"],
        );
        check(
            b"k8s\0\x00",
            expect!["invalid protobuf at byte 5: field number 0 is not allowed"],
        );
        check(
            b"k8s\0\x12\x7f\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            expect!["invalid protobuf at byte 16: varint too long"],
        );
        check(
            b"k8s\0\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xff\x7f",
            expect!["invalid protobuf at byte 15: an item is larger than 33554432 bytes"],
        );
        check(
            b"k8s\0\x12\x00\x12\x00",
            expect!["invalid protobuf at byte 8: the list stands twice in its envelope"],
        );
        check(
            b"k8s\0\x1a\x04gzip",
            expect![[r#"invalid protobuf at byte 6: content encoding "gzip" is not supported"#]],
        );
        check(
            b"k8s\0\x0a\x03\x12\x01\xff",
            expect!["invalid protobuf at byte 8: invalid UTF-8 in field 2"],
        );
    }

    proptest! {
        #[test]
        fn split_and_join_is_the_identity(
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            size in 1usize..300,
        ) {
            prop_assert_eq!(split(&join(&items), size).unwrap().1, items);
        }

        #[test]
        fn any_bytes_end_in_items_or_an_error(tail in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..20) {
            let body = [&MAGIC[..], &tail].concat();
            prop_assert_eq!(split(&body, size), split(&body, body.len()));
        }
    }
}
