//! Finds the bracket that closes a value, 64 bytes at a time.
//!
//! Bit masks mark the quotes and the opening and closing brackets of a block. Escaped quotes are removed; a running
//! XOR over the remaining quotes marks the bytes inside strings; brackets there do not count.
//!
//! ```text
//! block    {"a":"}","b":[1]}
//! quotes   .x.x.x.x.x.x.....
//! strings  .xx..xx..xx......      from each opening quote to its closing one
//! closing  ...............xx      without the } inside the string
//! ```
//!
//! A block whose closing brackets cannot bring the depth to zero is not examined further; that is nearly every block.
//! The masks come from vector instructions that every 64-bit processor has, through the `wide` crate: about 4 GB/s,
//! where plain integers reach 1.6 GB/s.

use wide::u8x16;

use super::error::{JsonError, JsonErrorKind};
use crate::limits::NESTING_LIMIT;

const BLOCK: usize = 64;

/// The nesting state of the scan within a value. It is kept across chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nesting {
    depth: u32,
    limit: u32,
    in_string: bool,
    /// The last byte was a backslash that escapes the next one.
    escaped: bool,
}

impl Default for Nesting {
    fn default() -> Self {
        Self::within(0)
    }
}

/// The quotes and brackets of a block: bit n is byte n.
#[derive(Default)]
struct Masks {
    quote: u64,
    open: u64,
    close: u64,
}

/// The brackets of a block outside strings.
struct Brackets {
    open: u64,
    close: u64,
}

impl Nesting {
    /// Before a value nested `levels` deep; its own limit is that much lower.
    pub(crate) fn within(levels: u32) -> Self {
        Self {
            depth: 0,
            limit: NESTING_LIMIT - levels,
            in_string: false,
            escaped: false,
        }
    }

    /// Continues at the start of `bytes` and returns the length up to and including the bracket that closes the
    /// value; `None` if the value is still open at the end. The very first byte must be an opening bracket.
    ///
    /// Too deep nesting is an error at its offset within `bytes`.
    pub(crate) fn close(&mut self, bytes: &[u8]) -> Result<Option<usize>, JsonError> {
        let (blocks, tail) = bytes.as_chunks::<BLOCK>();
        for (index, block) in blocks.iter().enumerate() {
            if let Some(brackets) = self.block(block, BLOCK)
                && let Some(end) = self.walk(brackets, index * BLOCK)?
            {
                return Ok(Some(end));
            }
        }
        if tail.is_empty() {
            return Ok(None);
        }
        // Padding with spaces changes neither depth nor string state.
        let mut block = [b' '; BLOCK];
        block[..tail.len()].copy_from_slice(tail);
        match self.block(&block, tail.len()) {
            Some(brackets) => self.walk(brackets, blocks.len() * BLOCK),
            None => Ok(None),
        }
    }

    /// Scans the first `length` bytes of a block; returns its brackets if the value may end, or the limit be
    /// exceeded, here.
    #[inline(always)]
    fn block(&mut self, block: &[u8; BLOCK], length: usize) -> Option<Brackets> {
        let masks = Masks::of(block);
        let escaped = match self.escaped || has_backslash(block) {
            true => self.escaped_bytes(backslashes(block), length),
            false => 0,
        };
        let strings = self.string_bytes(masks.quote & !escaped);
        let (open, close) = (masks.open & !strings, masks.close & !strings);
        let (opened, closed) = (open.count_ones(), close.count_ones());
        if closed < self.depth && self.depth + opened <= self.limit {
            self.depth = self.depth + opened - closed;
            return None;
        }
        Some(Brackets { open, close })
    }

    /// The bytes escaped by a backslash before them.
    #[inline(never)]
    fn escaped_bytes(&mut self, backslash: u64, length: usize) -> u64 {
        let mut escaped = u64::from(self.escaped);
        let mut carried = false;
        let mut rest = backslash & !escaped;
        while rest != 0 {
            let first = rest & rest.wrapping_neg();
            escaped |= first << 1;
            carried |= first >> (BLOCK - 1) != 0;
            rest &= !(first | first << 1);
        }
        self.escaped = match length {
            BLOCK => carried,
            _ => escaped >> length & 1 != 0,
        };
        escaped
    }

