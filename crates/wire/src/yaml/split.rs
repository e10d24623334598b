//! Splits a stream at its `---` lines into documents with their first lines.
//!
//! The split is by lines, before any parsing, so that a malformed document cannot swallow the next one.

use super::OBJECT_LIMIT;
use super::YamlErrorKind;

const SEPARATOR: &[u8] = b"---";
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The text between two separators, with its first line.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    rest: &'a [u8],
    line: usize,
}

/// A line, from 1, and its error.
type LineError = (usize, YamlErrorKind);

impl<'a> Chunks<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self {
            rest: without_mark(input),
            line: 1,
        }
    }

    /// Consumes the lines up to and including the next separator.
    fn take_chunk(&mut self) -> (&'a [u8], Result<(), LineError>) {
        let all = self.rest;
        let mut end = 0;
        while end < all.len() {
            let line = first_line(&all[end..]);
            self.line += 1;
            if let Some(trailer) = line.strip_prefix(SEPARATOR) {
                self.rest = &all[end + line.len()..];
                return (
                    &all[..end],
                    check_trailer(trailer).map_err(|kind| (self.line - 1, kind)),
                );
            }
            end += line.len();
        }
        self.rest = &[];
        (all, Ok(()))
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<(usize, &'a str), LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        let (chunk, separator) = self.take_chunk();
        if let Err(error) = separator {
            // After a bad separator, document boundaries cannot be trusted.
            self.rest = &[];
            return Some(Err(error));
        }
        Some(text(chunk, line).map(|text| (line, text)))
    }
}

/// The text of a document that starts at `line`.
pub(super) fn text(chunk: &[u8], line: usize) -> Result<&str, LineError> {
    let chunk = without_mark(chunk);
    if chunk.len() > OBJECT_LIMIT {
        return Err((line, YamlErrorKind::TooLarge));
    }
    std::str::from_utf8(chunk).map_err(|error| {
        let before = &chunk[..error.valid_up_to()];
        (
            line + memchr::memchr_iter(b'\n', before).count(),
            YamlErrorKind::Utf8,
        )
    })
}

fn without_mark(input: &[u8]) -> &[u8] {
    input.strip_prefix(BYTE_ORDER_MARK).unwrap_or(input)
}

/// Only blanks and a comment may follow the dashes.
fn check_trailer(trailer: &[u8]) -> Result<(), YamlErrorKind> {
    match trailer.trim_ascii() {
        [] | [b'#', ..] => Ok(()),
        text => Err(YamlErrorKind::Separator(
            String::from_utf8_lossy(text).into_owned(),
        )),
    }
}

/// The first line, with its line feed.
fn first_line(bytes: &[u8]) -> &[u8] {
    match memchr::memchr(b'\n', bytes) {
        Some(end) => &bytes[..=end],
        None => bytes,
    }
}
