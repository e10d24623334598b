//! Splits a list body, in chunks of any size, into its items as slices, unparsed.
//!
//! ```text
//! {"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{…},{…},{…}]}
//!  └───────────── kept in the head, wherever it stands ─────────────┘             └item┘
//! ```
//!
//! An item within one chunk is a slice of that chunk; one that straddles chunks is assembled in a reused buffer.
//! Other members of the list are skipped.

use serde::Deserialize;
use watchkeeper_meta::ResourceVersion;

use super::error::{JsonError, JsonErrorKind, expected};
use super::reader::{ends_scalar, is_space};
use super::scan::Nesting;
use crate::carry::Carry;
use crate::limits::{LIST_HEAD_LIMIT, OBJECT_LIMIT};
use crate::list_head::ListHead;

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
    /// Part of a key, of a value of the head, or of an item.
    carry: Carry,
    items_seen: bool,
}

/// The element the next byte belongs to.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Start,
    /// Before a key; if `first`, the list may also end here.
    BeforeKey {
        first: bool,
    },
    /// Inside a key; `escaped`: after a backslash.
    Key {
        escaped: bool,
    },
    Colon(Member),
    BeforeValue(Member),
    Value(Member, Value),
    AfterValue,
    /// Before an item; if `first`, the items may also end here.
    BeforeItem {
        first: bool,
    },
    Item(Nesting),
    AfterItem,
    End,
}

/// The members of a list that are read.
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

/// `metadata` of a list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Option<ResourceVersion>,
    r#continue: Option<String>,
    remaining_item_count: Option<i64>,
    shard_info: Option<ShardInfo>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShardInfo {
    selector: String,
}

impl ListSplitter {
    /// The list's own fields read so far; complete after [`finish`](Self::finish).
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// True if `items` has been seen, even as `null`.
    pub fn has_items(&self) -> bool {
        self.items_seen
    }

