//! Parts that values have in common, kept once.
//!
//! Objects written by the same program differ in a few fields, and large parts of them are equal, byte for byte. The
//! user of a store may say where such a part is ([`SharedPart`]). It is then kept once, however many values have it:
//!
//! ```text
//! whole                      split
//! name-1 │ fields │ spec     name-1 │ ▷ │ spec
//! name-2 │ fields │ spec     name-2 │ ▷ │ spec     fields
//! ```
//!
//! A value is split when its change leaves the history, or is read back from before it. Until then feeds and readers
//! share the bytes that were written; later a reader makes them again ([`LateValue`]). A pod of 3.8 kB takes 1.9 kB less.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::{LateValue, Value};

/// Returns the part of a value that other values probably have as well. Any part is correct; only a common one is useful.
pub type SharedPart = fn(&[u8]) -> Option<Range<usize>>;

/// The limit on known parts. Beyond it, parts that no value uses are forgotten; if there are none, a new part is not
/// shared.
const MAX_PARTS: usize = 1_024;

/// Longer parts are not shared, so that unused ones take little memory.
const MAX_PART_BYTES: usize = 16 << 10;

/// A value without its shared part.
#[derive(Debug)]
struct Split {
    part: Arc<[u8]>,
    /// The offset of the part in the value.
    at: usize,
    rest: Box<[u8]>,
}

impl LateValue for Split {
    fn bytes(&self) -> Bytes {
        let (before, after) = self.rest.split_at(self.at);
        [before, &self.part, after].concat().into()
    }

    fn size(&self) -> usize {
        self.rest.len() + self.part.len()
    }
}

/// The parts that values share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    find: Option<SharedPart>,
    /// By checksum. Of two parts with the same one, the first is shared.
    known: HashMap<u32, Arc<[u8]>>,
}

impl Parts {
    pub(crate) fn found_by(find: Option<SharedPart>) -> Self {
        Self {
            find,
            known: HashMap::new(),
        }
    }

    /// True if values may be split.
    pub(crate) fn are_shared(&self) -> bool {
        self.find.is_some()
    }

    /// Splits a value whose part was seen before. A part that is seen for the first time is remembered.
    pub(crate) fn split(&mut self, value: &Value) -> Option<Value> {
        let Value::Bytes(whole) = value else { return None };
        let split = self.split_bytes(whole)?;
        Some(Value::Late(Arc::new(split)))
    }

    fn split_bytes(&mut self, whole: &[u8]) -> Option<Split> {
        let Range { start, end } = (self.find?)(whole)?;
        let part = whole
            .get(start..end)
            .filter(|part| part.len() <= MAX_PART_BYTES)?;
        let checksum = crc32fast::hash(part);
        if self.known.len() >= MAX_PARTS && !self.known.contains_key(&checksum) {
            self.known.retain(|_, part| Arc::strong_count(part) > 1);
        }
        let has_room = self.known.len() < MAX_PARTS;
        match self.known.entry(checksum) {
            Entry::Occupied(known) if **known.get() == *part => Some(Split {
                part: known.get().clone(),
                at: start,
                rest: [&whole[..start], &whole[end..]].concat().into(),
            }),
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                if has_room {
                    place.insert(part.into());
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything between the first and the last `|`.
    fn between_bars(value: &[u8]) -> Option<Range<usize>> {
        let bar = |byte: &u8| *byte == b'|';
        Some(value.iter().position(bar)?..value.iter().rposition(bar)?)
    }

    #[test]
    fn a_split_value_reads_as_it_was() {
        let mut parts = Parts::found_by(Some(between_bars));
        for value in [
            "a|same|x",
            "a|same|x",
            "|same|",
            "long name|same|y",
            "bc|same|",
            "||",
            "||",
        ] {
            let whole = Value::from(value);
            let split = parts.split(&whole).unwrap_or(whole);
            assert_eq!((split.bytes(), split.len()), (value.into(), value.len()));
            assert!(!matches!(split, Value::Late(_)) || parts.split(&split).is_none());
        }
        assert!(parts.split(&"no bar".into()).is_none());
    }

    #[test]
    fn equal_parts_are_kept_once() {
        let mut parts = Parts::found_by(Some(between_bars));
        let mut split = |value: &str| parts.split_bytes(value.as_bytes()).map(|split| split.part);
        assert!(split("a|same|").is_none(), "nothing to share it with");
        let (one, other) = (split("b|same|").unwrap(), split("c|same|d").unwrap());
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn parts_that_nobody_shares_make_room() {
        let mut parts = Parts::found_by(Some(between_bars));
        let value = |number: usize| Value::from(format!("|{number}|"));
        parts.split(&value(0));
        let kept = parts.split(&value(0)).unwrap();
        for number in 1..3 * MAX_PARTS {
            assert!(parts.split(&value(number)).is_none());
            assert!(parts.known.len() <= MAX_PARTS);
        }
        assert!(parts.split(&value(0)).is_some());
        assert_eq!(kept, value(0));
        let long = Value::from(format!("|{}|", "x".repeat(MAX_PART_BYTES)));
        assert!((0..2).all(|_| parts.split(&long).is_none()));
    }
}
