//! What a Kubernetes server serves: the built-in resources with their names, verbs and subresources.
//!
//! The table is data for discovery, and for clients that need no discovery.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;
use watchkeeper_meta::{Resource, Scope};

use super::Text;

/// A resource that every server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinResource {
    /// Group, version, kind, plural name and scope.
    pub resource: Resource,
    /// The name of one: `pod`.
    pub singular: Text,
    /// What can be done with it, in order.
    pub verbs: Box<[Text]>,
    /// `po`.
    pub short_names: Box<[Text]>,
    /// The names of larger sets it belongs to: `all`.
    pub categories: Box<[Text]>,
    /// The parts that have an address of their own.
    pub subresources: Box<[Subresource]>,
}

/// A part of an object that has an address of its own: `status`, `scale`, `log`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Subresource {
    /// `status`.
    pub name: Text,
    /// The kind that is read and written there.
    pub kind: Text,
    /// That kind's group and version; empty for the resource's own.
    #[serde(rename = "groupVersion")]
    pub group_version: Text,
    /// What can be done with it, in order.
    pub verbs: Box<[Text]>,
}

impl BuiltinResource {
    /// Whether the resource has that verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|have| have == verb)
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        self.resource.group_version_kind().api_version()
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|have| have.name == name)
    }
}

/// Every built-in resource, in the order in which discovery lists groups.
pub fn all() -> &'static [BuiltinResource] {
    static ALL: LazyLock<Box<[BuiltinResource]>> = LazyLock::new(|| {
        let lines = include_str!("../../schema/resources.jsonl").lines();
        // The file is part of the program and a test reads it: an error here is a broken build.
        lines
            .map(|line| read(line).expect("the resource table is readable"))
            .collect()
    });
    &ALL
}

/// The resource with that plural name.
pub fn by_plural(group: &str, version: &str, plural: &str) -> Option<&'static BuiltinResource> {
    all().iter().find(|have| {
        let have = &have.resource;
        have.group == group && have.version == version && have.plural == plural
    })
}

/// The resource whose objects have that kind.
pub fn by_kind(group: &str, version: &str, kind: &str) -> Option<&'static BuiltinResource> {
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
    verbs: Box<[Text]>,
    short_names: Box<[Text]>,
    categories: Box<[Text]>,
    subresources: Box<[Subresource]>,
}

fn read(line: &str) -> Result<BuiltinResource, serde_json::Error> {
    let line: Line = serde_json::from_str(line)?;
    let (group, version) = line
        .group_version
        .split_once('/')
        .unwrap_or(("", &line.group_version));
    Ok(BuiltinResource {
        resource: Resource {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
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
        subresources: line.subresources,
    })
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
        assert_eq!(deployments.short_names, ["deploy"].map(Text::from).into());
        let scale = deployments.subresource("scale").unwrap();
        assert_eq!((&*scale.kind, &*scale.group_version), ("Scale", "autoscaling/v1"));
        assert!(by_plural("apps", "v1", "pods").is_none());
    }
}
