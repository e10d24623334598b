//! A JSON watch stream: one event per line.

use std::borrow::Cow;

use memchr::memchr;

use super::error::{JsonError, JsonErrorKind, expected};
use super::reader::Reader;
use crate::carry::Carry;
use crate::limits::EVENT_LIMIT;

/// Cuts a body into lines; takes chunks of any size.
///
/// A line within one chunk is a slice of that chunk. Blank lines are skipped.
#[derive(Debug, Default)]
pub struct LineSplitter {
    carry: Carry,
}

/// One event of a JSON watch, its object undecoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLine<'a> {
    /// The event's `type`, known or not.
    pub word: Cow<'a, str>,
    /// The event's object.
    pub object: &'a [u8],
}

impl LineSplitter {
    /// The next line without its line feed; `None` when the chunk is used up. Consumed bytes are removed from the
    /// front of `chunk`.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, JsonError> {
        self.carry.start_next();
        while let Some(length) = memchr(b'\n', chunk) {
            self.check_size(length)?;
            let last = self.carry.take(chunk, length);
            self.carry.take(chunk, 1);
            if !last.trim_ascii().is_empty() || !self.carry.held().is_empty() {
                return Ok(Some(self.carry.complete(last).trim_ascii()));
            }
        }
        self.check_size(chunk.len())?;
        self.carry.hold(chunk, chunk.len());
        if self.carry.held().trim_ascii().is_empty() {
            self.carry.clear();
        }
        Ok(None)
    }

    /// The bytes after the last line feed: an unterminated last line, or the beginning of one.
    pub fn rest(&self) -> Option<&[u8]> {
        Some(self.carry.held().trim_ascii()).filter(|rest| !rest.is_empty())
    }

    fn check_size(&self, more: usize) -> Result<(), JsonError> {
        let (part, limit) = ("a watch event", EVENT_LIMIT);
        match self.carry.held().len() + more > limit {
            true => Err(JsonErrorKind::TooLarge { part, limit }.at(self.carry.start())),
            false => Ok(()),
        }
    }
}

/// Reads one line of a watch: `{"type":"ADDED","object":{…}}`, members in any order.
///
/// A server that fails before the first event may send a bare `Status`; it is read as an `ERROR` event.
pub fn event(line: &[u8]) -> Result<WatchLine<'_>, JsonError> {
    let mut reader = Reader::new(line);
    let (mut word, mut object, mut is_status) = (None, None, false);
    let mut members = reader.object()?.ok_or_else(|| expected("an event", 0))?;
    while let Some(key) = members.next_key(&mut reader)? {
        match &*key {
            "type" => word = Some(reader.text()?),
            "object" => object = Some(reader.skip()?),
            "kind" => is_status = reader.skip()? == br#""Status""#,
            _ => drop(reader.skip()?),
        }
    }
    reader.end()?;
    match (word, object) {
        (Some(word), Some(object)) => Ok(WatchLine { word, object }),
        (None, None) if is_status => Ok(WatchLine {
            word: "ERROR".into(),
            object: line,
        }),
        _ => Err(expected("an event with type and object", 0)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn lines(body: &[u8], size: usize) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let mut splitter = LineSplitter::default();
        let mut lines = Vec::new();
        for mut chunk in body.chunks(size) {
            while let Some(line) = splitter.next(&mut chunk).unwrap() {
                lines.push(line.to_vec());
            }
        }
        (lines, splitter.rest().map(<[u8]>::to_vec))
    }

    #[test]
    fn lines_are_cut_from_chunks_of_any_size() {
        let body = b"{\"a\":1}\r\n\n  \n{\"b\":2}\n{\"c\"";
        for size in 1..body.len() {
            let (lines, rest) = lines(body, size);
            assert_eq!(lines, [br#"{"a":1}"#, br#"{"b":2}"#], "in {size}s");
            assert_eq!(rest.as_deref(), Some(&br#"{"c""#[..]), "in {size}s");
        }
    }

    #[test]
    fn events_are_read() {
        fn check(line: &str, expect: Expect) {
            let text = match event(line.as_bytes()) {
                Ok(WatchLine { word, object }) => format!("{word} {}", str::from_utf8(object).unwrap()),
                Err(error) => error.to_string(),
            };
            expect.assert_eq(&text);
        }
        check(
            r#"{"type":"ADDED","object":{"kind":"Pod"}}"#,
            expect![[r#"ADDED {"kind":"Pod"}"#]],
        );
        check(
            r#"{"object":{"a":"}"},"more":[1],"type":"RENAMED"}"#,
            expect![[r#"RENAMED {"a":"}"}"#]],
        );
        check(
            r#"{"kind":"Status","apiVersion":"v1","code":410}"#,
            expect![[r#"ERROR {"kind":"Status","apiVersion":"v1","code":410}"#]],
        );
        check(
            r#"{"kind":"Pod"}"#,
            expect!["invalid JSON at byte 0: expected an event with type and object"],
        );
        check(
            r#"{"type":"ADDED","object":{"a""#,
            expect!["invalid JSON at byte 29: truncated"],
        );
        check(
            r#"{"type":1}"#,
            expect!["invalid JSON at byte 8: expected a string"],
        );
        check(
            r#"{"type":"A","object":{}}}"#,
            expect!["invalid JSON at byte 24: unexpected bytes after the end"],
        );
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut splitter = LineSplitter::default();
        let megabyte = vec![b'x'; 1 << 20];
        let error = (0..64)
            .find_map(|_| splitter.next(&mut &megabyte[..]).err())
            .unwrap();
        assert!(
            error
                .to_string()
                .ends_with("a watch event is larger than 33555456 bytes"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(body in r"[a \n\r]{0,60}", size in 1usize..20) {
            prop_assert_eq!(lines(body.as_bytes(), size), lines(body.as_bytes(), 60));
        }

        #[test]
        fn any_bytes_end_in_an_event_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = event(&bytes);
        }
    }
}
