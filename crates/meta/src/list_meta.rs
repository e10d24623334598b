//! The metadata of a list and of a `Status`: its resourceVersion and the token of the next page.

use serde::{Deserialize, Serialize};

use crate::ResourceVersion;

/// `metadata` of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version the list was read at; a watch starts here.
    #[serde(skip_serializing_if = "ResourceVersion::is_unset")]
    pub resource_version: ResourceVersion,
    /// The continue token of the next page; empty on the last one.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The number of items after this page, if the server knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}
