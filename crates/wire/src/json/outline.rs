//! An object as servers write it, in one pass: where its identity stands, what of it is not kept, and where it ends.
//!
//! ```text
//! {"metadata":{"name":"a","uid":"u","labels":{…},"managedFields":[…]},"spec":{…},"status":{…}},{"metadata":…
//!                      ^        ^    └ checked ┘└──── not kept ────┘  └── passed over ───────┘^
//!                      name     uid                                                           end
//! ```
//!
//! A splitter, the reader of [headers](super::header) and the one that leaves out
//! [`managedFields`](super::managed_fields) each walk over the object, and for a small object that is twice the work. This
//! walk knows what servers write and no more: no white space, no escapes in what it reads, `managedFields` once. Whatever
//! else there is, and all that is wrong, is `None` to it, and the careful readers decide what to make of it. What it does
//! find is what they find.

use std::ops::Range;

use watchkeeper_meta::Time;

use super::reader::Reader;
use super::strings::plain_length;
use crate::utf8;

/// How deep in an object the values stand that are passed over; those of owners, which are refused, stand deeper.
const LEVELS: u32 = 2;

/// What is found. Texts are empty where the object does not have them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outline {
    pub(crate) api_version: Range<usize>,
    pub(crate) kind: Range<usize>,
    pub(crate) name: Range<usize>,
    pub(crate) namespace: Range<usize>,
    pub(crate) uid: Range<usize>,
    pub(crate) resource_version: Range<usize>,
    pub(crate) generation: i64,
    pub(crate) is_deleting: bool,
    /// `managedFields` with the comma that goes with it.
    pub(crate) managed_fields: Range<usize>,
    /// Where the object ends.
    pub(crate) length: usize,
}

impl Outline {
    /// Reads the object at the front of `bytes`; others may follow it.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let mut outline = Self::default();
        let mut walk = Walk { bytes, at: 0 };
        let mut metadata_end = None;
        walk.members(|walk, key| {
            match &bytes[key] {
                // As the careful readers of items: what stands behind the metadata is not looked at.
                _ if metadata_end.is_some() => walk.pass_over()?,
                b"apiVersion" => outline.api_version = walk.text()?,
                b"kind" => outline.kind = walk.text()?,
                b"metadata" => {
                    outline.metadata(walk)?;
                    metadata_end = Some(walk.at);
                }
                _ => walk.pass_over()?,
            }
            Some(())
        })?;
        outline.length = walk.at;
        let Range { start, end } = outline.managed_fields;
        let texts = [0..start, end..metadata_end?];
        let is_text = |range: Range<usize>| utf8::check(&bytes[range]).is_ok();
        texts.into_iter().all(is_text).then_some(outline)
    }

    /// What is kept of the object that was read: what stands in front of `managedFields` and what stands behind.
    pub(crate) fn kept<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let Range { start, end } = self.managed_fields;
        (&bytes[..start], &bytes[end..self.length])
    }

    /// Where a byte that is kept stands in what is kept.
    pub(crate) fn kept_offset(&self, offset: usize) -> usize {
        match offset < self.managed_fields.start {
            true => offset,
            false => offset - self.managed_fields.len(),
        }
    }

    fn metadata(&mut self, walk: &mut Walk<'_>) -> Option<()> {
        let bytes = walk.bytes;
        walk.members(|walk, key| {
            match &bytes[key.clone()] {
                b"name" => self.name = walk.text()?,
                b"namespace" => self.namespace = walk.text()?,
                b"uid" => self.uid = walk.text()?,
                b"resourceVersion" => self.resource_version = walk.text()?,
                b"generation" => self.generation = walk.integer()?,
                b"creationTimestamp" => walk.time()?,
                b"deletionTimestamp" => {
                    walk.time()?;
                    self.is_deleting = true;
                }
                b"labels" => walk.members(|walk, _| walk.text().map(drop))?,
                b"ownerReferences" => walk.elements(|walk| walk.members(owner_member))?,
                b"finalizers" => walk.elements(|walk| walk.text().map(drop))?,
                b"managedFields" if self.managed_fields.is_empty() => {
                    self.managed_fields = walk.left_out(key)?
                }
                b"managedFields" => return None,
                _ => walk.pass_over()?,
            }
            Some(())
        })
    }
}

fn owner_member(walk: &mut Walk<'_>, key: Range<usize>) -> Option<()> {
    match &walk.bytes[key] {
        b"apiVersion" | b"kind" | b"name" | b"uid" => walk.text().map(drop),
        b"controller" | b"blockOwnerDeletion" => walk.boolean(),
        _ => None,
    }
}

/// A position in the text.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    /// Calls `each` with the key of every member of an object, in front of the member's value.
    #[inline]
    fn members(&mut self, mut each: impl FnMut(&mut Self, Range<usize>) -> Option<()>) -> Option<()> {
        self.all(b'{', b'}', |walk| {
            let key = walk.text()?;
            walk.byte(b':')?;
            each(walk, key)
        })
    }

    /// Calls `each` in front of every element of a list.
    #[inline]
    fn elements(&mut self, each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.all(b'[', b']', each)
    }

    #[inline]
    fn all(&mut self, open: u8, close: u8, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.byte(open)?;
        if self.byte(close).is_some() {
            return Some(());
        }
        loop {
            each(self)?;
            if self.byte(b',').is_none() {
                return self.byte(close);
            }
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8) -> Option<()> {
        (*self.bytes.get(self.at)? == byte).then(|| self.at += 1)
    }

    /// A string without escapes.
    #[inline]
    fn text(&mut self) -> Option<Range<usize>> {
        self.byte(b'"')?;
        let start = self.at;
        self.at += plain_length(self.bytes.get(start..)?);
        let end = self.at;
        self.byte(b'"')?;
        Some(start..end)
    }

    fn time(&mut self) -> Option<()> {
        let text = self.text()?;
        Time::from_rfc3339_seconds(&self.bytes[text]).map(drop)
    }

    fn boolean(&mut self) -> Option<()> {
        let value = self.value()?;
        matches!(value, b"true" | b"false").then_some(())
    }

    fn integer(&mut self) -> Option<i64> {
        str::from_utf8(self.value()?).ok()?.parse().ok()
    }

    fn pass_over(&mut self) -> Option<()> {
        self.value().map(drop)
    }

    fn value(&mut self) -> Option<&[u8]> {
        let mut reader = Reader::new_at(self.bytes, self.at);
        let value = reader.skip_within(LEVELS).ok()?;
        self.at = reader.position();
        Some(value)
    }

    /// Passes over the value behind `key` and returns what would have to go for the member not to be there: itself, and
    /// the comma in front of it or, where it is the first one, behind it.
    fn left_out(&mut self, key: Range<usize>) -> Option<Range<usize>> {
        self.pass_over()?;
        // In front of the key there is its quote, and in front of that the comma or the bracket.
        let quote = key.start - 1;
        match self.bytes[quote - 1] {
            b',' => Some(quote - 1..self.at),
            _ if self.bytes.get(self.at) == Some(&b',') => Some(quote..self.at + 1),
            _ => Some(quote..self.at),
        }
    }
}
