//! A hash table of names, looked up for every member of every object and for every kind.
//!
//! A name's first and last eight bytes and its length identify it up to sixteen bytes, and nearly all names are no
//! longer. A look-up is a multiplication, a step or two through a half-empty table and two comparisons of words; only
//! longer names are compared as text.

use super::Text;

/// Names, such as the JSON names of a type's fields, embedded ones included.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Names {
    names: Box<[Name]>,
    /// Open addressing with a power of two of slots. Each holds the position of a name; [`VACANT`] ends the search.
    table: Box<[u16]>,
    /// The shift that leaves as many bits of a hash as the table has slots.
    shift: u32,
}

/// A name and the position it stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Name {
    text: Text,
    /// The position of the field, or of the embedded field that contains it.
    position: u16,
    ends: Ends,
}

/// The ends of a name. Two names of equal length up to [`TOLD_APART`] bytes are equal if their ends are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ends {
    first: u64,
    last: u64,
}

/// An empty slot of the table.
const VACANT: u16 = u16::MAX;

/// Names up to this length are fully contained in their [`Ends`].
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

    /// The position of this name.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let ends = Ends::of(name.as_bytes());
        let mut place = self.place_of(ends, name.len());
        loop {
            // The table always has vacant slots; a type without names has no table.
            let found = self.names.get(usize::from(*self.table.get(place)?))?;
            if found.is(name, ends) {
                return Some(usize::from(found.position));
            }
            place = (place + 1) & (self.table.len() - 1);
        }
    }

    #[inline(always)]
    fn place_of(&self, ends: Ends, length: usize) -> usize {
        // 2^64 divided by the golden ratio: spreads the low bits of a word over its high ones.
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

    /// The same name, seen from an embedding type.
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
        // Three bytes at most: the first, the middle and the last are all of them.
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
