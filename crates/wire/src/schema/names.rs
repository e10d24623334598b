//! What has a name: a table that is asked for every member of every object, and for the kind of each.
//!
//! A name's first and last eight bytes and its length tell it apart from every other up to sixteen bytes, which nearly
//! all are no longer than. So a look-up is a multiplication, a step or two through a table that is half empty, and two
//! comparisons of words; a name is only read as a text where it is longer.

use super::Text;

/// Names, such as the JSON names of a type's fields, embedded ones included.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Names {
    names: Box<[Name]>,
    /// As many places as a power of two. Where a name hashes to, or in the places behind it: its position among the names. [`VACANT`] ends the search.
    table: Box<[u16]>,
    /// How far a hash is shifted so that as many bits are left as the table has places.
    shift: u32,
}

/// A name and what has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Name {
    text: Text,
    /// The position of the field that has the name, or of the embedded field to look further in.
    position: u16,
    ends: Ends,
}

/// How a name begins and ends. Equal for two names of one length of at most [`TOLD_APART`] bytes only if they are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ends {
    first: u64,
    last: u64,
}

/// A place in the table without a name.
const VACANT: u16 = u16::MAX;

/// Names up to this length have no byte that is not among their [`Ends`].
const TOLD_APART: usize = 16;

impl Names {
    /// Of two equal names the first one counts.
    pub(super) fn new(names: Vec<Name>) -> Self {
        let places = (names.len() * 2).next_power_of_two().max(2);
        let mut built = Self {
            table: vec![VACANT; places].into(),
            shift: u64::BITS - places.trailing_zeros(),
            names: names.into(),
        };
        for index in 0..built.names.len() {
            let name = &built.names[index];
            let mut place = built.place_of(name.ends, name.text.len());
            while built.table[place] != VACANT {
                place = (place + 1) & (places - 1);
            }
            built.table[place] = index as u16;
        }
        built
    }

    /// The position of what has this name.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let ends = Ends::of(name.as_bytes());
        let mut place = self.place_of(ends, name.len());
        loop {
            // A table has vacant places; a type without names has no table.
            let found = self.names.get(usize::from(*self.table.get(place)?))?;
            if found.is(name, ends) {
                return Some(usize::from(found.position));
            }
            place = (place + 1) & (self.table.len() - 1);
        }
    }

    #[inline(always)]
    fn place_of(&self, ends: Ends, length: usize) -> usize {
        // 2^64 divided by the golden ratio: it spreads the low bits of a word over its high ones.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (ends.first ^ ends.last.rotate_left(29)).wrapping_add(length as u64);
        (mixed.wrapping_mul(SPREAD) >> self.shift) as usize
    }
}

impl Name {
    pub(super) fn new(text: Text, position: u16) -> Self {
        let ends = Ends::of(text.as_bytes());
        Self { text, position, ends }
    }

    /// The same name, seen from a type that embeds the one it is of.
    pub(super) fn within(self, position: u16) -> Self {
        Self { position, ..self }
    }

    #[inline(always)]
    fn is(&self, name: &str, ends: Ends) -> bool {
        self.ends == ends
            && self.text.len() == name.len()
            && (name.len() <= TOLD_APART || *self.text == *name)
    }
}

impl Ends {
    #[inline(always)]
    fn of(name: &[u8]) -> Self {
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            return Self {
                first: u64::from_le_bytes(*first),
                last: u64::from_le_bytes(*last),
            };
        }
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            return Self {
                first: u64::from(u32::from_le_bytes(*first)),
                last: u64::from(u32::from_le_bytes(*last)),
            };
        }
        // Three bytes at most: the first, the one in the middle and the last are all of them.
        let byte = |at: usize| u64::from(name.get(at).copied().unwrap_or_default());
        Self {
            first: byte(0) | byte(name.len() / 2) << 8,
            last: byte(name.len().saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn names(texts: &[String]) -> Names {
        let numbered = texts.iter().zip(0..);
        Names::new(
            numbered
                .map(|(text, position)| Name::new(text.clone().into(), position))
                .collect(),
        )
    }

    #[test]
    fn a_type_without_names_has_none() {
        assert_eq!(Names::default().find("name"), None);
        assert_eq!(names(&[]).find(""), None);
    }

    proptest! {
        #[test]
        fn a_map_of_texts_agrees(
            known in proptest::collection::vec("[abA]{0,20}|[a-z]{7,9}Name|\\PC{0,6}", 0..60),
            asked in proptest::collection::vec("[abA]{0,20}|[a-z]{7,9}Name|\\PC{0,6}", 0..60),
        ) {
            let mut expected = HashMap::new();
            for (index, text) in known.iter().enumerate() {
                expected.entry(text).or_insert(index);
            }
            let names = names(&known);
            for text in known.iter().chain(&asked) {
                prop_assert_eq!(names.find(text), expected.get(text).copied());
            }
        }
    }
}
