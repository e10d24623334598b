//! A list body in chunks of any size in, its items out as slices, unparsed.
//!
//! ```text
//! {"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{…},{…},{…}]}
//!  └───────────── kept in the head, wherever it stands ─────────────┘             └item┘
//! ```
//!
//! An item that lies within one chunk is a slice of that chunk; one that straddles chunks is put together once in
//! a buffer that is used again. Other members of the list are passed over.

use serde::Deserialize;
use watchkeeper_meta::ResourceVersion;

use super::error::{JsonError, JsonErrorKind, expected};
use super::reader::{ends_scalar, is_space};
use super::scan::Nesting;
use crate::limits::{LIST_HEAD_LIMIT, OBJECT_LIMIT};
use crate::list::ListHead;

/// Cuts the items out of a JSON list.
///
/// ```
/// use watchkeeper_wire::json::list::ListSplitter;
///
/// let mut splitter = ListSplitter::default();
/// let mut items = Vec::new();
/// for mut chunk in [&br#"{"kind":"PodList","items":[{"a":1},{"#[..], br#""b":2}]}"#] {
///     while let Some(item) = splitter.next(&mut chunk)? {
///         items.push(item.to_vec());
///     }
/// }
/// splitter.finish()?;
/// assert_eq!(items, [br#"{"a":1}"#, br#"{"b":2}"#]);
/// assert_eq!(splitter.head().item_kind(), Some("Pod"));
/// # Ok::<(), watchkeeper_wire::json::JsonError>(())
/// ```
#[derive(Debug, Default)]
pub struct ListSplitter {
    head: ListHead,
    state: State,
    /// Bytes of the body that have been consumed.
    offset: usize,
    /// The part of a key, a head value or an item that earlier chunks brought.
    held: Vec<u8>,
    /// The last item was yielded from `held`, which the next call may empty.
    held_is_yielded: bool,
    items_seen: bool,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Start,
    /// In front of a key; `first` also allows the end of the list.
    BeforeKey {
        first: bool,
    },
    /// Inside a key; `escaped`: behind a backslash.
    Key {
        escaped: bool,
    },
    Colon(Member),
    BeforeValue(Member),
    Value(Member, Value),
    AfterValue,
    /// In front of an item; `first` also allows the end of the items.
    BeforeItem {
        first: bool,
    },
    Item(Nesting),
    AfterItem,
    End,
}

/// The members of a list that mean something to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    Other,
}

/// A value outside the items.
#[derive(Clone, Copy, Debug)]
enum Value {
    Container(Nesting),
    Text { escaped: bool },
    Scalar,
}

/// A finished item.
enum Cut<'c> {
    InChunk(&'c [u8]),
    Held,
}

/// `metadata` of a list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Option<ResourceVersion>,
    r#continue: Option<String>,
    remaining_item_count: Option<i64>,
}

