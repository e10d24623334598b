//! The five words a watch stream can begin an event with.

use std::fmt;

/// The kind of an event in a watch stream.
///
/// A server may one day send a word this list does not have; [`WatchEventKind::parse`] then returns `None`
/// and the caller reports the event instead of guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEventKind {
    /// The object is new to this watch: created, or it has entered the selection.
    Added,
    /// The object has changed.
    Modified,
    /// The object is gone, or has left the selection; the event carries its last state.
    Deleted,
    /// Nothing happened up to the carried version; only the position moves.
    Bookmark,
    /// The stream has failed; the event carries a `Status` and is the last one.
    Error,
}

impl WatchEventKind {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }

    /// Reads the word on the wire; `None` for a word Kubernetes v1.37 does not send.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "ADDED" => Some(Self::Added),
            "MODIFIED" => Some(Self::Modified),
            "DELETED" => Some(Self::Deleted),
            "BOOKMARK" => Some(Self::Bookmark),
            "ERROR" => Some(Self::Error),
            _ => None,
        }
    }
}

impl fmt::Display for WatchEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        use WatchEventKind::*;
        for kind in [Added, Modified, Deleted, Bookmark, Error] {
            assert_eq!(WatchEventKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(WatchEventKind::parse("added"), None);
    }
}