    /// The bytes from each opening quote up to, but excluding, its closing one.
    #[inline]
    fn string_bytes(&mut self, quotes: u64) -> u64 {
        let mut strings = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            strings ^= strings << shift;
        }
        if self.in_string {
            strings = !strings;
        }
        self.in_string = strings >> (BLOCK - 1) != 0;
        strings
    }

    /// Counts bracket by bracket, because the value may end, or the limit be exceeded, in this block.
    #[inline(never)]
    fn walk(&mut self, Brackets { open, close }: Brackets, base: usize) -> Result<Option<usize>, JsonError> {
        let mut rest = open | close;
        while rest != 0 {
            let at = rest.trailing_zeros();
            rest &= rest - 1;
            if open >> at & 1 == 1 {
                self.depth += 1;
                if self.depth > self.limit {
                    let limit = NESTING_LIMIT;
                    return Err(JsonErrorKind::TooDeep { limit }.at(base + at as usize));
                }
            } else {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Ok(Some(base + at as usize + 1));
                }
            }
        }
        Ok(None)
    }
}

impl Masks {
    #[inline(always)]
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut masks = Self::default();
        for (index, lane) in lanes(block).enumerate() {
            // `[` and `{`, `]` and `}` differ only in this bit.
            let folded = lane | u8x16::splat(0x20);
            masks.quote |= equal(lane, b'"') << (16 * index);
            masks.open |= equal(folded, b'{') << (16 * index);
            masks.close |= equal(folded, b'}') << (16 * index);
        }
        masks
    }
}

/// True if the block has a backslash; most have none.
#[inline(always)]
fn has_backslash(block: &[u8; BLOCK]) -> bool {
    let found = lanes(block).map(|lane| lane.simd_eq(u8x16::splat(b'\\')));
    found.fold(u8x16::ZERO, |any, lane| any | lane).to_bitmask() != 0
}

fn backslashes(block: &[u8; BLOCK]) -> u64 {
    let found = lanes(block).enumerate();
    found.fold(0, |mask, (index, lane)| mask | equal(lane, b'\\') << (16 * index))
}

#[inline(always)]
fn lanes(block: &[u8; BLOCK]) -> impl Iterator<Item = u8x16> {
    block.as_chunks().0.iter().map(|lane| u8x16::new(*lane))
}

#[inline(always)]
fn equal(lane: u8x16, byte: u8) -> u64 {
    lane.simd_eq(u8x16::splat(byte)).to_bitmask().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The straightforward loop, for comparison.
    fn close_slowly(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            let was_escaped = std::mem::take(&mut escaped);
            match byte {
                b'\\' => escaped = !was_escaped,
                b'"' if !was_escaped => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn close_in_chunks(bytes: &[u8], size: usize) -> Option<usize> {
        let mut nesting = Nesting::default();
        for (index, chunk) in bytes.chunks(size).enumerate() {
            if let Some(end) = nesting.close(chunk).unwrap() {
                return Some(index * size + end);
            }
        }
        None
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        for text in [
            r#"{}x"#,
            r#"{"a":"}"}"#,
            r#"{"a":"\"}","b":[1,{"c":"\\"}]} ]"#,
            r#"["\\\\\"]"]"#,
            r#"{"open":["#,
            r#"{"a":"ends in a backslash \"#,
        ] {
            let expected = close_slowly(text.as_bytes());
            for size in 1..=text.len() {
                assert_eq!(
                    close_in_chunks(text.as_bytes(), size),
                    expected,
                    "{text} in {size}s"
                );
            }
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let deep = "[".repeat(NESTING_LIMIT as usize + 1);
        let error = Nesting::default().close(deep.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid JSON at byte 127: nested deeper than 127 levels"
        );
        let fits = [&deep[1..], &"]".repeat(NESTING_LIMIT as usize)].concat();
        assert_eq!(
            Nesting::default().close(fits.as_bytes()).unwrap(),
            Some(fits.len())
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_scanned_as_by_the_obvious_loop(text in r#"\{[{}\[\]"\\a é]{0,300}"#, size in 1usize..200) {
            proptest::prop_assume!(text.bytes().filter(|byte| b"{[".contains(byte)).count() < 120);
            proptest::prop_assert_eq!(close_in_chunks(text.as_bytes(), size), close_slowly(text.as_bytes()));
        }
    }
}
