//! Scans an object as servers write it, in one pass: the spans of its identity and of `managedFields`, and its end.
//!
//! ```text
//! {"metadata":{"name":"a","uid":"u","labels":{…},"managedFields":[…]},"spec":{…},"status":{…}},{"metadata":…
//!                      ^        ^    └ checked ┘└──── not kept ────┘  └── passed over ───────┘^
//!                      name     uid                                                           end
//! ```
//!
//! The splitter, the [header](super::header) reader and the copy without [`managedFields`](super::managed_fields)
//! each walk over the object; for a small object that is twice the work. This scan handles only what servers write:
//! no white space, no escapes in the texts it reads, `managedFields` at most once. For anything else, errors
//! included, it returns `None` and the general readers decide. Its results equal theirs.

use std::ops::Range;

use watchkeeper_meta::Time;

use super::reader::Reader;
use super::strings::plain_length;
use crate::utf8;

/// The depth at which skipped values are nested. Values within owner references are deeper; they are refused.
const LEVELS: u32 = 2;

/// The spans found. A missing text has an empty span.
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
    /// `managedFields` with the comma that belongs to it.
    pub(crate) managed_fields: Range<usize>,
    /// The length of the object.
    pub(crate) length: usize,
}

impl Outline {
    /// Scans the object at the front of `bytes`; more may follow it.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let mut outline = Self::default();
        let mut walk = Walk { bytes, at: 0 };
        let mut metadata_end = None;
        walk.members(|walk, key| {
            match &bytes[key] {
                // As in the general item reader, members after the metadata are skipped.
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

    /// The kept bytes of the object: those before `managedFields` and those after.
    pub(crate) fn kept<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let Range { start, end } = self.managed_fields;
        (&bytes[..start], &bytes[end..self.length])
    }

    /// The offset of a kept byte within the kept bytes.
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
    /// Calls `each` with the key of every member of an object, positioned at the member's value.
    #[inline]
    fn members(&mut self, mut each: impl FnMut(&mut Self, Range<usize>) -> Option<()>) -> Option<()> {
        self.all(b'{', b'}', |walk| {
            let key = walk.text()?;
            walk.byte(b':')?;
            each(walk, key)
        })
    }

    /// Calls `each` at every element of a list.
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

    /// Skips the value of `key` and returns the span to remove to drop the member: itself, and the comma before it
    /// or, if it is the first member, after it.
    fn left_out(&mut self, key: Range<usize>) -> Option<Range<usize>> {
        self.pass_over()?;
        // Before the key there is its quote, and before that the comma or the bracket.
        let quote = key.start - 1;
        match self.bytes[quote - 1] {
            b',' => Some(quote - 1..self.at),
            _ if self.bytes.get(self.at) == Some(&b',') => Some(quote..self.at + 1),
            _ => Some(quote..self.at),
        }
    }
}
