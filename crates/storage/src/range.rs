//! Reads many keys at one revision.
//!
//! A long range is read in steps, each under a short lock and all at the revision of the first. That equals one long
//! step, because later writes do not change what a revision contains.

use std::ops::Bound;

use crate::mvcc::key_value;
use crate::state::State;
use crate::{Key, KeyValue, ReadAt, ReadError, Revision};

/// The number of keys visited under one lock.
const STEP: usize = 512;

/// The parameters of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeRequest<'a> {
    /// Only keys that start with this; empty for all.
    pub prefix: &'a str,
    /// Only keys after this one: the last key of the previous page.
    pub start_after: Option<&'a str>,
    /// The largest number of items; `None` for all.
    pub limit: Option<usize>,
    /// The revision to read.
    pub at: ReadAt,
}

/// The result of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The items, in the order of their keys.
    pub items: Vec<KeyValue>,
    /// The number of keys after the last item.
    pub remaining: usize,
    /// The revision that was read: for the next page, or to start a feed.
    pub revision: Revision,
}

impl Range {
    /// True if there is another page.
    pub fn more(&self) -> bool {
        self.remaining > 0
    }
}

/// Reads a page and counts the rest.
pub(crate) async fn read(state: &State, request: &RangeRequest<'_>) -> Result<Range, ReadError> {
    loop {
        match read_at(state, request).await {
            // Compacted between two steps. The reader asked for the current state, so start over at the new revision.
            Err(ReadError::Compacted { .. }) if request.at.named().is_none() => {}
            result => return result,
        }
    }
}

async fn read_at(state: &State, request: &RangeRequest<'_>) -> Result<Range, ReadError> {
    let mut range = Range {
        items: Vec::new(),
        remaining: 0,
        revision: state.mvcc.read().readable(request.at.named())?,
    };
    let limit = request.limit.unwrap_or(usize::MAX);
    let mut next = Span::new(request.prefix, request.start_after);
    while let Some(span) = next {
        let stopped_at = step(state, &span, limit, &mut range)?;
        next = stopped_at.map(|key| span.after(key));
        // Yields to other tasks if this one has used up its budget.
        tokio::task::coop::consume_budget().await;
    }
    Ok(range)
}

/// Reads a part of a span, and returns where it stopped.
fn step(state: &State, span: &Span, limit: usize, range: &mut Range) -> Result<Option<Key>, ReadError> {
    state.open()?;
    let mvcc = state.mvcc.read();
    let revision = mvcc.readable(Some(range.revision))?;
    let mut locked = None;
    let last = mvcc.walk(span.bounds(), revision, STEP, |key, version| {
        if range.items.len() < limit {
            let item = key_value(key, version)
                .map(|found| mvcc.unlocked(found))
                .transpose();
            match item {
                Ok(item) => range.items.extend(item),
                Err(error) => drop(locked.get_or_insert(error)),
            }
        } else {
            range.remaining += 1;
        }
    });
    locked.map_or(Ok(last), Err)
}

/// A range of keys. The start is before the end.
#[derive(Debug)]
struct Span {
    start: Bound<Key>,
    /// The first key beyond the prefix, so that the walk needs no prefix comparison.
    end: Bound<String>,
}

impl Span {
    /// The keys under a prefix and after one of them; `None` if that one is beyond the prefix.
    fn new(prefix: &str, after: Option<&str>) -> Option<Self> {
        let end = first_beyond(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        let start = match after {
            Some(after) if after >= prefix => {
                if matches!(&end, Bound::Excluded(end) if after >= end.as_str()) {
                    return None;
                }
                Bound::Excluded(after.into())
            }
            _ => Bound::Included(prefix.into()),
        };
        Some(Self { start, end })
    }

    /// The rest of the span after a key.
    fn after(self, key: Key) -> Self {
        Self {
            start: Bound::Excluded(key),
            end: self.end,
        }
    }

    fn bounds(&self) -> (Bound<&str>, Bound<&str>) {
        (
            self.start.as_ref().map(|key| &**key),
            self.end.as_ref().map(String::as_str),
        )
    }
}

/// The smallest string greater than all strings with a prefix; `None` if there is none.
fn first_beyond(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The range skips surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_the_next_one_begins() {
        let check = |prefix: &str, beyond: Option<&str>| {
            assert_eq!(first_beyond(prefix).as_deref(), beyond, "{prefix:?}");
        };
        check("", None);
        check("/pods/", Some("/pods0"));
        check("/\u{7f}", Some("/\u{80}"));
        check("/\u{d7ff}", Some("/\u{e000}"));
        check("/a\u{10ffff}", Some("/b"));
        check("\u{10ffff}\u{10ffff}", None);
    }

    #[test]
    fn spans_begin_within_their_prefix() {
        let check = |after: Option<&str>, expected: Option<Bound<&str>>| {
            let span = Span::new("/b/", after);
            assert_eq!(span.as_ref().map(|span| span.bounds().0), expected, "{after:?}");
        };
        check(None, Some(Bound::Included("/b/")));
        check(Some("/a"), Some(Bound::Included("/b/")));
        check(Some("/b/1"), Some(Bound::Excluded("/b/1")));
        check(Some("/b0"), None);
        check(Some("/c"), None);
    }
}
