//! Custom kinds: how a stored definition becomes resources that are served like built-in ones.
//!
//! ```text
//! CustomResourceDefinition ─▶ compile: one Definition per served version, one schema for all of them
//!                          ─▶ settle:  names accepted, established, served; on deletion its objects first
//! ```
//!
//! A [`Definition`](crate::definition::Definition) that came of a definition has a [`CustomVersion`], which is what it
//! has beyond the built-in ones. Its schema is the same structure, so bodies, patches, apply, defaults and managed
//! fields have one implementation. What differs is here: objects are stored as JSON ([`stored`]), values are held to
//! the [`rules`] of the kind and to its [`expressions`], and Tables have the columns that the definition asks for ([`table`]).

pub(crate) mod body;
mod compile;
pub(crate) mod expressions;
mod formats;
pub(crate) mod json_path;
pub(crate) mod nulls;
pub(crate) mod rules;
mod settle;
pub(crate) mod stored;
pub(crate) mod table;
mod versions;
pub(crate) mod writing;

use serde_json::Value;
use tokio::sync::watch;
use watchkeeper_patch::endpoint;
use watchkeeper_storage::Revision;
use watchkeeper_wire::schema::TypeId;

use self::expressions::Expressions;
use self::json_path::JsonPath;
use self::rules::Rules;
pub(crate) use self::settle::{CustomKinds, FINALIZER, with_condition};
use self::table::Column;
use self::versions::Versions;

/// What a version of a custom kind has beyond what every resource has.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    /// The version's place among those of its kind.
    pub(crate) number: u8,
    /// Whether it has an address; every version has a type.
    pub(crate) is_served: bool,
    /// `example.com/v1`, the version that objects are stored in.
    pub(crate) stored_api_version: String,
    /// Objects that were written after this have passed this schema; older ones are pruned and defaulted when read.
    pub(crate) schema_since: Revision,
    /// Nothing that happened to the kind before this, which is when it was defined, can be watched.
    pub(crate) served_since: Revision,
    /// What values may be.
    pub(crate) rules: Rules,
    /// What else must hold, as expressions; `None` if nothing does.
    pub(crate) expressions: Option<Expressions>,
    /// The schema as it was written.
    pub(crate) open_api: Value,
    /// The columns of a Table besides the name.
    pub(crate) columns: Vec<Column>,
    /// The fields that selectors may name: `spec.color`.
    pub(crate) selectable: Vec<(String, JsonPath)>,
    /// Where the numbers of a scale stand, if there is one.
    pub(crate) scale: Option<ScalePaths>,
    /// What everyone hears who uses the version.
    pub(crate) deprecation: Option<String>,
    /// Whether the version is served no longer, or otherwise: its watches end.
    pub(crate) is_retired: watch::Sender<bool>,
    /// The kind is going: nothing new is made.
    pub(crate) is_terminating: bool,
    versions: Versions,
}

/// Where the numbers of a scale stand in an object.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    /// How many there are to be.
    pub(crate) wanted: JsonPath,
    /// How many there are.
    pub(crate) found: JsonPath,
    /// Which pods are counted.
    pub(crate) selector: Option<JsonPath>,
}

impl CustomVersion {
    /// The versions of the kind, if it has several.
    pub(crate) fn versions(&self) -> Option<&dyn endpoint::Versions> {
        self.versions.has_several().then_some(&self.versions)
    }

    /// The type that objects have in the version they are stored in.
    pub(crate) fn stored_type(&self) -> Option<TypeId> {
        self.versions.0.get(&self.stored_api_version).copied()
    }

    /// Whether an object that was written at a revision is as this version shows it.
    pub(crate) fn is_current(&self, api_version: &str, revision: Option<Revision>) -> bool {
        self.stored_api_version == api_version && revision.is_none_or(|revision| revision > self.schema_since)
    }
}
