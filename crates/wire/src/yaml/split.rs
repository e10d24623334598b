//! A stream cut at its `---` lines: bytes in, the text of each document and its first line out.
//!
//! The cut is made by lines, before anything is parsed, so that a broken document cannot swallow the next one.

use super::OBJECT_LIMIT;
use super::YamlErrorKind;

const SEPARATOR: &[u8] = b"---";
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What stands between two separators, with the line it starts at.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    rest: &'a [u8],
    line: usize,
}

/// A line, from 1, and what is wrong with it.
type Fault = (usize, YamlErrorKind);

impl<'a> Chunks<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self {
            rest: without_mark(input),
            line: 1,
        }
    }

    /// The lines up to the next separator, which is passed over.
    fn take_chunk(&mut self) -> (&'a [u8], Result<(), Fault>) {
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
    type Item = Result<(usize, &'a str), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        let (chunk, separator) = self.take_chunk();
        if let Err(fault) = separator {
            // Where documents cannot be told apart, none can be trusted.
            self.rest = &[];
            return Some(Err(fault));
        }
        Some(text(chunk, line).map(|text| (line, text)))
    }
}

/// The text of a document that starts at `line`.
pub(super) fn text(chunk: &[u8], line: usize) -> Result<&str, Fault> {
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

/// Up to and with its line feed.
fn first_line(bytes: &[u8]) -> &[u8] {
    match memchr::memchr(b'\n', bytes) {
        Some(end) => &bytes[..=end],
        None => bytes,
    }
}
