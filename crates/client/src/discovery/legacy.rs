//! Discovery of servers before v1.30: a list of groups, then one request per version.

use std::borrow::Cow;

use futures_util::StreamExt;
use futures_util::stream;
use serde::Deserialize;
use watchkeeper_meta::{GroupVersion, Resource, Scope, accept, error_chain};

use super::{
    ApiGroup, ApiResource, ApiSubresource, ApiVersion, Discovery, DiscoveryFailure, Document, Fetched, fetch,
};
use crate::client::Client;
use crate::error::Error;
use crate::nulls::null_is_default;

/// The number of concurrent requests: enough to hide the round trips, few enough for the server.
const CONCURRENT: usize = 10;

/// The answer of `/api`.
#[derive(Deserialize)]
struct CoreVersions {
    #[serde(default, deserialize_with = "null_is_default")]
    versions: Vec<String>,
}

/// The answer of `/apis`.
#[derive(Deserialize)]
struct GroupList {
    #[serde(default, deserialize_with = "null_is_default")]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    versions: Vec<Version>,
    #[serde(default)]
    preferred_version: Option<Version>,
}

#[derive(Clone, PartialEq, Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default, deserialize_with = "null_is_default")]
    resources: Vec<Served>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    kind: String,
    /// The group of a subresource's kind; empty for the resource's own.
    #[serde(default, deserialize_with = "null_is_default")]
    group: String,
    #[serde(default, deserialize_with = "null_is_default")]
    version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    verbs: Vec<Cow<'static, str>>,
    #[serde(default, deserialize_with = "null_is_default")]
    short_names: Vec<Cow<'static, str>>,
    #[serde(default, deserialize_with = "null_is_default")]
    categories: Vec<Cow<'static, str>>,
}

/// Reads `/api` and requests its versions.
pub(super) async fn add_core(
    client: &Client,
    document: &Document,
    into: &mut Discovery,
) -> Result<(), Error> {
    let core: CoreVersions = document.read(client)?;
    let versions = core
        .versions
        .into_iter()
        .map(|version| Version { version })
        .collect();
    let group = Group {
        name: String::new(),
        versions,
        preferred_version: None,
    };
    add(client, vec![group], into).await;
    Ok(())
}

/// Reads `/apis` and requests its versions.
pub(super) async fn add_groups(
    client: &Client,
    document: &Document,
    into: &mut Discovery,
) -> Result<(), Error> {
    let list: GroupList = document.read(client)?;
    add(client, list.groups, into).await;
    Ok(())
}

async fn add(client: &Client, mut groups: Vec<Group>, into: &mut Discovery) {
    for group in &mut groups {
        if let Some(preferred) = group.preferred_version.take() {
            group.versions.retain(|version| *version != preferred);
            group.versions.insert(0, preferred);
        }
    }
    let wanted: Vec<GroupVersion> = groups
        .iter()
        .flat_map(|group| {
            group
                .versions
                .iter()
                .map(|version| GroupVersion::new(group.name.clone(), version.version.clone()))
        })
        .collect();
    let asked = wanted.into_iter().map(|version| async move {
        let found = resources(client, &version).await;
        (version, found)
    });
    // In order, so that the result does not depend on timing.
    let mut answers = stream::iter(asked).buffered(CONCURRENT);
    for group in groups {
        let mut versions = Vec::new();
        for _ in &group.versions {
            let Some((version, found)) = answers.next().await else {
                break;
            };
            let resources = found.unwrap_or_else(|error| {
                let reason = error_chain(&error);
                into.failures.push(DiscoveryFailure {
                    group_version: version.clone(),
                    reason,
                });
                Vec::new()
            });
            versions.push(ApiVersion {
                version: version.version.into_owned(),
                resources,
            });
        }
        into.groups.push(ApiGroup {
            name: group.name,
            versions,
        });
    }
}

async fn resources(client: &Client, version: &GroupVersion) -> Result<Vec<ApiResource>, Error> {
    let path = match version.group.as_ref() {
        "" => format!("/api/{}", version.version),
        group => format!("/apis/{group}/{}", version.version),
    };
    let Fetched::Changed(document) = fetch(client, &path, accept::JSON, None).await? else {
        return Ok(Vec::new());
    };
    let list: ResourceList = document.read(client)?;
    Ok(assemble(list, version))
}

/// Attaches `pods/status` to `pods`.
fn assemble(list: ResourceList, version: &GroupVersion) -> Vec<ApiResource> {
    let (parts, wholes): (Vec<_>, Vec<_>) = list
        .resources
        .into_iter()
        .partition(|served| served.name.contains('/'));
    let mut resources: Vec<ApiResource> = wholes.into_iter().map(|served| served.read(version)).collect();
    for part in parts {
        let Some((plural, name)) = part.name.split_once('/') else {
            continue;
        };
        if let Some(whole) = resources
            .iter_mut()
            .find(|resource| resource.resource.plural == plural)
        {
            whole.subresources.push(ApiSubresource {
                name: name.to_owned().into(),
                kind: part.kind.into(),
                group_version: (!part.version.is_empty())
                    .then(|| GroupVersion::new(part.group, part.version)),
                verbs: part.verbs,
            });
        }
    }
    resources
}

impl Served {
    fn read(self, version: &GroupVersion) -> ApiResource {
        ApiResource {
            resource: Resource {
                group: version.group.clone(),
                version: version.version.clone(),
                kind: self.kind.into(),
                plural: self.name.into(),
                scope: if self.namespaced {
                    Scope::Namespaced
                } else {
                    Scope::Cluster
                },
            },
            singular: self.singular_name.into(),
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
            subresources: Vec::new(),
        }
    }
}
