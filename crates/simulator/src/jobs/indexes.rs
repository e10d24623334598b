//! Sets of indexes as text: `0,2-4`.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The completed indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<u64>);

impl Indexes {
    /// Parses them, up to `end`. Invalid parts are skipped: the text is written here.
    pub(super) fn parse(text: &str, end: u64) -> Self {
        let parts = text.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            Some(first..last.saturating_add(1).min(end))
        });
        Self(parts.flatten().collect())
    }

    pub(super) fn contains(&self, index: u64) -> bool {
        self.0.contains(&index)
    }

    pub(super) fn insert(&mut self, index: u64) {
        self.0.insert(index);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Two consecutive indexes are written separately, more as a range.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut all = self.0.iter().copied().peekable();
        while let Some(first) = all.next() {
            let mut last = first;
            while let Some(next) = all.next_if_eq(&(last + 1)) {
                last = next;
            }
            let comma = if text.is_empty() { "" } else { "," };
            let _ = match last - first {
                0 => write!(text, "{comma}{first}"),
                1 => write!(text, "{comma}{first},{last}"),
                _ => write!(text, "{comma}{first}-{last}"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Indexes;

    #[test]
    fn indexes_read_as_they_are_written() {
        for text in ["", "0", "1,3", "0,1", "0-2,5", "1,3-7,9"] {
            assert_eq!(Indexes::parse(text, 10).text(), text);
        }
        assert_eq!(Indexes::parse("0-99999999999", 3).text(), "0-2");
        assert_eq!(Indexes::parse("0,x,2-1", 3).text(), "0");
    }
}