impl ListSplitter {
    /// What the list has said about itself so far; all of it after [`finish`](Self::finish).
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// The next item; `None` when the chunk is used up. Consumed bytes are taken off the front of `chunk`.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, JsonError> {
        if std::mem::take(&mut self.held_is_yielded) {
            self.held.clear();
        }
        while !chunk.is_empty() {
            match self.step(chunk)? {
                Some(Cut::InChunk(item)) => return Ok(Some(item)),
                Some(Cut::Held) => {
                    self.held_is_yielded = true;
                    return Ok(Some(&self.held));
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// An error unless the list has ended.
    pub fn finish(&self) -> Result<(), JsonError> {
        match self.state {
            State::End => Ok(()),
            _ => Err(JsonErrorKind::Truncated.at(self.offset)),
        }
    }

    /// Consumes at least one byte: white space, a bracket, or as much of a value as the chunk has.
    fn step<'c>(&mut self, chunk: &mut &'c [u8]) -> Result<Option<Cut<'c>>, JsonError> {
        match self.state {
            State::Item(nesting) => return self.item(chunk, nesting),
            State::Key { escaped } => self.key(chunk, escaped)?,
            State::Value(member, value) => self.value(chunk, member, value)?,
            _ if is_space(chunk[0]) => drop(self.take(chunk, 1)),
            _ => self.punctuation(chunk)?,
        }
        Ok(None)
    }

    /// One byte between values, or the first one of a value.
    fn punctuation(&mut self, chunk: &mut &[u8]) -> Result<(), JsonError> {
        let state = match (self.state, chunk[0]) {
            (State::Start, b'{') => State::BeforeKey { first: true },
            (State::Start, _) => return self.expected("a list object"),
            (State::BeforeKey { .. }, b'"') => State::Key { escaped: false },
            (State::BeforeKey { first: true }, b'}') => State::End,
            (State::BeforeKey { .. }, _) => return self.expected("a key"),
            (State::Colon(member), b':') => State::BeforeValue(member),
            (State::Colon(_), _) => return self.expected("a colon"),
            (State::BeforeValue(Member::Items), b'[') => self.begin_items()?,
            (State::BeforeValue(Member::Items), byte) if byte != b'n' => {
                return self.expected("a list of items");
            }
            (State::BeforeValue(_), b',' | b':' | b'}' | b']') => return self.expected("a value"),
            // The value's first byte is part of it.
            (State::BeforeValue(member), byte) => {
                self.state = State::Value(member, Value::begin(byte));
                return Ok(());
            }
            (State::AfterValue, b',') => State::BeforeKey { first: false },
            (State::AfterValue, b'}') => State::End,
            (State::AfterValue, _) => return self.expected("a comma or the end of the list"),
            (State::BeforeItem { .. }, b'{') => {
                self.state = State::Item(Nesting::default());
                return Ok(());
            }
            (State::BeforeItem { first: true }, b']') => State::AfterValue,
            (State::BeforeItem { .. }, _) => return self.expected("an object"),
            (State::AfterItem, b',') => State::BeforeItem { first: false },
            (State::AfterItem, b']') => State::AfterValue,
            (State::AfterItem, _) => return self.expected("a comma or the end of the items"),
            _ => return Err(JsonErrorKind::TrailingBytes.at(self.offset)),
        };
        self.state = state;
        self.take(chunk, 1);
        Ok(())
    }

    fn begin_items(&mut self) -> Result<State, JsonError> {
        match std::mem::replace(&mut self.items_seen, true) {
            false => Ok(State::BeforeItem { first: true }),
            true => Err(JsonErrorKind::DuplicateItems.at(self.offset)),
        }
    }

    fn item<'c>(&mut self, chunk: &mut &'c [u8], mut nesting: Nesting) -> Result<Option<Cut<'c>>, JsonError> {
        let end = nesting
            .close(chunk)
            .map_err(|error| error.kind.at(self.offset + error.offset))?;
        let length = end.unwrap_or(chunk.len());
        self.check_size("an item", self.held.len() + length, OBJECT_LIMIT)?;
        let part = self.take(chunk, length);
        if end.is_none() {
            self.held.extend_from_slice(part);
            self.state = State::Item(nesting);
            return Ok(None);
        }
        self.state = State::AfterItem;
        if self.held.is_empty() {
            return Ok(Some(Cut::InChunk(part)));
        }
        self.held.extend_from_slice(part);
        Ok(Some(Cut::Held))
    }

    /// A key, up to and with its closing quote.
    fn key(&mut self, chunk: &mut &[u8], mut escaped: bool) -> Result<(), JsonError> {
        let end = end_of_text(chunk, &mut escaped);
        self.hold(chunk, end.unwrap_or(chunk.len()))?;
        if end.is_none() {
            self.state = State::Key { escaped };
            return Ok(());
        }
        // The opening quote was consumed as punctuation.
        self.held.insert(0, b'"');
        let begin = self.offset - self.held.len();
        self.state = State::Colon(Member::parse(&self.held).map_err(|kind| kind.at(begin))?);
        self.held.clear();
        Ok(())
    }

    /// A value outside the items; kept only if the head needs it.
    fn value(&mut self, chunk: &mut &[u8], member: Member, mut value: Value) -> Result<(), JsonError> {
        let start = self.offset;
        let end = value
            .end(chunk)
            .map_err(|error| error.kind.at(start + error.offset))?;
        let length = end.unwrap_or(chunk.len());
        match member {
            Member::Other => drop(self.take(chunk, length)),
            _ => self.hold(chunk, length)?,
        }
        if end.is_none() {
            self.state = State::Value(member, value);
            return Ok(());
        }
        self.state = State::AfterValue;
        let begin = self.offset - self.held.len();
        self.keep(member).map_err(|kind| kind.at(begin))?;
        self.held.clear();
        Ok(())
    }

    /// Notes a value of the head, which lies in `held`.
    fn keep(&mut self, member: Member) -> Result<(), JsonErrorKind> {
        let fail = |what: &'static str| move |_| JsonErrorKind::Expected(what.into());
        match member {
            Member::ApiVersion => {
                self.head.api_version = serde_json::from_slice(&self.held).map_err(fail("a string"))?
            }
            Member::Kind => self.head.kind = serde_json::from_slice(&self.held).map_err(fail("a string"))?,
            Member::Metadata => {
                let meta: Option<ListMeta> =
                    serde_json::from_slice(&self.held).map_err(fail("a list's metadata"))?;
                self.head.set_meta(meta.unwrap_or_default());
            }
            Member::Items if self.held != b"null" => {
                return Err(JsonErrorKind::Expected("a list of items".into()));
            }
            Member::Items | Member::Other => {}
        }
        Ok(())
    }

    fn hold(&mut self, chunk: &mut &[u8], length: usize) -> Result<(), JsonError> {
        self.check_size("the head of a list", self.held.len() + length, LIST_HEAD_LIMIT)?;
        let part = self.take(chunk, length);
        self.held.extend_from_slice(part);
        Ok(())
    }

    fn take<'c>(&mut self, chunk: &mut &'c [u8], length: usize) -> &'c [u8] {
        let (part, rest) = chunk.split_at(length);
        *chunk = rest;
        self.offset += length;
        part
    }

    fn check_size(&self, part: &'static str, size: usize, limit: usize) -> Result<(), JsonError> {
        match size > limit {
            true => Err(JsonErrorKind::TooLarge { part, limit }.at(self.offset - self.held.len())),
            false => Ok(()),
        }
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, JsonError> {
        Err(expected(what, self.offset))
    }
}

