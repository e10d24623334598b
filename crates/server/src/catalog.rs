//! The groups, versions and resources the server offers, in the order discovery shows them.
//!
//! A catalog is data and never changes; when a custom kind comes or goes, a new one takes its place.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use watchkeeper_meta::{GroupVersion, GroupVersionKind, Resource};

use crate::Verb;
use crate::openapi::Documents;
use crate::resources::built_in;

/// All that is served.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    groups: Vec<ApiGroup>,
    /// Which custom kinds it has, as the registry counts them.
    pub(crate) generation: u64,
    /// Its OpenAPI documents, which end with it.
    pub(crate) documents: Documents,
}

/// One API group.
#[derive(Clone, Debug)]
pub struct ApiGroup {
    /// The group's name; empty for core.
    pub name: Cow<'static, str>,
    /// Its versions, the preferred one first.
    pub versions: Vec<ApiVersion>,
}

/// One version of a group.
#[derive(Clone, Debug)]
pub struct ApiVersion {
    /// The version's name.
    pub name: Cow<'static, str>,
    /// Its resources, by name.
    pub resources: Vec<Arc<ApiResource>>,
}

/// One resource: what it is called and what can be done with it.
#[derive(Clone, Debug)]
pub struct ApiResource {
    /// Group, version, kind, plural and scope.
    pub resource: Resource,
    /// The name of one.
    pub singular: Cow<'static, str>,
    /// What can be done with it.
    pub verbs: Vec<Verb>,
    /// Abbreviations for people.
    pub short_names: Vec<Cow<'static, str>>,
    /// Groups of resources for people, such as `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// Parts of its objects with a path of their own.
    pub subresources: Vec<ApiSubresource>,
    /// What a custom kind has besides.
    pub custom: Option<Arc<CustomKind>>,
}

/// What discovery and OpenAPI say of a custom kind that they know of built-in ones.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The version that objects are kept in.
    pub stored_version: Cow<'static, str>,
    /// The kind of a list.
    pub list_kind: String,
    /// The schema of its objects, as its definition states it.
    pub open_api: serde_json::Value,
    /// What everyone hears who uses it.
    pub deprecation: Option<String>,
}

/// A part of an object with a path of its own.
#[derive(Clone, Debug)]
pub struct ApiSubresource {
    /// The last part of the path.
    pub name: Cow<'static, str>,
    /// The kind that travels.
    pub kind: Cow<'static, str>,
    /// Where that kind lives, if not beside the resource.
    pub group_version: Option<GroupVersion>,
    /// What can be done with it.
    pub verbs: Vec<Verb>,
}

impl Catalog {
    /// The resources of an unextended server: the same for all of them, so they are put together once. Each server has
    /// documents of its own, because they are large and end with it.
    pub(crate) fn built_in() -> Arc<Self> {
        static BUILT_IN: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(built_in()));
        Arc::new(BUILT_IN.clone())
    }

    /// Sorts resources into groups and versions, each in the order of its first resource.
    pub fn new(resources: impl IntoIterator<Item = ApiResource>) -> Self {
        let mut catalog = Self::default();
        for resource in resources {
            catalog.add(resource);
        }
        catalog
    }

    fn add(&mut self, resource: ApiResource) {
        let (group, version) = (resource.resource.group.clone(), resource.resource.version.clone());
        let group = find_or_push(
            &mut self.groups,
            |it| it.name == group,
            || ApiGroup {
                name: group.clone(),
                versions: Vec::new(),
            },
        );
        let version = find_or_push(
            &mut group.versions,
            |it| it.name == version,
            || ApiVersion {
                name: version.clone(),
                resources: Vec::new(),
            },
        );
        version.resources.push(Arc::new(resource));
    }

    /// The groups, core first.
    pub fn groups(&self) -> &[ApiGroup] {
        &self.groups
    }

    /// One group.
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// One version of one group.
    pub fn version(&self, group: &str, version: &str) -> Option<&ApiVersion> {
        let mut versions = self.group(group)?.versions.iter();
        versions.find(|it| it.name == version)
    }
}

impl ApiGroup {
    /// Whether all that it has are custom kinds.
    pub fn is_custom(&self) -> bool {
        let mut resources = self.versions.iter().flat_map(|version| &version.resources);
        resources.all(|resource| resource.custom.is_some())
    }
}

impl ApiVersion {
    /// One resource.
    pub fn resource(&self, plural: &str) -> Option<&Arc<ApiResource>> {
        self.resources.iter().find(|it| it.resource.plural == plural)
    }
}

impl ApiResource {
    /// Whether a verb can be used on it.
    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// One of its subresources.
    pub fn subresource(&self, name: &str) -> Option<&ApiSubresource> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// Whether its objects are kept, rather than answered and forgotten as reviews and bindings are.
    pub fn is_stored(&self) -> bool {
        self.allows(Verb::Watch)
    }

    /// Discovery's fingerprint of the form objects are kept in: clients learn from it that a stored object may
    /// need to be rewritten.
    pub fn storage_version_hash(&self) -> Option<String> {
        if !self.is_stored() {
            return None;
        }
        let mut kept = stored_kind(self.resource.group_version_kind());
        if let Some(custom) = &self.custom {
            kept.version = custom.stored_version.clone();
        }
        let text = format!("{}/{}/{}", kept.group, kept.version, kept.kind);
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        Some(STANDARD.encode(&hash.as_ref()[..8]))
    }
}

/// Kinds that are served in two places are kept in one.
fn stored_kind(served: GroupVersionKind) -> GroupVersionKind {
    match (&*served.group, &*served.kind) {
        ("events.k8s.io", "Event") => GroupVersionKind::new("", "v1", "Event"),
        ("autoscaling", "HorizontalPodAutoscaler") => GroupVersionKind {
            version: Cow::Borrowed("v2"),
            ..served
        },
        _ => served,
    }
}

fn find_or_push<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
    let index = match list.iter().position(is_it) {
        Some(index) => index,
        None => {
            list.push(make());
            list.len() - 1
        }
    };
    &mut list[index]
}
