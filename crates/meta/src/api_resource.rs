//! A resource as discovery describes it.

use std::borrow::Cow;

use crate::{GroupVersion, Resource};

/// A resource's names, verbs and subresources.
///
/// Servers publish it in discovery, clients read it there, and the table of built-in resources consists of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// Group, version, kind, plural name and scope.
    pub resource: Resource,
    /// The singular name: `pod`.
    pub singular: Cow<'static, str>,
    /// The verbs, sorted: `get`, `list`.
    pub verbs: Vec<Cow<'static, str>>,
    /// Abbreviations for people: `po`.
    pub short_names: Vec<Cow<'static, str>>,
    /// The categories it belongs to: `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// The subresources of its objects.
    pub subresources: Vec<ApiSubresource>,
}

/// A subresource: `status`, `scale`, `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSubresource {
    /// The last part of the path: `status`.
    pub name: Cow<'static, str>,
    /// The kind that is read and written there.
    pub kind: Cow<'static, str>,
    /// That kind's group and version, if not the resource's own.
    pub group_version: Option<GroupVersion>,
    /// The verbs, sorted.
    pub verbs: Vec<Cow<'static, str>>,
}

impl ApiResource {
    /// True if the resource supports the verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|have| have == verb)
    }

    /// The `apiVersion` of its objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        self.resource.group_version_kind().api_version()
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&ApiSubresource> {
        self.subresources.iter().find(|have| have.name == name)
    }
}

impl ApiSubresource {
    /// True if the subresource supports the verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|have| have == verb)
    }
}
