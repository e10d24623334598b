//! Finds the end of a string, sixteen bytes at a time; most strings are no longer.

use wide::u8x16;

const LANE: usize = 16;

/// The number of bytes before a quote, a backslash or a control character.
#[inline]
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    length_before(
        bytes,
        |lane| is_quote_or_backslash(lane) | lane.min(u8x16::splat(0x1f)).simd_eq(lane),
        |byte| matches!(byte, b'"' | b'\\' | 0..0x20),
    )
}

/// The number of bytes before a quote or a backslash.
#[inline]
pub(crate) fn unescaped_length(bytes: &[u8]) -> usize {
    length_before(bytes, is_quote_or_backslash, |byte| matches!(byte, b'"' | b'\\'))
}

#[inline(always)]
fn is_quote_or_backslash(lane: u8x16) -> u8x16 {
    lane.simd_eq(u8x16::splat(b'"')) | lane.simd_eq(u8x16::splat(b'\\'))
}

/// The number of bytes before a match; `in_lane` tests sixteen bytes, `alone` one.
#[inline(always)]
fn length_before(bytes: &[u8], in_lane: impl Fn(u8x16) -> u8x16, alone: impl Fn(u8) -> bool) -> usize {
    let mut length = 0;
    while let Some(lane) = bytes.get(length..).and_then(|rest| rest.first_chunk()) {
        match in_lane(u8x16::new(*lane)).to_bitmask().trailing_zeros() as usize {
            at @ 0..LANE => return length + at,
            _ => length += LANE,
        }
    }
    let tail = bytes.get(length..).unwrap_or_default();
    let end = tail.iter().position(|byte| alone(*byte));
    length + end.unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_obvious_loop_agrees(text in "[a-zé ]{0,40}[\"\\\\\u{0}\u{1f}\u{7f}a-z ]{0,4}[\"\\\\ a-z]{0,30}") {
            let bytes = text.as_bytes();
            let before = |end: &dyn Fn(&u8) -> bool| bytes.iter().position(end).unwrap_or(bytes.len());
            prop_assert_eq!(plain_length(bytes), before(&|byte| matches!(byte, b'"' | b'\\' | 0..0x20)));
            prop_assert_eq!(unescaped_length(bytes), before(&|byte| matches!(byte, b'"' | b'\\')));
        }
    }
}
