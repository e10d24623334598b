//! A change of a store as its subscribers see it: the old and the new state, and the cause.
//!
//! client-go has five delta types, a tombstone in place of a deleted object, and compares versions to detect a
//! resync. Here everything is explicit:
//!
//! | client-go | here |
//! |---|---|
//! | Added | `Added`, cause `Watch` |
//! | Updated | `Updated`, cause `Watch`; `Added` if the store did not have the object |
//! | Replaced | `Added` or `Updated` with cause `Initial` or `Relist`; nothing for an object that has not changed |
//! | Sync | `Updated` with `old` = `new`, cause `Resync` |
//! | Deleted | `Deleted`, `final_state` true |
//! | Deleted with `DeletedFinalStateUnknown` | `Deleted`, `final_state` false: its last known state |
//!
//! Deleting an unknown object is not reported.

use std::sync::Arc;

use watchkeeper_client::ResourceType;
use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::Object;

/// A change of an object, or of the struct it decodes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<T = Object> {
    /// The object is new.
    Added {
        /// The current state.
        object: T,
        /// The cause.
        cause: Cause,
    },
    /// The object has changed or, with [`Cause::Resync`], is the same.
    Updated {
        /// The previous state.
        old: T,
        /// The current state.
        new: T,
        /// The cause.
        cause: Cause,
    },
    /// The object was deleted, or no longer matches.
    Deleted {
        /// The previous state. Labels and owners may have changed with the deletion.
        old: T,
        /// The last state seen.
        last: T,
        /// True if `last` is the state in which it was deleted. Otherwise the deletion was missed, and perhaps
        /// changes before it.
        final_state: bool,
        /// The cause.
        cause: Cause,
    },
}

/// The cause of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The first list, or an object that existed when the subscriber joined.
    Initial,
    /// A watch event.
    Watch,
    /// A new list after a gap in the watch.
    Relist,
    /// A periodic resync; nothing has changed.
    Resync,
}

impl<T> Delta<T> {
    /// The object: its current or its last state.
    pub fn object(&self) -> &T {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// The previous state, if the object existed.
    pub fn old(&self) -> Option<&T> {
        match self {
            Self::Added { .. } => None,
            Self::Updated { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }

    /// The cause.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Added { cause, .. } | Self::Updated { cause, .. } | Self::Deleted { cause, .. } => *cause,
        }
    }
}

impl<K: ResourceType> Delta<Arc<K>> {
    /// The object's key.
    pub fn key(&self) -> ObjectKey {
        self.object().key()
    }
}

impl Delta {
    /// The object's key.
    pub fn key(&self) -> ObjectKey {
        self.object().key()
    }

    /// True if an object of the same name but another uid took its place. The watch or list showed only the result of
    /// a delete and an add.
    pub fn is_recreated(&self) -> bool {
        matches!(self, Self::Updated { old, new, .. } if old.uid() != new.uid())
    }

    /// Splits the update of a recreated object into a delete and an add. Other deltas are unchanged.
    pub fn split_recreated(self) -> (Self, Option<Self>) {
        match self {
            Self::Updated { old, new, cause } if old.uid() != new.uid() => {
                let deleted = Self::Deleted {
                    old: old.clone(),
                    last: old,
                    final_state: false,
                    cause,
                };
                (deleted, Some(Self::Added { object: new, cause }))
            }
            other => (other, None),
        }
    }
}
