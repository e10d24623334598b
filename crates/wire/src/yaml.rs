//! YAML as kubectl reads and prints it.
//!
//! Reading: bytes → documents split at `---` → events (`libyaml-safer`, a port of the same scanner as kubectl's own
//! library) → [`serde_json::Value`], by kubectl's rules of YAML 1.1:
//!
//! ```text
//! yes on y / no off n   booleans, also as keys: `n: 1` becomes "false": 1
//! 0644 0o17 0b11 0xf    420, 15, 3, 15
//! 1_000  08  1e3        1000, 8, 1000
//! 2001-01-01  12:30:45  stay text
//! <<: *base             merged in place: later keys win
//! a: 1, a: 2            the last one wins, and is reported; an error when strict
//! ```
//!
//! Writing: keys in natural order, list items not indented, long texts folded, and quotes around text that would be
//! read as another type.
//!
//! Comments and styles are not kept. Documents are read into memory; each is at most [`OBJECT_LIMIT`] long.

use serde_json::Value;

mod compose;
mod error;
mod float;
mod lines;
mod lookalike;
mod scalar;
mod split;
mod write;

#[cfg(test)]
mod tests;

pub use error::{YamlError, YamlErrorKind};
pub use lines::line_of;
pub use write::{documents_to_string, to_string};

use crate::limits::OBJECT_LIMIT;

/// The amount aliases may add to one document, in bytes of text, where a node counts as 32.
///
/// Nine lines of aliases to aliases can expand to a billion nodes; real manifests share a few labels.
pub const ALIAS_LIMIT: usize = 4 << 20;

/// The limit on `%TAG` lines of a document: the parser compares each with all before it.
pub const TAG_LIMIT: usize = 100;

/// The treatment of duplicate keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The last one wins; the document lists them.
    #[default]
    Lenient,
    /// The document is refused.
    Strict,
}

/// One document of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The index among the non-empty documents, from 0.
    pub index: usize,
    /// The first line, from 1.
    pub line: usize,
    /// The content.
    pub value: Value,
    /// Duplicate keys, by line. JSON documents are checked only in strict mode.
    pub duplicates: Vec<DuplicateKey>,
}

/// A duplicate key. Prints as the API server's warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: key {key} already set in map")]
pub struct DuplicateKey {
    /// The line of its second value within the document, from 1.
    pub line: usize,
    /// The key: quoted if it is text, bare if it is a number or a boolean.
    pub key: String,
}

/// The documents of a stream, without empty ones.
///
/// A malformed document does not end the iteration: the next one starts at the next `---`.
#[derive(Debug)]
pub struct Documents<'a> {
    chunks: split::Chunks<'a>,
    /// JSON allows several objects in a row; they are kept here.
    json: Option<JsonRun<'a>>,
    mode: Mode,
    next_index: usize,
}

/// Consecutive objects within one chunk.
#[derive(Debug)]
struct JsonRun<'a> {
    rest: &'a str,
    line: usize,
}

/// Reads every document of a stream, as `kubectl -f` does.
///
/// ```
/// use watchkeeper_wire::yaml::{self, Mode};
///
/// let input = b"kind: Pod\n---\n# nothing here\n---\n{\"kind\": \"Node\"}\n";
/// let kinds: Vec<_> = yaml::documents(input, Mode::Lenient)
///     .map(|document| document.map(|document| document.value["kind"].clone()))
///     .collect::<Result<_, _>>()?;
/// assert_eq!(kinds, ["Pod", "Node"]);
/// # Ok::<(), yaml::YamlError>(())
/// ```
pub fn documents(input: &[u8], mode: Mode) -> Documents<'_> {
    Documents {
        chunks: split::Chunks::new(input),
        json: None,
        mode,
        next_index: 0,
    }
}

/// Reads only the first document, as the API server does with a body. Empty input is `null`.
pub fn first_document(input: &[u8], mode: Mode) -> Result<Document, YamlError> {
    let text = split::text(input, 1).map_err(|(line, kind)| YamlError::new(0, line, kind))?;
    let found = compose::document(text, mode, compose::Rest::Ignored).map_err(|error| error.at(0, 1))?;
    let (value, duplicates) = found.unwrap_or_default();
    Ok(Document {
        index: 0,
        line: 1,
        value,
        duplicates,
    })
}

/// Deserializes into a type. Strict mode is about duplicate keys, not unknown fields.
pub fn from_slice<T: serde::de::DeserializeOwned>(input: &[u8], mode: Mode) -> Result<T, YamlError> {
    let document = first_document(input, mode)?;
    serde_json::from_value(document.value)
        .map_err(|error| YamlError::new(0, document.line, YamlErrorKind::Decode(error.to_string())))
}

impl Iterator for Documents<'_> {
    type Item = Result<Document, YamlError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.next_json() {
                return Some(document);
            }
            let (line, chunk) = match self.chunks.next()? {
                Ok(chunk) => chunk,
                Err((line, kind)) => return Some(Err(self.fail(line, kind))),
            };
            if chunk.trim_start().starts_with('{') && is_json(chunk) {
                self.json = Some(JsonRun { rest: chunk, line });
                continue;
            }
            match compose::document(chunk, self.mode, compose::Rest::Refused) {
                Ok(None | Some((Value::Null, _))) => {}
                Ok(Some((value, duplicates))) => return Some(Ok(self.found(line, value, duplicates))),
                Err(error) => return Some(Err(error.at(self.take_index(), line))),
            }
        }
    }
}

impl Documents<'_> {
    fn next_json(&mut self) -> Option<Result<Document, YamlError>> {
        let JsonRun { rest, line } = self.json.take()?;
        let start = rest.trim_start();
        let line = line + newlines(&rest[..rest.len() - start.len()]);
        let mut stream = serde_json::Deserializer::from_str(start).into_iter::<Value>();
        let value = stream.next()?.ok()?;
        let (read, rest) = start.split_at(stream.byte_offset());
        self.json = Some(JsonRun {
            rest,
            line: line + newlines(read),
        });
        if self.mode == Mode::Strict
            && let Err(error) = compose::document(read, self.mode, compose::Rest::Ignored)
            && error.is_about_duplicates()
        {
            return Some(Err(error.at(self.take_index(), line)));
        }
        Some(Ok(self.found(line, value, Vec::new())))
    }

    fn found(&mut self, line: usize, value: Value, duplicates: Vec<DuplicateKey>) -> Document {
        Document {
            index: self.take_index(),
            line,
            value,
            duplicates,
        }
    }

    fn fail(&mut self, line: usize, kind: YamlErrorKind) -> YamlError {
        YamlError::new(self.take_index(), line, kind)
    }

    fn take_index(&mut self) -> usize {
        self.next_index += 1;
        self.next_index - 1
    }
}

/// True if the whole chunk is JSON. If not, it may still be YAML's flow style, which looks alike.
fn is_json(chunk: &str) -> bool {
    let stream = serde_json::Deserializer::from_str(chunk);
    stream
        .into_iter::<serde::de::IgnoredAny>()
        .all(|value| value.is_ok())
}

fn newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}
