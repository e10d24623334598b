//! The names of kinds and resources: group, version, kind, plural and scope.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// An API group and its version: `apps/v1`, or `v1` for the core group, whose name is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
}

/// A kind within a group, without a version; error texts print it as `Deployment.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The kind.
    pub kind: Cow<'static, str>,
}

/// A resource within a group, without a version; error texts print it as `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The plural name.
    pub resource: Cow<'static, str>,
}

/// The type of an object, as its `apiVersion` and `kind` name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The kind.
    pub kind: Cow<'static, str>,
}

/// A collection of objects, as its URL names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The plural name.
    pub resource: Cow<'static, str>,
}

/// The scope of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Objects are named in the whole cluster.
    Cluster,
    /// Objects are named within a namespace.
    Namespaced,
}

/// Everything a request for objects of a kind needs: names, kind and scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The kind.
    pub kind: Cow<'static, str>,
    /// The plural name.
    pub plural: Cow<'static, str>,
    /// The scope of its objects.
    pub scope: Scope,
}

/// An `apiVersion` that is neither `version` nor `group/version`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {text}")]
pub struct ParseGroupVersionError {
    /// The text given.
    pub text: String,
}

impl GroupVersion {
    /// Names a group and a version.
    pub fn new(group: impl Into<Cow<'static, str>>, version: impl Into<Cow<'static, str>>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
        }
    }

    /// The kind of that name in this group and version.
    pub fn with_kind(self, kind: impl Into<Cow<'static, str>>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group,
            version: self.version,
            kind: kind.into(),
        }
    }

    /// The resource of that plural name in this group and version.
    pub fn with_resource(self, resource: impl Into<Cow<'static, str>>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group,
            version: self.version,
            resource: resource.into(),
        }
    }
}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    /// Reads an `apiVersion`: empty, `version` or `group/version`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            None => Ok(Self::new("", text.to_owned())),
            Some((group, version)) if !version.contains('/') => {
                Ok(Self::new(group.to_owned(), version.to_owned()))
            }
            Some(_) => Err(ParseGroupVersionError {
                text: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for GroupVersion {
    /// Prints an `apiVersion`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

impl GroupVersionKind {
    /// Names a kind.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// From the `apiVersion` and `kind` of a manifest.
    pub fn from_api_version(api_version: &str, kind: &str) -> Result<Self, ParseGroupVersionError> {
        Ok(api_version.parse::<GroupVersion>()?.with_kind(kind.to_owned()))
    }

    /// The group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }

    /// The `apiVersion`.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// The kind without its version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }
}

impl fmt::Display for GroupVersionKind {
    /// `apps/v1, Kind=Deployment`, as in Kubernetes' error texts (the core group prints as `/v1`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl GroupVersionResource {
    /// Names a resource.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        resource: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    /// The group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }

    /// The resource without its version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }
}

impl fmt::Display for GroupVersionResource {
    /// `apps/v1, Resource=deployments`, as in Kubernetes' error texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

impl GroupKind {
    /// Names a kind without a version.
    pub fn new(group: impl Into<Cow<'static, str>>, kind: impl Into<Cow<'static, str>>) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

impl fmt::Display for GroupKind {
    /// `Deployment.apps`; core kinds print without a group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

impl GroupResource {
    /// Names a resource without a version.
    pub fn new(group: impl Into<Cow<'static, str>>, resource: impl Into<Cow<'static, str>>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupResource {
    /// `deployments.apps`; core resources print without a group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

impl Resource {
    /// A namespaced resource.
    ///
    /// ```
    /// use watchkeeper_meta::{Resource, Scope};
    ///
    /// let pods = Resource::namespaced("", "v1", "Pod", "pods");
    /// assert_eq!(pods.scope, Scope::Namespaced);
    /// ```
    pub fn namespaced(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            scope: Scope::Namespaced,
        }
    }

    /// A cluster-scoped resource.
    pub fn cluster(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            scope: Scope::Cluster,
            ..Self::namespaced(group, version, kind, plural)
        }
    }

    /// The type of the resource's objects.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
        }
    }

    /// The resource as a URL names it.
    pub fn group_version_resource(&self) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.plural.clone(),
        }
    }

    /// The resource without its version, as error texts print it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.plural.clone(),
        }
    }

    /// The kind as kubectl prints it in front of names: `deployment.apps`.
    pub fn display_kind(&self) -> String {
        GroupKind::new(self.group.clone(), self.kind.to_lowercase()).to_string()
    }

    /// An object as kubectl names it: `deployment.apps/demo`.
    pub fn display_name(&self, name: &str) -> String {
        format!("{}/{name}", self.display_kind())
    }
}

/// `name.group`, or `name` in the core group.
fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_read_as_they_print() {
        for text in ["v1", "apps/v1", "example.com/v1beta1", ""] {
            assert_eq!(text.parse::<GroupVersion>().unwrap().to_string(), text);
        }
        let error = "a/b/c".parse::<GroupVersion>().unwrap_err();
        assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn error_texts_have_kubernetes_forms() {
        let deployment = GroupVersionKind::new("apps", "v1", "Deployment");
        assert_eq!(deployment.to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(deployment.group_kind().to_string(), "Deployment.apps");
        let pods = GroupVersionResource::new("", "v1", "pods");
        assert_eq!(pods.to_string(), "/v1, Resource=pods");
        assert_eq!(pods.group_resource().to_string(), "pods");
    }
}
