//! Serialization of a derived kind: metadata, spec and status with `apiVersion` and `kind`.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use watchkeeper_meta::Resource;

/// The parts of an object.
#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    bound = "M: Default + Deserialize<'de>, S: Deserialize<'de>, T: Deserialize<'de>"
)]
pub struct Parts<M, S, T> {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    pub metadata: M,
    pub spec: S,
    pub status: Option<T>,
}

/// Serializes an object with its type.
pub fn write<O: Serializer>(
    serializer: O,
    resource: &Resource,
    metadata: &impl Serialize,
    spec: &impl Serialize,
    status: Option<&impl Serialize>,
) -> Result<O::Ok, O::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("apiVersion", &resource.group_version_kind().api_version())?;
    map.serialize_entry("kind", &resource.kind)?;
    map.serialize_entry("metadata", metadata)?;
    map.serialize_entry("spec", spec)?;
    if let Some(status) = status {
        map.serialize_entry("status", status)?;
    }
    map.end()
}

/// Deserializes an object. Its type may be missing, as in items of lists; another type is refused.
pub fn read<'de, D, M, S, T>(deserializer: D, resource: &Resource) -> Result<Parts<M, S, T>, D::Error>
where
    D: Deserializer<'de>,
    M: Default + Deserialize<'de>,
    S: Deserialize<'de>,
    T: Deserialize<'de>,
{
    let parts = Parts::deserialize(deserializer)?;
    let expected = resource.group_version_kind();
    let is_stated = |stated: &Option<String>, expected: &str| {
        stated
            .as_ref()
            .is_none_or(|stated| stated.is_empty() || stated == expected)
    };
    let api_version = expected.api_version();
    if is_stated(&parts.api_version, &api_version) && is_stated(&parts.kind, &expected.kind) {
        return Ok(parts);
    }
    let stated = |text: Option<String>| text.unwrap_or_default();
    Err(D::Error::custom(format_args!(
        "expected {api_version} {}, found {} {}",
        expected.kind,
        stated(parts.api_version),
        stated(parts.kind)
    )))
}
