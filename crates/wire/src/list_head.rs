//! The words around the items of a list.

use watchkeeper_meta::ResourceVersion;

/// What a list says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListHead {
    /// `apiVersion` of the list, which is that of its items.
    pub api_version: String,
    /// `kind` of the list: that of its items and `List`.
    pub kind: String,
    /// The state of the resource the list was read from.
    pub resource_version: ResourceVersion,
    /// Where the next page begins; empty on the last one.
    pub continue_token: String,
    /// How many items are left after this page, where the server knows.
    pub remaining_item_count: Option<i64>,
}

impl ListHead {
    /// The kind of the items: `Pod` for a `PodList`; `None` where the list's kind does not say.
    pub fn item_kind(&self) -> Option<&str> {
        self.kind.strip_suffix("List").filter(|kind| !kind.is_empty())
    }
}
