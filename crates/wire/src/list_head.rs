//! The fields of a list besides its items.

use watchkeeper_meta::ResourceVersion;

/// The list's own fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListHead {
    /// `apiVersion` of the list and of its items.
    pub api_version: String,
    /// `kind` of the list: that of its items followed by `List`.
    pub kind: String,
    /// The resourceVersion the list was read at.
    pub resource_version: ResourceVersion,
    /// The continue token of the next page; empty on the last one.
    pub continue_token: String,
    /// The number of items after this page, if the server knows it.
    pub remaining_item_count: Option<i64>,
    /// The shard selector the server applied. `None` without one, and from a server that ignores it.
    pub shard_selector: Option<String>,
}

impl ListHead {
    /// The kind of the items: `Pod` for a `PodList`; `None` if the list's kind does not end in `List`.
    pub fn item_kind(&self) -> Option<&str> {
        self.kind.strip_suffix("List").filter(|kind| !kind.is_empty())
    }
}
