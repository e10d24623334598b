//! A resource as discovery describes it.

use std::borrow::Cow;

use crate::{GroupVersion, Resource};

/// A resource: what it is called and what can be done with it.
///
/// Servers describe theirs this way, clients read it by discovery, and the table of built-in resources consists of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// Group, version, kind, plural name and scope.
    pub resource: Resource,
    /// The name of one: `pod`.
    pub singular: Cow<'static, str>,
    /// What can be done with it, in order: `get`, `list`.
    pub verbs: Vec<Cow<'static, str>>,
    /// Abbreviations for people: `po`.
    pub short_names: Vec<Cow<'static, str>>,
    /// The larger sets it belongs to: `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// The parts of its objects with an address of their own.
    pub subresources: Vec<ApiSubresource>,
}

/// A part of an object with an address of its own: `status`, `scale`, `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSubresource {
    /// The last part of the path: `status`.
    pub name: Cow<'static, str>,
    /// The kind that is read and written there.
    pub kind: Cow<'static, str>,
    /// That kind's group and version, if not the resource's own.
    pub group_version: Option<GroupVersion>,
    /// What can be done with it, in order.
    pub verbs: Vec<Cow<'static, str>>,
}

impl ApiResource {
    /// Whether the resource has that verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|have| have == verb)
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        self.resource.group_version_kind().api_version()
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&ApiSubresource> {
        self.subresources.iter().find(|have| have.name == name)
    }
}

impl ApiSubresource {
    /// Whether the subresource has that verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|have| have == verb)
    }
}
