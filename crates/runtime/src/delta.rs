//! What a change means to those who follow a store: what happened, from what to what, and why they are told.
//!
//! client-go tells the same story with five delta types, a tombstone that hides in a deleted object, and guesses by
//! equal versions. Here it is said outright:
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
//! A delete of an object nobody knew is no news and tells nothing.

use std::sync::Arc;

use watchkeeper_client::ResourceType;
use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::Object;

/// One change, of objects or of the structs they decode to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<T = Object> {
    /// The object was not there before.
    Added {
        /// As it is now.
        object: T,
        /// Why this is told.
        cause: Cause,
    },
    /// The object is another one than before, or, with [`Cause::Resync`], the same.
    Updated {
        /// As it was.
        old: T,
        /// As it is now.
        new: T,
        /// Why this is told.
        cause: Cause,
    },
    /// The object is gone.
    Deleted {
        /// As it was known before. The change that ended it may have been one of labels or owners, too.
        old: T,
        /// As it was last seen.
        last: T,
        /// Whether `last` is the state in which it was deleted. Otherwise its end was missed, and so perhaps were
        /// changes before it.
        final_state: bool,
        /// Why this is told.
        cause: Cause,
    },
}

/// Why a change is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It is in the first list, or was there when the subscriber joined.
    Initial,
    /// The server said so.
    Watch,
    /// A new list, after a gap in the watch, showed it.
    Relist,
    /// Nothing has changed; the subscriber asked to be told now and then.
    Resync,
}

impl<T> Delta<T> {
    /// The object, as it is or as it was last.
    pub fn object(&self) -> &T {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// The object as it was before, if it was there.
    pub fn old(&self) -> Option<&T> {
        match self {
            Self::Added { .. } => None,
            Self::Updated { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }

    /// Why this is told.
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

    /// Whether another object of the same name has taken its place: a delete and an add of which the watch or
    /// the list shows only the result.
    pub fn is_recreated(&self) -> bool {
        matches!(self, Self::Updated { old, new, .. } if old.uid() != new.uid())
    }

    /// A recreated object as what it is: the end of one, then the beginning of another. Others stay as they are.
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
