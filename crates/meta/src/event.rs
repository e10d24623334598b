//! The five event types of a watch stream.

use std::fmt;

/// The type of an event in a watch stream.
///
/// A server may one day send a type this list does not have. [`WatchEventKind::parse`] then returns `None` and the
/// caller reports the event instead of guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEventKind {
    /// The object is new to this watch: it was created, or started to match the selectors.
    Added,
    /// The object has changed.
    Modified,
    /// The object was deleted, or no longer matches the selectors. The event carries its last state.
    Deleted,
    /// Nothing else happened up to this resourceVersion; only the position of the watch moves.
    Bookmark,
    /// The stream failed. The event carries a `Status` and is the last one.
    Error,
}

impl WatchEventKind {
    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }

    /// Reads the text on the wire; `None` for a type Kubernetes v1.37 does not send.
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
