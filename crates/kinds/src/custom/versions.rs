//! Conversion between the versions of a custom kind without a webhook: only `apiVersion` changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchkeeper_patch::endpoint;
use watchkeeper_wire::schema::TypeId;

/// The versions of a kind with their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(pub(crate) BTreeMap<String, TypeId>);

impl Versions {
    pub(crate) fn has_several(&self) -> bool {
        self.0.len() > 1
    }
}

impl endpoint::Versions for Versions {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(TypeId, Value)> {
        let id = *self.0.get(api_version)?;
        let mut converted = object.clone();
        converted["apiVersion"] = json!(api_version);
        Some((id, converted))
    }
}
