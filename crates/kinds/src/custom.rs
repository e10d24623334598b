//! Custom kinds: compiled from stored definitions into the same type as built-in ones.
//!
//! [`KindVersion::compile`](crate::KindVersion::compile) makes one [`KindVersion`](crate::KindVersion) per version,
//! with one schema for all of them. Its additional parts are in [`CustomVersion`]: value rules, CEL rules and printer
//! columns. Its schema has the same structure as the built-in one, so bodies, patches, apply, defaults and managed
//! fields have one implementation.

pub(crate) mod expressions;
mod formats;
pub mod json_path;
pub(crate) mod nulls;
pub(crate) mod rules;
mod scale_rules;
pub(crate) mod table;
pub(crate) mod versions;

use serde_json::Value;
use watchkeeper_patch::endpoint;
use watchkeeper_wire::schema::TypeId;

use self::expressions::Expressions;
use self::json_path::JsonPath;
use self::rules::Rules;
use self::table::Column;
use self::versions::Versions;

/// The additional parts of a version of a custom kind.
#[derive(Debug)]
pub struct CustomVersion {
    /// The index of the version among those of its kind.
    pub number: u8,
    /// True if it is served.
    pub is_served: bool,
    /// `example.com/v1`, the storage version.
    pub stored_api_version: String,
    /// The value rules.
    pub(crate) rules: Rules,
    /// The CEL rules; `None` if there are none.
    pub(crate) expressions: Option<Expressions>,
    /// The schema as written.
    pub open_api: Value,
    /// The columns of a Table besides the name.
    pub(crate) columns: Vec<Column>,
    /// The selectable fields: `spec.color`.
    pub selectable: Vec<(String, JsonPath)>,
    /// The paths of the scale subresource, if there is one.
    pub scale: Option<ScalePaths>,
    /// The deprecation warning.
    pub deprecation: Option<String>,
    /// The conversion webhook: the `webhook` of the definition's `conversion`. `None` if only the version name
    /// changes.
    pub conversion_webhook: Option<Value>,
    pub(crate) versions: Versions,
}

/// The paths of a scale subresource.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// The desired number of replicas.
    pub wanted: JsonPath,
    /// The current number of replicas.
    pub found: JsonPath,
    /// The pod selector.
    pub selector: Option<JsonPath>,
}

impl CustomVersion {
    /// The versions of the kind, if it has several.
    pub fn versions(&self) -> Option<&dyn endpoint::Versions> {
        self.versions.has_several().then_some(&self.versions)
    }

    /// The type of objects in the storage version.
    pub fn stored_type(&self) -> Option<TypeId> {
        self.versions.0.get(&self.stored_api_version).copied()
    }
}
