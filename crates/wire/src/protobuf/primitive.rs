//! Tags, varints and length-delimited bytes: all that Kubernetes' protobuf subset consists of.
//!
//! [`Reader`] walks one message. It never allocates and never reads beyond its slice. Every error names the byte
//! offset from the start of the outermost slice, so that a bad field can be found in a dump.

use crate::utf8;

/// The longest varint: ten groups of seven bits hold 64.
const VARINT_BYTES: usize = 10;

/// The wire type of a field. Groups are obsolete, and Kubernetes has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// A number in groups of seven bits.
    Varint,
    /// Eight bytes, little endian.
    Fixed64,
    /// A length and that many bytes.
    Bytes,
    /// Four bytes, little endian.
    Fixed32,
}

impl WireType {
    /// The code in the low three bits of a tag.
    #[inline]
    pub(crate) const fn code(self) -> u32 {
        match self {
            WireType::Varint => 0,
            WireType::Fixed64 => 1,
            WireType::Bytes => 2,
            WireType::Fixed32 => 5,
        }
    }
}

/// A message that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid protobuf at byte {offset}: {kind}")]
pub struct ProtobufError {
    /// The offset, from the start of the outermost slice.
    pub offset: usize,
    /// The kind of error.
    pub kind: ProtobufErrorKind,
}

/// The kinds of error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufErrorKind {
    /// The slice ends within a value.
    #[error("truncated")]
    Truncated,
    /// A varint has more than 64 bits.
    #[error("varint too long")]
    VarintTooLong,
    /// Field number 0, or one beyond 2^29-1.
    #[error("field number {0} is not allowed")]
    FieldNumber(u64),
    /// A group, or one of the two unassigned wire types.
    #[error("wire type {0} is not supported")]
    WireType(u8),
    /// A known field with another wire type than its schema's.
    #[error("field {number} has the wrong wire type")]
    UnexpectedWireType {
        /// The field's number.
        number: u32,
    },
    /// Text that is not UTF-8.
    #[error("invalid UTF-8 in field {number}")]
    Utf8 {
        /// The field's number.
        number: u32,
    },
    /// A field after one with a higher number, or a singular field twice.
    #[error("field {number} is out of order")]
    OutOfOrder {
        /// The field's number.
        number: u32,
    },
    /// Messages nested deeper than allowed.
    #[error("nested deeper than {limit} messages")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A part larger than its limit.
    #[error("{part} is larger than {limit} bytes")]
    TooLarge {
        /// The part.
        part: &'static str,
        /// The limit.
        limit: usize,
    },
    /// An error a higher layer finds in a well-formed message.
    #[error("{0}")]
    Other(String),
}

/// Reads the fields of one message in order.
///
/// Its methods are inlined and pass on no reference to the reader, so a reader on the stack stays in registers. In
/// memory it would be written word by word and copied as a whole, on which processors stall.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of the end of `rest` within the outermost slice, for error messages.
    end: usize,
}

