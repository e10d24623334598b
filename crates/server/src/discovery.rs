//! Discovery: the groups, versions and resources of the [`Catalog`], as one document per group and version, or
//! aggregated in one.

use std::borrow::Cow;

use aws_lc_rs::digest;
use serde::Serialize;
use serde_json::Value;

use watchkeeper_meta::{ApiSubresource, GroupVersion, Scope};

use crate::catalog::{ApiGroup, ApiVersion, Catalog, ServedResource};

/// `/api`: the versions of the core group.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiVersions {
    kind: &'static str,
    versions: Vec<String>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_addresses: [ServerAddress; 1],
}

#[derive(Debug, Serialize)]
struct ServerAddress {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    server_address: String,
}

/// `/apis`: the other groups.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<Group<'a>>,
}

/// `/apis/{group}`, or one entry of `/apis`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'a str,
    versions: Vec<GroupVersionEntry>,
    preferred_version: GroupVersionEntry,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersionEntry {
    group_version: String,
    version: String,
}

/// `/api/{version}`, `/apis/{group}/{version}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceList<'a> {
    kind: &'static str,
    /// Omitted for the core group, as in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ResourceEntry<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceEntry<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    kind: &'a str,
    verbs: &'a [Cow<'static, str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [std::borrow::Cow<'static, str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [std::borrow::Cow<'static, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

impl ApiVersions {
    pub(crate) fn of(catalog: &Catalog, server_address: String) -> Self {
        let core = catalog
            .group("")
            .map(|core| core.versions.as_slice())
            .unwrap_or_default();
        Self {
            kind: "APIVersions",
            versions: core.iter().map(|version| version.name.to_string()).collect(),
            server_addresses: [ServerAddress {
                client_cidr: "0.0.0.0/0",
                server_address,
            }],
        }
    }
}

impl<'a> GroupList<'a> {
    pub(crate) fn of(catalog: &'a Catalog) -> Self {
        let groups = named_groups(catalog).map(|group| Group {
            kind: None,
            api_version: None,
            ..Group::of(group)
        });
        Self {
            kind: "APIGroupList",
            api_version: "v1",
            groups: groups.collect(),
        }
    }
}

impl<'a> Group<'a> {
    pub(crate) fn of(group: &'a ApiGroup) -> Self {
        let versions: Vec<_> = group
            .versions
            .iter()
            .map(|version| entry(group, version))
            .collect();
        Self {
            kind: Some("APIGroup"),
            api_version: Some("v1"),
            name: &group.name,
            preferred_version: versions[0].clone(),
            versions,
        }
    }
}

fn entry(group: &ApiGroup, version: &ApiVersion) -> GroupVersionEntry {
    GroupVersionEntry {
        group_version: GroupVersion::new(group.name.clone(), version.name.clone()).to_string(),
        version: version.name.to_string(),
    }
}

/// Every group but core, which has its own path.
fn named_groups(catalog: &Catalog) -> impl Iterator<Item = &ApiGroup> {
    let groups = catalog.groups().iter().map(|group| &**group);
    groups.filter(|group| !group.name.is_empty())
}

impl<'a> ResourceList<'a> {
    pub(crate) fn of(group: &str, version: &'a ApiVersion) -> Self {
        Self {
            kind: "APIResourceList",
            api_version: (!group.is_empty()).then_some("v1"),
            group_version: GroupVersion::new(group.to_owned(), version.name.clone()).to_string(),
            resources: version
                .resources
                .iter()
                .flat_map(|resource| entries(resource))
                .collect(),
        }
    }
}

/// The resource itself, then its subresources.
fn entries(resource: &ServedResource) -> impl Iterator<Item = ResourceEntry<'_>> {
    let own = ResourceEntry {
        name: resource.resource.plural.to_string(),
        singular_name: &resource.singular,
        namespaced: resource.resource.scope == Scope::Namespaced,
        group: "",
        version: "",
        kind: &resource.resource.kind,
        verbs: &resource.verbs,
        short_names: &resource.short_names,
        categories: &resource.categories,
        storage_version_hash: resource.storage_version_hash(),
    };
    let subresources = resource.subresources.iter().map(|subresource| {
        let (group, version) = place(subresource);
        ResourceEntry {
            name: format!("{}/{}", resource.resource.plural, subresource.name),
            singular_name: "",
            namespaced: resource.resource.scope == Scope::Namespaced,
            group,
            version,
            kind: &subresource.kind,
            verbs: &subresource.verbs,
            short_names: &[],
            categories: &[],
            storage_version_hash: None,
        }
    });
    std::iter::once(own).chain(subresources)
}

