//! The catalog: the groups, versions and resources of the server, in discovery order.
//!
//! A catalog is immutable; when custom kinds or aggregated APIs change, a new one replaces it.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use watchkeeper_meta::ApiResource;
use watchkeeper_registry::{Definition, builtin_definition};
use watchkeeper_wire::schema::resources;

use crate::Verb;
use crate::aggregation::{RemoteDocuments, RemoteService, group_priority, version_priority};
use crate::openapi::Documents;

/// All served resources.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    groups: Vec<ApiGroup>,
    /// The generations of the custom kinds and of the aggregated APIs it contains.
    pub(crate) generation: (u64, u64),
    /// Its OpenAPI documents, dropped with it.
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
    pub resources: Vec<Arc<ServedResource>>,
    /// The documents of its server, if it is aggregated.
    pub(crate) remote: Option<Arc<RemoteDocuments>>,
}

/// A served resource, and its definition.
#[derive(Clone, Debug)]
pub struct ServedResource {
    listing: Cow<'static, ApiResource>,
    /// Its definition; `None` if objects are not stored, as for reviews and bindings.
    pub definition: Option<Arc<Definition>>,
}

impl Catalog {
    /// The built-in resources. They are the same for all servers, so they are built once. Each server has its own
    /// OpenAPI documents, which are large and dropped with it.
    pub(crate) fn built_in() -> Arc<Self> {
        static BUILT_IN: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(ServedResource::built_in()));
        Arc::new(BUILT_IN.clone())
    }

    /// Groups resources by group and version, in the order of the first resource of each.
    pub fn new(resources: impl IntoIterator<Item = ServedResource>) -> Self {
        let mut catalog = Self::default();
        for resource in resources {
            catalog.add(resource);
        }
        catalog
    }

    fn add(&mut self, resource: ServedResource) {
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
                remote: None,
            },
        );
        version.resources.push(Arc::new(resource));
    }

    /// Adds a group version of another server, replacing a local one. Groups and versions are ordered by priority.
    pub(crate) fn add_remote(&mut self, service: &RemoteService, documents: Arc<RemoteDocuments>) {
        let version = ApiVersion {
            name: service.version.clone().into(),
            resources: Vec::new(),
            remote: Some(documents),
        };
        let Some(group) = self.groups.iter_mut().find(|it| it.name == service.group) else {
            let rank = |name: &str| std::cmp::Reverse(i64::from(group_priority(name)));
            let priority = std::cmp::Reverse(service.group_priority);
            let is_behind = |it: &ApiGroup| (rank(&it.name), &*it.name) > (priority, &service.group);
            // The core group is always first.
            let behind = self
                .groups
                .iter()
                .position(|it| !it.name.is_empty() && is_behind(it));
            let group = ApiGroup {
                name: service.group.clone().into(),
                versions: vec![version],
            };
            return self.groups.insert(behind.unwrap_or(self.groups.len()), group);
        };
        group.versions.retain(|it| it.name != service.version);
        let name = group.name.clone();
        let is_behind =
            |it: &ApiVersion| i64::from(version_priority(&name, &it.name)) < service.version_priority;
        let behind = group.versions.iter().position(is_behind);
        group
            .versions
            .insert(behind.unwrap_or(group.versions.len()), version);
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

impl Catalog {
    /// True if another server serves this version of a group.
    pub(crate) fn is_remote(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some_and(|it| it.remote.is_some())
    }
}

impl ApiGroup {
    /// True if all its resources are custom.
    pub fn is_custom(&self) -> bool {
        let mut resources = self.versions.iter().flat_map(|version| &version.resources);
        resources.all(|resource| resource.is_custom())
    }
}

impl ApiVersion {
    /// One resource.
    pub fn resource(&self, plural: &str) -> Option<&Arc<ServedResource>> {
        self.resources.iter().find(|it| it.resource.plural == plural)
    }
}

impl ServedResource {
    /// The built-in resources, in discovery order.
    pub(crate) fn built_in() -> impl Iterator<Item = Self> {
        resources::all().iter().map(|listing| Self {
            definition: builtin_definition(&listing.resource.group_version_resource()).cloned(),
            listing: Cow::Borrowed(listing),
        })
    }

    /// A custom resource.
    pub(crate) fn custom(definition: &Arc<Definition>) -> Self {
        Self {
            listing: definition.listing.clone(),
            definition: Some(definition.clone()),
        }
    }

    /// True if the resource supports a verb.
    pub fn allows(&self, verb: Verb) -> bool {
        self.has_verb(verb.as_str())
    }

    /// The definition of a custom resource; `None` for others.
    pub fn custom_definition(&self) -> Option<&Arc<Definition>> {
        self.definition
            .as_ref()
            .filter(|definition| definition.is_custom())
    }

    /// True for a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom_definition().is_some()
    }

    /// The hash of the storage version in discovery. When it changes, stored objects may need to be rewritten.
    pub fn storage_version_hash(&self) -> Option<String> {
        let definition = self.definition.as_ref()?;
        let text = match definition.stored_api_version() {
            core if !core.contains('/') => format!("/{core}/{}", self.resource.kind),
            api_version => format!("{api_version}/{}", self.resource.kind),
        };
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        Some(STANDARD.encode(&hash.as_ref()[..8]))
    }
}

impl Deref for ServedResource {
    type Target = ApiResource;

    fn deref(&self) -> &ApiResource {
        &self.listing
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
