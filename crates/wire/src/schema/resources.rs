//! The built-in resources of a Kubernetes server, with their names, verbs and subresources.
//!
//! Used for discovery, and by clients that need no discovery.

use std::sync::LazyLock;

use serde::Deserialize;
use watchkeeper_meta::{ApiResource, ApiSubresource, GroupVersion, Resource, Scope};

use super::Text;

/// Every built-in resource, in the order of groups in discovery.
pub fn all() -> &'static [ApiResource] {
    static ALL: LazyLock<Box<[ApiResource]>> = LazyLock::new(|| {
        let lines = include_str!("../../schema/resources.jsonl").lines();
        // The file is part of the program and tested: an error here is a broken build.
        lines
            .map(|line| read(line).expect("the resource table is readable"))
            .collect()
    });
    &ALL
}

/// The resource with that plural name.
pub fn by_plural(group: &str, version: &str, plural: &str) -> Option<&'static ApiResource> {
    all().iter().find(|have| {
        let have = &have.resource;
        have.group == group && have.version == version && have.plural == plural
    })
}

/// The resource whose objects have that kind.
pub fn by_kind(group: &str, version: &str, kind: &str) -> Option<&'static ApiResource> {
    all().iter().find(|have| {
        let have = &have.resource;
        have.group == group && have.version == version && have.kind == kind
    })
}

/// One line of the table.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    group_version: String,
    resource: Text,
    singular: Text,
    kind: Text,
    scope: String,
    verbs: Vec<Text>,
    short_names: Vec<Text>,
    categories: Vec<Text>,
    subresources: Vec<Part>,
}

/// A subresource in a line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    name: Text,
    kind: Text,
    /// Empty if it is the resource's own.
    group_version: String,
    verbs: Vec<Text>,
}

fn read(line: &str) -> Result<ApiResource, serde_json::Error> {
    let line: Line = serde_json::from_str(line)?;
    let GroupVersion { group, version } = group_version(&line.group_version)?;
    let subresources: Result<_, _> = line.subresources.into_iter().map(subresource).collect();
    Ok(ApiResource {
        resource: Resource {
            group,
            version,
            kind: line.kind,
            plural: line.resource,
            scope: if line.scope == "Namespaced" {
                Scope::Namespaced
            } else {
                Scope::Cluster
            },
        },
        singular: line.singular,
        verbs: line.verbs,
        short_names: line.short_names,
        categories: line.categories,
        subresources: subresources?,
    })
}

fn subresource(part: Part) -> Result<ApiSubresource, serde_json::Error> {
    let has_own_place = !part.group_version.is_empty();
    Ok(ApiSubresource {
        name: part.name,
        kind: part.kind,
        group_version: has_own_place
            .then(|| group_version(&part.group_version))
            .transpose()?,
        verbs: part.verbs,
    })
}

fn group_version(text: &str) -> Result<GroupVersion, serde_json::Error> {
    text.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn every_resource_has_a_kind_of_the_schema() {
        assert_eq!(all().len(), 72);
        for resource in all() {
            let api_version = resource.api_version();
            let kind = &resource.resource.kind;
            assert!(
                Schema::builtin().kind(&api_version, kind).is_some(),
                "{api_version} {kind}"
            );
            if resource.has_verb("list") {
                let list = format!("{kind}List");
                assert!(
                    Schema::builtin().kind(&api_version, &list).is_some(),
                    "{api_version} {list}"
                );
            }
        }
    }

    #[test]
    fn resources_are_found_by_plural_and_by_kind() {
        let deployments = by_plural("apps", "v1", "deployments").unwrap();
        assert_eq!(by_kind("apps", "v1", "Deployment"), Some(deployments));
        assert_eq!(deployments.resource.scope, Scope::Namespaced);
        assert_eq!(deployments.short_names, ["deploy"]);
        let scale = deployments.subresource("scale").unwrap();
        let expected = GroupVersion::new("autoscaling", "v1");
        assert_eq!((&*scale.kind, &scale.group_version), ("Scale", &Some(expected)));
        assert!(by_plural("apps", "v1", "pods").is_none());
    }
}
