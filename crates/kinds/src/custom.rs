//! Custom kinds: how a stored definition becomes kinds like the built-in ones.
//!
//! [`KindVersion::compile`](crate::KindVersion::compile) makes one [`KindVersion`](crate::KindVersion) per version, with one schema for all of them. What it has
//! beyond a built-in kind is a [`CustomVersion`]: the rules for its values, its expressions, and the columns that
//! the definition asks for. Its schema is the same structure as the built-in one, so bodies, patches, apply,
//! defaults and managed fields have one implementation.

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

/// What a version of a custom kind has beyond what every resource has.
#[derive(Debug)]
pub struct CustomVersion {
    /// The version's place among those of its kind.
    pub number: u8,
    /// Whether it has an address; every version has a type.
    pub is_served: bool,
    /// `example.com/v1`, the version that objects are stored in.
    pub stored_api_version: String,
    /// What values may be.
    pub(crate) rules: Rules,
    /// What else must hold, as expressions; `None` if nothing does.
    pub(crate) expressions: Option<Expressions>,
    /// The schema as it was written.
    pub open_api: Value,
    /// The columns of a Table besides the name.
    pub(crate) columns: Vec<Column>,
    /// The fields that selectors may name: `spec.color`.
    pub selectable: Vec<(String, JsonPath)>,
    /// Where the numbers of a scale stand, if there is one.
    pub scale: Option<ScalePaths>,
    /// What everyone hears who uses the version.
    pub deprecation: Option<String>,
    /// Who converts between versions, if more than their name changes: the `webhook` of the definition's `conversion`.
    pub conversion_webhook: Option<Value>,
    pub(crate) versions: Versions,
}

/// Where the numbers of a scale stand in an object.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// How many there are to be.
    pub wanted: JsonPath,
    /// How many there are.
    pub found: JsonPath,
    /// Which pods are counted.
    pub selector: Option<JsonPath>,
}

impl CustomVersion {
    /// The versions of the kind, if it has several.
    pub fn versions(&self) -> Option<&dyn endpoint::Versions> {
        self.versions.has_several().then_some(&self.versions)
    }

    /// The type that objects have in the version they are stored in.
    pub fn stored_type(&self) -> Option<TypeId> {
        self.versions.0.get(&self.stored_api_version).copied()
    }
}