/// Group and version of a subresource's kind; empty if they are the resource's.
fn place(subresource: &ApiSubresource) -> (&str, &str) {
    match &subresource.group_version {
        Some(place) => (&place.group, &place.version),
        None => ("", ""),
    }
}

/// All groups in one document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Aggregated<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: NoFields,
    items: Vec<AggregatedGroup<'a>>,
}

#[derive(Debug, Serialize)]
struct NoFields {}

#[derive(Debug, Serialize)]
struct AggregatedGroup<'a> {
    metadata: GroupMetadata<'a>,
    versions: Vec<AggregatedVersion<'a>>,
}

#[derive(Debug, Serialize)]
struct GroupMetadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct AggregatedVersion<'a> {
    version: &'a str,
    resources: AggregatedResources<'a>,
    freshness: &'static str,
}

/// This server's own resources, or another server's as it lists them.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AggregatedResources<'a> {
    Own(Vec<AggregatedResource<'a>>),
    Remote(&'a [Value]),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource<'a> {
    resource: &'a str,
    response_kind: ResponseKind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'a [Cow<'static, str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [std::borrow::Cow<'static, str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [std::borrow::Cow<'static, str>],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<AggregatedSubresource<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedSubresource<'a> {
    subresource: &'a str,
    response_kind: ResponseKind<'a>,
    verbs: &'a [Cow<'static, str>],
}

/// Group and version are empty if they are the document's.
#[derive(Debug, Serialize)]
struct ResponseKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> Aggregated<'a> {
    /// `/api`: only core.
    pub(crate) fn core(catalog: &'a Catalog) -> Self {
        Self::of(catalog.group("").into_iter())
    }

    /// `/apis`: the other groups.
    pub(crate) fn groups(catalog: &'a Catalog) -> Self {
        Self::of(named_groups(catalog))
    }

    fn of(groups: impl Iterator<Item = &'a ApiGroup>) -> Self {
        Self {
            kind: "APIGroupDiscoveryList",
            api_version: "apidiscovery.k8s.io/v2",
            metadata: NoFields {},
            items: groups.map(aggregated_group).collect(),
        }
    }
}

fn aggregated_group(group: &ApiGroup) -> AggregatedGroup<'_> {
    AggregatedGroup {
        metadata: GroupMetadata { name: &group.name },
        versions: group.versions.iter().map(aggregated_version).collect(),
    }
}

fn aggregated_version(version: &ApiVersion) -> AggregatedVersion<'_> {
    let own = version.resources.iter();
    let own = own.map(|resource| aggregated_resource(resource));
    let (resources, is_current) = match &version.remote {
        Some(remote) => (AggregatedResources::Remote(&remote.resources), remote.is_current),
        None => (AggregatedResources::Own(own.collect()), true),
    };
    AggregatedVersion {
        version: &version.name,
        resources,
        freshness: if is_current { "Current" } else { "Stale" },
    }
}

fn aggregated_resource(resource: &ServedResource) -> AggregatedResource<'_> {
    AggregatedResource {
        resource: &resource.resource.plural,
        response_kind: ResponseKind {
            group: "",
            version: "",
            kind: &resource.resource.kind,
        },
        scope: match resource.resource.scope {
            Scope::Cluster => "Cluster",
            Scope::Namespaced => "Namespaced",
        },
        singular_resource: &resource.singular,
        verbs: &resource.verbs,
        short_names: &resource.short_names,
        categories: &resource.categories,
        subresources: resource.subresources.iter().map(aggregated_subresource).collect(),
    }
}

fn aggregated_subresource(subresource: &ApiSubresource) -> AggregatedSubresource<'_> {
    let (group, version) = place(subresource);
    AggregatedSubresource {
        subresource: &subresource.name,
        response_kind: ResponseKind {
            group,
            version,
            kind: &subresource.kind,
        },
        verbs: &subresource.verbs,
    }
}

/// A strong entity tag: the quoted SHA-512 of the document.
pub(crate) fn etag(document: &[u8]) -> String {
    format!("\"{}\"", hex_of_sha512(document))
}

/// SHA-512 in upper-case hex, as in tags and OpenAPI hashes.
pub(crate) fn hex_of_sha512(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA512, bytes);
    hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}
