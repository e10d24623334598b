//! The checks: their names, and the guarantee each of them verifies.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A guarantee that is checked on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// Events are ordered by version.
    Ordered,
    /// No change is delivered twice.
    Unique,
    /// No change is missing.
    GapFree,
    /// A watch continues where another one ended.
    Resumable,
    /// Events show the actual changes.
    Faithful,
    /// Selection by label.
    LabelSelector,
    /// Selection by field.
    FieldSelector,
    /// Bookmarks are correct.
    Bookmarkable,
    /// Bookmarks are sent.
    BookmarkSent,
    /// A watch that starts with a list.
    StreamingList,
    /// An expired version.
    Expired,
    /// A write without a change.
    NoOp,
    /// The most recent list.
    ListLatest,
    /// A list at any version.
    ListAny,
    /// A list not older than a version.
    ListNotOlderThan,
    /// A list at an exact version.
    ListExact,
    /// A list at a version not reached yet.
    ListFuture,
    /// A paginated list.
    Pagination,
}

/// An unknown check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no check {0:?}")]
pub struct UnknownCheck(String);

impl Check {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 18] = [
        Self::Ordered,
        Self::Unique,
        Self::GapFree,
        Self::Resumable,
        Self::Faithful,
        Self::LabelSelector,
        Self::FieldSelector,
        Self::Bookmarkable,
        Self::BookmarkSent,
        Self::StreamingList,
        Self::Expired,
        Self::NoOp,
        Self::ListLatest,
        Self::ListAny,
        Self::ListNotOlderThan,
        Self::ListExact,
        Self::ListFuture,
        Self::Pagination,
    ];

    /// The name, as typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Unique => "unique",
            Self::GapFree => "gap-free",
            Self::Resumable => "resumable",
            Self::Faithful => "faithful",
            Self::LabelSelector => "label-selector",
            Self::FieldSelector => "field-selector",
            Self::Bookmarkable => "bookmarkable",
            Self::BookmarkSent => "bookmark-sent",
            Self::StreamingList => "streaming-list",
            Self::Expired => "expired",
            Self::NoOp => "no-op",
            Self::ListLatest => "list-latest",
            Self::ListAny => "list-any",
            Self::ListNotOlderThan => "list-not-older-than",
            Self::ListExact => "list-exact",
            Self::ListFuture => "list-future",
            Self::Pagination => "pagination",
        }
    }

    /// The guarantee.
    pub fn promise(self) -> &'static str {
        match self {
            Self::Ordered => "the events of a watch come in the order of their resourceVersions",
            Self::Unique => "a watch delivers no change twice, and none that its list shows already",
            Self::GapFree => "a watch delivers every change",
            Self::Resumable => "a watch from a resourceVersion goes on with the next change, or answers 410",
            Self::Faithful => "an event has the type and shows the state of the change that caused it",
            Self::LabelSelector => {
                "lists and watches show what the label selector selects; an object that enters it is ADDED, \
                 one that leaves it is DELETED"
            }
            Self::FieldSelector => "lists and watches show what the field selector selects",
            Self::Bookmarkable => "at a bookmark everything up to its resourceVersion has been delivered",
            Self::BookmarkSent => {
                "a watch that allows bookmarks gets one before its timeout (not guaranteed by the API; \
                 kube-apiserver does it)"
            }
            Self::StreamingList => {
                "sendInitialEvents begins with every object as ADDED, then a bookmark annotated \
                 k8s.io/initial-events-end, then changes"
            }
            Self::Expired => "a resourceVersion that history does not reach back to is answered with 410",
            Self::NoOp => "a write that changes nothing keeps the resourceVersion and is no event",
            Self::ListLatest => "a list without a resourceVersion shows every write that was answered before",
            Self::ListAny => "a list at resourceVersion 0 shows the objects as they were at its version",
            Self::ListNotOlderThan => "a list with resourceVersionMatch NotOlderThan is not older",
            Self::ListExact => "a list with resourceVersionMatch Exact shows the objects at that version",
            Self::ListFuture => "a list that must not be older than a version of the future is refused",
            Self::Pagination => "the pages of a list are one list, whatever is written between them",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Check {
    type Err = UnknownCheck;

    fn from_str(name: &str) -> Result<Self, UnknownCheck> {
        let found = Self::ALL.into_iter().find(|check| check.name() == name);
        found.ok_or_else(|| UnknownCheck(name.to_owned()))
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
