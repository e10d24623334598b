//! Aggregated discovery: all groups, versions and resources in one document (`apidiscovery.k8s.io/v2`).

use std::borrow::Cow;

use serde::Deserialize;
use watchkeeper_meta::{GroupVersion, Resource, Scope};

use super::{ApiGroup, ApiResource, ApiSubresource, ApiVersion, Discovery, DiscoveryFailure};
use crate::nulls::null_is_default;

/// The document.
#[derive(Deserialize)]
pub(super) struct GroupList {
    #[serde(default, deserialize_with = "null_is_default")]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default, deserialize_with = "null_is_default")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "null_is_default")]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "null_is_default")]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    resources: Vec<Served>,
    #[serde(default, deserialize_with = "null_is_default")]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    resource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default, deserialize_with = "null_is_default")]
    scope: String,
    #[serde(default, deserialize_with = "null_is_default")]
    singular_resource: String,
    #[serde(default, deserialize_with = "null_is_default")]
    verbs: Vec<Cow<'static, str>>,
    #[serde(default, deserialize_with = "null_is_default")]
    short_names: Vec<Cow<'static, str>>,
    #[serde(default, deserialize_with = "null_is_default")]
    categories: Vec<Cow<'static, str>>,
    #[serde(default, deserialize_with = "null_is_default")]
    subresources: Vec<ServedPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServedPart {
    subresource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default, deserialize_with = "null_is_default")]
    verbs: Vec<Cow<'static, str>>,
}

/// The kind of a subresource's answer. Its group and version may differ from the resource's.
#[derive(Default, Deserialize)]
struct Kind {
    #[serde(default, deserialize_with = "null_is_default")]
    group: String,
    #[serde(default, deserialize_with = "null_is_default")]
    version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    kind: String,
}

impl Version {
    /// True if the server could not reach the aggregated server of this version and shows cached data.
    fn is_stale(&self) -> bool {
        self.freshness == "Stale"
    }
}

/// Adds the resources of the document.
pub(super) fn add(list: GroupList, discovery: &mut Discovery) {
    for mut group in list.items {
        let name = group.metadata.name;
        let mut versions = Vec::new();
        // Prefers versions whose server is reachable.
        group.versions.sort_by_key(Version::is_stale);
        for version in group.versions {
            if version.is_stale() {
                discovery.failures.push(DiscoveryFailure {
                    group_version: GroupVersion::new(name.clone(), version.version.clone()),
                    reason: "the server's own information is stale".to_owned(),
                });
            }
            // A resource without a kind has no objects; it only carries subresources.
            let resources = version
                .resources
                .into_iter()
                .map(|served| served.read(&name, &version.version))
                .filter(|served| !served.resource.kind.is_empty());
            versions.push(ApiVersion {
                resources: resources.collect(),
                version: version.version,
            });
        }
        discovery.groups.push(ApiGroup { name, versions });
    }
}

impl Served {
    fn read(self, group: &str, version: &str) -> ApiResource {
        let kind = self.response_kind.unwrap_or_default();
        ApiResource {
            resource: Resource {
                group: group.to_owned().into(),
                version: version.to_owned().into(),
                kind: kind.kind.into(),
                plural: self.resource.into(),
                scope: if self.scope == "Namespaced" {
                    Scope::Namespaced
                } else {
                    Scope::Cluster
                },
            },
            singular: self.singular_resource.into(),
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
            subresources: self.subresources.into_iter().map(ServedPart::read).collect(),
        }
    }
}

impl ServedPart {
    fn read(self) -> ApiSubresource {
        let kind = self.response_kind.unwrap_or_default();
        ApiSubresource {
            name: self.subresource.into(),
            kind: kind.kind.into(),
            group_version: (!kind.version.is_empty()).then(|| GroupVersion::new(kind.group, kind.version)),
            verbs: self.verbs,
        }
    }
}
