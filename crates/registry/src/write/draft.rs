//! The state of an object on its way to the store.

use serde_json::Value;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::difference::Difference;

use crate::object::Live;

/// The requested state of an object.
pub(crate) struct Proposal {
    /// The new state.
    pub(crate) object: Value,
    /// The managers of its fields.
    pub(crate) managed: Managed,
}

/// The managers of an object's fields after a write.
pub(crate) enum Managed {
    /// The previous managers, and the writer for the fields it changed.
    ByChange,
    /// The previous managers: the written fields belong to nobody.
    AsBefore,
    /// The managers computed by the write.
    By(Managers),
}

/// The new state of an object, between phases.
pub(crate) struct Draft<'l> {
    /// The live object; `None` if it is new.
    pub(crate) live: Option<&'l Live>,
    pub(crate) object: Value,
    pub(crate) managers: Managers,
    /// True if the managers are final, so that the change is not attributed to the writer.
    pub(super) is_recorded: bool,
    /// The managed fields of the request, if it may set them.
    pub(super) given_managers: Option<Value>,
    /// The difference from the stored object; everywhere if it is unknown.
    pub(super) difference: Difference,
    /// The `generateName` of a new object whose name the server generates.
    pub(super) name_prefix: Option<String>,
}
