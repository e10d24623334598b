//! A fast UTF-8 check for short texts.
//!
//! Nearly all texts of an object are short ASCII. The standard library's check is made for long texts: it goes byte
//! by byte up to an aligned address and through the last bytes. For a name of twenty bytes that is four times the
//! instructions of testing three words, and 6 % of the typed decode of a pod.

use std::str::Utf8Error;

/// The bytes as text.
#[inline]
pub(crate) fn check(bytes: &[u8]) -> Result<&str, Utf8Error> {
    match is_ascii(bytes) {
        // SAFETY: ASCII is UTF-8.
        #[allow(unsafe_code)]
        true => Ok(unsafe { std::str::from_utf8_unchecked(bytes) }),
        false => std::str::from_utf8(bytes),
    }
}

/// True if no byte has its highest bit set. The last word may overlap the one before.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks();
    let all = words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
    let last = match bytes.last_chunk() {
        Some(word) => u64::from_ne_bytes(*word),
        None => u64::from(rest.iter().fold(0, |all, byte| all | byte)),
    };
    (all | last) & HIGHEST_BITS == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_standard_library_agrees(text in "[ -~]{0,40}[ -~\u{80}-\u{10ffff}]{0,4}[ -~]{0,40}") {
            prop_assert_eq!(check(text.as_bytes()), Ok(&*text));
        }

        #[test]
        fn the_standard_library_agrees_on_any_bytes(bytes in proptest::collection::vec(0u8.., 0..40)) {
            prop_assert_eq!(check(&bytes), std::str::from_utf8(&bytes));
        }
    }

    #[test]
    fn one_high_bit_is_seen_wherever_it_is() {
        for length in 0..40 {
            let mut bytes = vec![b'a'; length];
            assert!(is_ascii(&bytes), "{length}");
            for at in 0..length {
                bytes[at] = 0xff;
                assert!(!is_ascii(&bytes) && check(&bytes).is_err(), "{at} of {length}");
                bytes[at] = b'a';
            }
        }
    }
}
