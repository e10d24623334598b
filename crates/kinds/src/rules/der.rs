//! Reads DER, as far as certificates and requests for them need it.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Values one after the other in DER.
#[derive(Clone, Copy)]
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// The next value, which must have a tag.
    pub(crate) fn value(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, value) = self.next()?;
        (found == tag).then_some(value)
    }

    /// The next value if it has a tag; otherwise nothing is read.
    pub(crate) fn value_if(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let value = ahead.value(tag)?;
        *self = ahead;
        Some(value)
    }

    /// The next value with and without its tag and length.
    pub(crate) fn whole(&mut self, tag: u8) -> Option<(&'a [u8], &'a [u8])> {
        let before = self.0;
        let value = self.value(tag)?;
        Some((&before[..before.len() - self.0.len()], value))
    }

    /// The next value, which must be whole bytes in a bit string.
    pub(crate) fn bits(&mut self) -> Option<&'a [u8]> {
        self.value(BIT_STRING)?.strip_prefix(&[0])
    }

    /// The next value with its tag.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Four bytes of length are more than any body has.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }
}