    /// The next item; `None` when the chunk is used up. Consumed bytes are removed from the front of `chunk`.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, JsonError> {
        self.carry.start_next();
        while !chunk.is_empty() {
            if let Some(last) = self.step(chunk)? {
                return Ok(Some(self.carry.complete(last)));
            }
        }
        Ok(None)
    }

    /// Consumes the next item with `read`, which also returns its length. `None` if no item begins here, or if `read`
    /// cannot read it whole; [`next`](Self::next) then finds the reason.
    pub(crate) fn take_item<T>(
        &mut self,
        chunk: &mut &[u8],
        read: impl FnOnce(&[u8]) -> Option<(T, usize)>,
    ) -> Option<T> {
        self.carry.start_next();
        if matches!(self.state, State::AfterItem) && chunk.first() == Some(&b',') {
            self.carry.take(chunk, 1);
            self.state = State::BeforeItem { first: false };
        }
        if !matches!(self.state, State::BeforeItem { .. }) || chunk.first() != Some(&b'{') {
            return None;
        }
        let (item, length) = read(chunk).filter(|(_, length)| *length <= OBJECT_LIMIT)?;
        self.carry.take(chunk, length);
        self.state = State::AfterItem;
        Some(item)
    }

    /// Returns an error unless the list has ended.
    pub fn finish(&self) -> Result<(), JsonError> {
        match self.state {
            State::End => Ok(()),
            _ => Err(JsonErrorKind::Truncated.at(self.carry.offset())),
        }
    }

    /// Consumes white space, a bracket, or as much of a value as the chunk has; returns the last bytes of an item.
    fn step<'c>(&mut self, chunk: &mut &'c [u8]) -> Result<Option<&'c [u8]>, JsonError> {
        match self.state {
            State::Item(nesting) => return self.item(chunk, nesting),
            State::Key { escaped } => self.key(chunk, escaped)?,
            State::Value(member, value) => self.value(chunk, member, value)?,
            _ if is_space(chunk[0]) => drop(self.carry.take(chunk, 1)),
            _ => self.punctuation(chunk)?,
        }
        Ok(None)
    }

    /// Consumes one byte between values, or the first byte of a value.
    fn punctuation(&mut self, chunk: &mut &[u8]) -> Result<(), JsonError> {
        let state = match (self.state, chunk[0]) {
            (State::Start, b'{') => State::BeforeKey { first: true },
            (State::Start, _) => return self.expected("a list object"),
            // The opening quote is part of the key; it is consumed as if it were escaped.
            (State::BeforeKey { .. }, b'"') => {
                self.state = State::Key { escaped: true };
                return Ok(());
            }
            (State::BeforeKey { first: true }, b'}') => State::End,
            (State::BeforeKey { .. }, _) => return self.expected("a key"),
            (State::Colon(member), b':') => State::BeforeValue(member),
            (State::Colon(_), _) => return self.expected("a colon"),
            (State::BeforeValue(Member::Items), b'[') => self.begin_items()?,
            (State::BeforeValue(Member::Items), byte) if byte != b'n' => {
                return self.expected("a list of items");
            }
            (State::BeforeValue(_), b',' | b':' | b'}' | b']') => return self.expected("a value"),
            // The first byte belongs to the value.
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
            _ => return Err(JsonErrorKind::TrailingBytes.at(self.carry.offset())),
        };
        self.state = state;
        self.carry.take(chunk, 1);
        Ok(())
    }

    fn begin_items(&mut self) -> Result<State, JsonError> {
        match std::mem::replace(&mut self.items_seen, true) {
            false => Ok(State::BeforeItem { first: true }),
            true => Err(JsonErrorKind::DuplicateItems.at(self.carry.offset())),
        }
    }

    fn item<'c>(
        &mut self,
        chunk: &mut &'c [u8],
        mut nesting: Nesting,
    ) -> Result<Option<&'c [u8]>, JsonError> {
        let end = self.at_chunk(nesting.close(chunk))?;
        let length = end.unwrap_or(chunk.len());
        self.check_size("an item", length, OBJECT_LIMIT)?;
        if end.is_none() {
            self.carry.hold(chunk, length);
            self.state = State::Item(nesting);
            return Ok(None);
        }
        self.state = State::AfterItem;
        Ok(Some(self.carry.take(chunk, length)))
    }

    /// A key in its quotes.
    fn key(&mut self, chunk: &mut &[u8], mut escaped: bool) -> Result<(), JsonError> {
        let end = end_of_text(chunk, &mut escaped);
        self.hold(chunk, end.unwrap_or(chunk.len()))?;
        if end.is_none() {
            self.state = State::Key { escaped };
            return Ok(());
        }
        let start = self.carry.start();
        let member = Member::parse(self.carry.held()).map_err(|kind| kind.at(start))?;
        self.state = State::Colon(member);
        self.carry.clear();
        Ok(())
    }

    /// A value outside the items; kept only if it belongs to the head.
    fn value(&mut self, chunk: &mut &[u8], member: Member, mut value: Value) -> Result<(), JsonError> {
        let end = self.at_chunk(value.end(chunk))?;
        let length = end.unwrap_or(chunk.len());
        match member {
            Member::Other => drop(self.carry.take(chunk, length)),
            _ => self.hold(chunk, length)?,
        }
        if end.is_none() {
            self.state = State::Value(member, value);
            return Ok(());
        }
        self.state = State::AfterValue;
        let start = self.carry.start();
        self.keep(member).map_err(|kind| kind.at(start))?;
        self.carry.clear();
        Ok(())
    }

    /// Stores a held value in the head.
    fn keep(&mut self, member: Member) -> Result<(), JsonErrorKind> {
        let held = self.carry.held();
        let fail = |what: &'static str| move |_| JsonErrorKind::Expected(what.into());
        match member {
            Member::ApiVersion => {
                self.head.api_version = serde_json::from_slice(held).map_err(fail("a string"))?
            }
            Member::Kind => self.head.kind = serde_json::from_slice(held).map_err(fail("a string"))?,
            Member::Metadata => {
                let meta: Option<ListMeta> =
                    serde_json::from_slice(held).map_err(fail("a list's metadata"))?;
                self.head.set_meta(meta.unwrap_or_default());
            }
            Member::Items if held != b"null" => {
                return Err(JsonErrorKind::Expected("a list of items".into()));
            }
            Member::Items => self.items_seen = true,
            Member::Other => {}
        }
        Ok(())
    }

    fn hold(&mut self, chunk: &mut &[u8], length: usize) -> Result<(), JsonError> {
        self.check_size("the head of a list", length, LIST_HEAD_LIMIT)?;
        self.carry.hold(chunk, length);
        Ok(())
    }

    /// Returns an error if `more` bytes would exceed the limit.
    fn check_size(&self, part: &'static str, more: usize, limit: usize) -> Result<(), JsonError> {
        match self.carry.held().len() + more > limit {
            true => Err(JsonErrorKind::TooLarge { part, limit }.at(self.carry.start())),
            false => Ok(()),
        }
    }

    /// Converts the offset of an error in the chunk to one in the body.
    fn at_chunk<T>(&self, result: Result<T, JsonError>) -> Result<T, JsonError> {
        result.map_err(|error| error.kind.at(self.carry.offset() + error.offset))
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, JsonError> {
        Err(expected(what, self.carry.offset()))
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
            // The opening quote is consumed as if it were escaped.
            b'"' => Self::Text { escaped: true },
            _ => Self::Scalar,
        }
    }

    /// The length of the value in this chunk; `None` if it continues after the chunk.
    fn end(&mut self, chunk: &[u8]) -> Result<Option<usize>, JsonError> {
        match self {
            Self::Container(nesting) => nesting.close(chunk),
            Self::Text { escaped } => Ok(end_of_text(chunk, escaped)),
            Self::Scalar => Ok(chunk.iter().position(|&byte| ends_scalar(byte))),
        }
    }
}

/// The length up to and including the closing quote.
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
        self.shard_selector = meta.shard_info.map(|info| info.selector);
    }
}

#[cfg(test)]
mod tests;
