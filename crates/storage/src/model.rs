//! What a store hands out: [`KeyValue`] to readers, [`Change`] to feeds. All of it is shared, never copied.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::Revision;
use crate::clock::millis;
use crate::transform::Seal;

/// A key. One allocation is shared by the index, the history and every reader.
pub type Key = Arc<str>;

/// A key with one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// The value, shared with the store.
    pub value: Bytes,
    /// When the key came to be. Deleting and creating it again gives it a new one.
    pub create_revision: Revision,
    /// When it got this value.
    pub mod_revision: Revision,
}

/// One mutation, as a feed delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The mutation's revision.
    pub revision: Revision,
    /// The key that changed.
    pub key: Key,
    /// The new value; `None` if the key was deleted.
    pub value: Option<Bytes>,
    /// What the key held before, and since when; `None` if this change created it.
    pub previous: Option<(Bytes, Revision)>,
    /// When the key was created; for a deletion, when the deleted key was.
    pub create_revision: Revision,
}

/// One mutation, as an engine keeps it: all that recovery needs to make the index and the history again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    /// `None` for a deletion.
    pub(crate) value: Option<Bytes>,
    pub(crate) create_revision: Revision,
    pub(crate) written_at: UnixMillis,
    /// When the key expires.
    pub(crate) expires_at: Option<UnixMillis>,
    /// How it was stored.
    pub(crate) seal: Seal,
}

/// A change with a revision of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedChange {
    /// Its revision.
    pub revision: Revision,
    /// The key that changed.
    pub key: Key,
    /// The new value; `None` if the key was deleted.
    pub value: Option<Bytes>,
    /// When it was written.
    pub written_at: SystemTime,
}

impl ImportedChange {
    pub(crate) fn size(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Bytes::len)
    }

    pub(crate) fn into_record(self, created: Option<Revision>) -> Record {
        let since_1970 = self.written_at.duration_since(UNIX_EPOCH);
        Record {
            revision: self.revision,
            key: self.key,
            value: self.value,
            create_revision: created.unwrap_or(self.revision),
            written_at: millis(since_1970.unwrap_or(Duration::ZERO)),
            expires_at: None,
            seal: Seal::Current,
        }
    }
}

/// Milliseconds since 1970. Time is kept this way because expiry must survive a restart.
pub(crate) type UnixMillis = u64;
