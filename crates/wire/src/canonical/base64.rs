//! Base64 with Go's leniency (line breaks are allowed) and Go's offset of the first error.

use ::base64::Engine as _;
use ::base64::alphabet::STANDARD as ALPHABET;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Padding is required; surplus bits in the last character are ignored, as in Go.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Decodes a text, or returns the offset of the first error.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    if let Ok(bytes) = ENGINE.decode(text) {
        return Ok(bytes);
    }
    let joined: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    ENGINE.decode(&joined).map_err(|_| broken_at(text.as_bytes()))
}

/// The offset at which Go's decoder gives up. It decodes four characters at a time.
fn broken_at(text: &[u8]) -> usize {
    let is_break = |byte: u8| matches!(byte, b'\r' | b'\n');
    let mut letters = 0;
    for (offset, &byte) in text.iter().enumerate() {
        match byte {
            byte if is_break(byte) => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => letters += 1,
            b'=' if letters % 4 >= 2 => return after_padding(text, offset, letters % 4),
            _ => return offset,
        }
    }
    // The text ends within a group of four.
    text.len() - letters % 4
}

/// The offset of the error in a text whose padding starts at `offset`, after `letters` characters of its group.
fn after_padding(text: &[u8], offset: usize, letters: usize) -> usize {
    let mut rest = (offset + 1..text.len()).filter(|at| !matches!(text[*at], b'\r' | b'\n'));
    if letters == 2 {
        match rest.next() {
            Some(at) if text[at] == b'=' => {}
            Some(at) => return at,
            None => return text.len(),
        }
    }
    rest.next().unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_or_their_break_is_named() {
        let check = |text: &str, expected: Result<&[u8], usize>| {
            assert_eq!(decode(text), expected.map(<[u8]>::to_vec), "{text:?}");
        };
        check("", Ok(b""));
        check("aGk=", Ok(b"hi"));
        check("aG\nk=\r\n", Ok(b"hi"));
        check("not base64!", Err(3));
        check("v", Err(0));
        check("aGk", Err(0));
        check("aGkhaG", Err(4));
        check("aGk=x", Err(4));
        check("aG=x", Err(3));
        check("=", Err(0));
    }
}