impl<'a> Reader<'a> {
    /// Reads the outermost message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::nested(bytes, 0)
    }

    /// Reads a message that starts `base` bytes into the outermost slice.
    #[inline]
    pub fn nested(bytes: &'a [u8], base: usize) -> Self {
        Self {
            rest: bytes,
            end: base + bytes.len(),
        }
    }

    /// True if every field has been read.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Offset of the next byte within the outermost slice.
    #[inline(always)]
    pub fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// The unread bytes.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// An error at the next byte.
    #[inline(always)]
    pub fn error(&self, kind: ProtobufErrorKind) -> ProtobufError {
        ProtobufError {
            offset: self.offset(),
            kind,
        }
    }

    /// The next field's number and wire type; `None` at the end of the message.
    #[inline]
    pub fn tag(&mut self) -> Result<Option<(u32, WireType)>, ProtobufError> {
        if self.is_empty() {
            return Ok(None);
        }
        let start = self.offset();
        let tag = self.varint()?;
        let fail = |kind| ProtobufError { offset: start, kind };
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(fail(ProtobufErrorKind::FieldNumber(number)));
        }
        let wire_type = match (tag & 7) as u8 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Bytes,
            5 => WireType::Fixed32,
            other => return Err(fail(ProtobufErrorKind::WireType(other))),
        };
        Ok(Some((number as u32, wire_type)))
    }

    /// A varint.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, ProtobufError> {
        // Tags, lengths and most numbers fit one byte, nearly all others two.
        match *self.rest {
            [byte, ref rest @ ..] if byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.rest = rest;
                Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => match long_varint(self.rest) {
                Ok((value, rest)) => {
                    self.rest = rest;
                    Ok(value)
                }
                Err(problem) => Err(self.error(problem.into())),
            },
        }
    }

    /// A varint of one or two bytes; `None` if it is longer or truncated.
    #[inline(always)]
    pub(super) fn short_varint(&mut self) -> Option<u32> {
        match *self.rest {
            [byte, ref rest @ ..] if byte < 0x80 => {
                self.rest = rest;
                Some(u32::from(byte))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.rest = rest;
                Some(u32::from(low & 0x7f) | u32::from(high) << 7)
            }
            _ => None,
        }
    }

    /// A complete length-delimited run shorter than 16 KiB; `None` otherwise.
    #[inline(always)]
    pub(super) fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.short_varint()?;
        let (bytes, rest) = self.rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Consumes one byte if it is the expected one.
    #[inline(always)]
    pub(super) fn skip_byte(&mut self, expected: u8) -> bool {
        match *self.rest {
            [byte, ref rest @ ..] if byte == expected => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Moves to the position of another reader of the same message.
    #[inline(always)]
    pub(super) fn go_to(&mut self, other: &Self) {
        self.rest = other.rest;
    }

    /// Consumes a value that is the number 0, or has the length 0.
    #[inline(always)]
    pub(super) fn skip_zero(&mut self) -> bool {
        match *self.rest {
            [0, ref rest @ ..] => {
                self.rest = rest;
                true
            }
            // A zero may be encoded in more bytes than necessary, though no writer does so.
            [0x80, ..] => match long_varint(self.rest) {
                Ok((0, rest)) => {
                    self.rest = rest;
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// A length-delimited run of bytes.
    #[inline(always)]
    pub fn bytes(&mut self) -> Result<&'a [u8], ProtobufError> {
        let before = self.rest;
        let length = self.varint()?;
        match self
            .rest
            .split_at_checked(usize::try_from(length).unwrap_or(usize::MAX))
        {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => {
                self.rest = before;
                Err(self.error(ProtobufErrorKind::Truncated))
            }
        }
    }

    /// A length-delimited text; `number` is for the error message.
    #[inline(always)]
    pub fn text(&mut self, number: u32) -> Result<&'a str, ProtobufError> {
        let bytes = self.bytes()?;
        utf8::check(bytes).map_err(|error| ProtobufError {
            offset: self.offset() - bytes.len() + error.valid_up_to(),
            kind: ProtobufErrorKind::Utf8 { number },
        })
    }

    /// A length-delimited message, ready to be read.
    #[inline(always)]
    pub fn message(&mut self) -> Result<Reader<'a>, ProtobufError> {
        let bytes = self.bytes()?;
        Ok(Reader::nested(bytes, self.offset() - bytes.len()))
    }

    /// Eight bytes, little endian.
    pub fn fixed64(&mut self) -> Result<u64, ProtobufError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Four bytes, little endian.
    pub fn fixed32(&mut self) -> Result<u32, ProtobufError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Skips a value of the given wire type.
    #[inline]
    pub fn skip(&mut self, wire_type: WireType) -> Result<(), ProtobufError> {
        match wire_type {
            WireType::Varint => self.varint().map(drop),
            WireType::Fixed64 => self.fixed64().map(drop),
            WireType::Bytes => self.bytes().map(drop),
            WireType::Fixed32 => self.fixed32().map(drop),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        match self.rest.split_first_chunk() {
            Some((chunk, rest)) => {
                self.rest = rest;
                Ok(*chunk)
            }
            None => Err(self.error(ProtobufErrorKind::Truncated)),
        }
    }
}

/// The reason a varint cannot be read; small enough for a register.
#[derive(Clone, Copy)]
enum VarintProblem {
    Truncated,
    TooLong,
}

impl From<VarintProblem> for ProtobufErrorKind {
    fn from(problem: VarintProblem) -> Self {
        match problem {
            VarintProblem::Truncated => Self::Truncated,
            VarintProblem::TooLong => Self::VarintTooLong,
        }
    }
}

/// A varint of any length, and the bytes after it. Out of line, so that the short case can be inlined everywhere.
#[inline(never)]
fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), VarintProblem> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES).enumerate() {
        // The tenth byte has only the 64th bit.
        if index == VARINT_BYTES - 1 && byte > 1 {
            return Err(VarintProblem::TooLong);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((value, &bytes[index + 1..]));
        }
    }
    Err(match bytes.len() < VARINT_BYTES {
        true => VarintProblem::Truncated,
        false => VarintProblem::TooLong,
    })
}

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a tag.
#[inline]
pub fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: WireType) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire_type.code()));
}

/// Appends a length-delimited field.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, WireType::Bytes);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The length of a field with `length` bytes of content and a one-byte tag (numbers up to 15).
#[inline]
pub fn field_len(length: usize) -> usize {
    1 + varint_len(length as u64) + length
}

/// The number of bytes of a varint.
#[inline]
pub fn varint_len(value: u64) -> usize {
    // ceil(significant bits / 7), at least 1.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            let mut reader = Reader::new(&out);
            assert_eq!(reader.varint().unwrap(), value);
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn bad_input_is_named_with_its_offset() {
        let check = |bytes: &[u8], text: &str| {
            let mut reader = Reader::new(bytes);
            let error = loop {
                match reader
                    .tag()
                    .and_then(|tag| tag.map(|(_, kind)| reader.skip(kind)).transpose())
                {
                    Ok(None) => panic!("{bytes:?} was read"),
                    Ok(Some(())) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(error.to_string(), text);
        };
        check(&[0x0a, 5, b'a'], "invalid protobuf at byte 1: truncated");
        check(&[0x08, 1, 0x08, 0x80], "invalid protobuf at byte 3: truncated");
        check(
            &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
            "invalid protobuf at byte 1: varint too long",
        );
        check(
            &[0x00],
            "invalid protobuf at byte 0: field number 0 is not allowed",
        );
        check(
            &[0x0b],
            "invalid protobuf at byte 0: wire type 3 is not supported",
        );
        check(&[0x0d, 1, 2, 3], "invalid protobuf at byte 1: truncated");
    }
}
