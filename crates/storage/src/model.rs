//! The data a store returns: [`KeyValue`] to readers, [`Change`] to feeds. All of it is shared, never copied.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::millis;
use crate::transform::Seal;
use crate::{Revision, Value};

/// A key. One allocation is shared by the index, the history and every reader.
pub type Key = Arc<str>;

/// A key with one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// The value, shared with the store.
    pub value: Value,
    /// The revision that created the key. A key that is deleted and created again has a new one.
    pub create_revision: Revision,
    /// The revision of this value.
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
    pub value: Option<Value>,
    /// The previous value and its revision; `None` if this change created the key.
    pub previous: Option<(Value, Revision)>,
    /// The revision that created the key; for a deletion, that of the deleted key.
    pub create_revision: Revision,
}

/// One mutation, as an engine stores it: all that recovery needs to rebuild the index and the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    /// `None` for a deletion.
    pub(crate) value: Option<Value>,
    pub(crate) create_revision: Revision,
    pub(crate) written_at: UnixMillis,
    /// When the key expires.
    pub(crate) expires_at: Option<UnixMillis>,
    /// The form in which it was stored.
    pub(crate) seal: Seal,
}

/// A change with its own revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedChange {
    /// Its revision.
    pub revision: Revision,
    /// The key that changed.
    pub key: Key,
    /// The new value; `None` if the key was deleted.
    pub value: Option<Value>,
    /// When it was written.
    pub written_at: SystemTime,
}

impl ImportedChange {
    pub(crate) fn size(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Value::len)
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

/// Milliseconds since 1970. Expiry must survive a restart, so times are absolute.
pub(crate) type UnixMillis = u64;