impl Member {
    /// Reads a key in its quotes.
    fn parse(quoted: &[u8]) -> Result<Self, JsonErrorKind> {
        let key: String = serde_json::from_slice(quoted).map_err(|_| JsonErrorKind::Text)?;
        Ok(match &*key {
            "apiVersion" => Self::ApiVersion,
            "kind" => Self::Kind,
            "metadata" => Self::Metadata,
            "items" => Self::Items,
            _ => Self::Other,
        })
    }
}

impl Value {
    fn begin(first: u8) -> Self {
        match first {
            b'{' | b'[' => Self::Container(Nesting::default()),
            // The opening quote itself is passed as if it were escaped.
            b'"' => Self::Text { escaped: true },
            _ => Self::Scalar,
        }
    }

    /// How much of the chunk belongs to the value; `None` if it goes on behind the chunk.
    fn end(&mut self, chunk: &[u8]) -> Result<Option<usize>, JsonError> {
        match self {
            Self::Container(nesting) => nesting.close(chunk),
            Self::Text { escaped } => Ok(end_of_text(chunk, escaped)),
            Self::Scalar => Ok(chunk.iter().position(|&byte| ends_scalar(byte))),
        }
    }
}

/// Length up to and with the closing quote.
fn end_of_text(chunk: &[u8], escaped: &mut bool) -> Option<usize> {
    for (at, byte) in chunk.iter().enumerate() {
        match byte {
            _ if *escaped => *escaped = false,
            b'\\' => *escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

impl ListHead {
    fn set_meta(&mut self, meta: ListMeta) {
        self.resource_version = meta.resource_version.unwrap_or_default();
        self.continue_token = meta.r#continue.unwrap_or_default();
        self.remaining_item_count = meta.remaining_item_count;
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn split(body: &[u8], size: usize) -> Result<(ListHead, Vec<String>), JsonError> {
        let mut splitter = ListSplitter::default();
        let mut items = Vec::new();
        for mut chunk in body.chunks(size) {
            while let Some(item) = splitter.next(&mut chunk)? {
                items.push(String::from_utf8_lossy(item).into_owned());
            }
        }
        splitter.finish()?;
        Ok((splitter.head, items))
    }

    #[test]
    fn the_head_is_found_wherever_it_stands() {
        let meta = r#""metadata" : {"continue":"abc","remainingItemCount":3,"resourceVersion":"7"}"#;
        for body in [
            format!(r#"{{"kind":"PodList","apiVersion":"v1",{meta},"items":[{{"a":"]"}} , {{}}]}}"#),
            format!(
                " {{\"items\":[{{\"a\":\"]\"}},{{}}],\"x\":[[1]],{meta},\"ki\\u006ed\":\"PodList\",\"apiVersion\":\"v1\"}}\n"
            ),
        ] {
            for size in 1..body.len() {
                let (head, items) = split(body.as_bytes(), size).unwrap();
                assert_eq!(items, [r#"{"a":"]"}"#, "{}"], "{body} in {size}s");
                assert_eq!((&*head.api_version, head.item_kind()), ("v1", Some("Pod")));
                assert_eq!(head.resource_version.as_str(), "7");
                assert_eq!(
                    (&*head.continue_token, head.remaining_item_count),
                    ("abc", Some(3))
                );
            }
        }
    }

    #[test]
    fn lists_may_be_empty() {
        for body in [
            "{}",
            r#"{"items":null}"#,
            r#"{"items":[]}"#,
            r#"{"items":null,"metadata":null,"n":-1.5e3}"#,
        ] {
            for size in 1..=body.len() {
                assert_eq!(
                    split(body.as_bytes(), size),
                    Ok(Default::default()),
                    "{body} in {size}s"
                );
            }
        }
    }

    #[test]
    fn bad_lists_are_named_with_their_offset() {
        fn check(body: &str, expect: Expect) {
            let whole = split(body.as_bytes(), body.len().max(1)).unwrap_err();
            expect.assert_eq(&whole.to_string());
            assert_eq!(split(body.as_bytes(), 1).unwrap_err(), whole, "in single bytes");
        }
        check("", expect!["invalid JSON at byte 0: truncated"]);
        check("[]", expect!["invalid JSON at byte 0: expected a list object"]);
        check(
            r#"{"items":[{"a":1}"#,
            expect!["invalid JSON at byte 17: truncated"],
        );
        check(
            r#"{"items":[{"a":1}]"#,
            expect!["invalid JSON at byte 18: truncated"],
        );
        check(
            r#"{"items":[null]}"#,
            expect!["invalid JSON at byte 10: expected an object"],
        );
        check(
            r#"{"items":[{},]}"#,
            expect!["invalid JSON at byte 13: expected an object"],
        );
        check(
            r#"{"items":[{}{}]}"#,
            expect!["invalid JSON at byte 12: expected a comma or the end of the items"],
        );
        check(
            r#"{"items":{}}"#,
            expect!["invalid JSON at byte 9: expected a list of items"],
        );
        check(
            r#"{"items":nil}"#,
            expect!["invalid JSON at byte 9: expected a list of items"],
        );
        check(
            r#"{"items":[],"items":[]}"#,
            expect!["invalid JSON at byte 20: items stands twice in the list"],
        );
        check(r#"{"a":}"#, expect!["invalid JSON at byte 5: expected a value"]);
        check(r#"{"\x":1}"#, expect!["invalid JSON at byte 1: invalid string"]);
        check(r#"{"a":1,}"#, expect!["invalid JSON at byte 7: expected a key"]);
        check(
            r#"{"kind":7}"#,
            expect!["invalid JSON at byte 8: expected a string"],
        );
        check(
            r#"{"metadata":{"resourceVersion":7}}"#,
            expect!["invalid JSON at byte 12: expected a list's metadata"],
        );
        check(
            r#"{"items":[]} x"#,
            expect!["invalid JSON at byte 13: unexpected bytes after the end"],
        );
        let deep = format!(r#"{{"items":[{}"#, r#"{"a":"#.repeat(128));
        check(
            &deep,
            expect!["invalid JSON at byte 645: nested deeper than 127 levels"],
        );
    }

    #[test]
    fn an_endless_item_is_refused() {
        let mut splitter = ListSplitter::default();
        let mut start = &br#"{"items":[{"a":""#[..];
        assert_eq!(splitter.next(&mut start), Ok(None));
        let megabyte = vec![b'x'; 1 << 20];
        let error = (0..64)
            .find_map(|_| splitter.next(&mut &megabyte[..]).err())
            .unwrap();
        assert!(
            error
                .to_string()
                .ends_with("an item is larger than 33554432 bytes"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn split_and_join_is_the_identity(texts in prop::collection::vec(r#"[a-z"\\{}\[\],:é ]{0,90}"#, 0..8), size in 1usize..200) {
            let items: Vec<String> = texts.iter().map(|text| serde_json::json!({"a": [text, {text: 1}]}).to_string()).collect();
            let body = format!(r#"{{"items":[{}],"kind":"XList"}}"#, items.join(","));
            let (head, split) = split(body.as_bytes(), size).unwrap();
            prop_assert_eq!(split, items);
            prop_assert_eq!(head.kind, "XList");
        }

        #[test]
        fn any_bytes_end_in_items_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..20) {
            let _ = split(&bytes, size);
        }

        #[test]
        fn any_chunking_of_broken_lists_gives_the_same_answer(
            body in r#"\{"items":\[\{[{}\[\]",:\\an ]{0,60}"#, size in 1usize..70,
        ) {
            prop_assert_eq!(split(body.as_bytes(), size), split(body.as_bytes(), body.len()));
        }
    }
}
