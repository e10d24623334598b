//! What becomes of an object on its way to the store.

use serde_json::Value;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::difference::Difference;

use crate::object::Live;

/// What a write wants an object to become.
pub(crate) struct Proposal {
    /// The new state.
    pub(crate) object: Value,
    /// Who will manage its fields.
    pub(crate) managed: Managed,
}

/// Who manages the fields of an object after a write.
pub(crate) enum Managed {
    /// Whoever did, and the writer what it changed.
    ByChange,
    /// Whoever did: what is written is nobody's word.
    AsBefore,
    /// Those whom the write has worked out.
    By(Managers),
}

/// The new state of an object, as far as it is complete.
pub(crate) struct Draft<'l> {
    /// The object as it is; `None` if it is new.
    pub(crate) live: Option<&'l Live>,
    pub(crate) object: Value,
    pub(crate) managers: Managers,
    /// Whether the managers are known, so that the change is not laid to the writer.
    pub(super) is_recorded: bool,
    /// What the client says of managed fields, if it may.
    pub(super) given_managers: Option<Value>,
    /// Where it differs from what is stored; everywhere if that is not known.
    pub(super) difference: Difference,
    /// What the name of a new object begins with, if the server is to make it up.
    pub(super) name_prefix: Option<String>,
}
