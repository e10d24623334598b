//! The metadata of an object as an owned struct, for typed kinds.
//!
//! [`Header`](crate::Header) borrows the same fields from an object's bytes. This type owns them and can be written
//! back. It has every field a server sets, so an object that is read and updated loses nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{OwnerReference, ResourceVersion, Time};

/// `metadata` of an object. Empty fields are not written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The name, unique in a namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The prefix of a name the server generates if `name` is empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// The namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The identity of this object: names are reused, uids are not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The version this copy was read at; an update with it conflicts if the object has changed since.
    #[serde(skip_serializing_if = "ResourceVersion::is_unset")]
    pub resource_version: ResourceVersion,
    /// Counts the changes of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Set by the server on an object that is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// The grace period of an object that is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// Labels; selectors match them.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub labels: BTreeMap<String, String>,
    /// Annotations; selectors do not see them.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub annotations: BTreeMap<String, String>,
    /// The owners. The object is garbage collected when all of them are gone.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub owner_references: Vec<OwnerReference<'static>>,
    /// The finalizers that must be removed before the object is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub finalizers: Vec<String>,
    /// The fields each manager owns, as the server wrote them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub managed_fields: Vec<Value>,
}

impl ObjectMeta {
    /// The metadata of an object that has only a name so far.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }
}

/// Reads `null`, which Go writes for an empty map or list, like a missing field.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_a_server_sets_is_written_as_it_was_read() {
        let sent = json!({
            "name": "a", "generateName": "a-", "namespace": "ns", "uid": "u-1", "resourceVersion": "7",
            "generation": 2, "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            "deletionGracePeriodSeconds": 30, "labels": {"a": "b"}, "annotations": {"c": "d"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-0", "controller": true}],
            "finalizers": ["example.com/f"],
            "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        });
        let read: ObjectMeta = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), sent);
    }

    #[test]
    fn null_is_a_field_that_is_not_set() {
        let sent = json!({"name": "a", "creationTimestamp": null, "labels": null, "finalizers": null});
        let read: ObjectMeta = serde_json::from_value(sent).unwrap();
        assert_eq!(read, ObjectMeta::named("a"));
        assert_eq!(serde_json::to_value(read).unwrap(), json!({"name": "a"}));
    }
}
