//! The catalog: the groups, versions and resources of the server, in discovery order.
//!
//! A catalog is immutable; when custom kinds or aggregated APIs change, a new one replaces it.

use std::borrow::Cow;
use std::collections::HashMap;
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
    groups: Vec<Arc<ApiGroup>>,
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
    /// The definitions that all of it was made of; none if it has more than custom kinds.
    definitions: Vec<Arc<Definition>>,
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
    listing: Listing,
    /// Its definition, if objects are stored; `None` for reviews and bindings, which are only answered.
    pub definition: Option<Arc<Definition>>,
}

/// The entry of a resource in discovery.
#[derive(Clone, Debug)]
enum Listing {
    Schema(&'static ApiResource),
    Definition(Arc<Definition>),
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
            let name = &resource.resource.group;
            let place = match catalog.groups.iter().position(|it| it.name == *name) {
                Some(place) => place,
                None => {
                    catalog.groups.push(Arc::new(ApiGroup::empty(name.clone())));
                    catalog.groups.len() - 1
                }
            };
            Arc::make_mut(&mut catalog.groups[place]).add(resource);
        }
        catalog
    }

    /// The resources of an unextended server, and custom ones in the order of their groups. Groups that `previous` made of
    /// the same definitions are taken from there: a new kind costs the same however many there are.
    pub(crate) fn with_custom(previous: &Self, definitions: &[Arc<Definition>]) -> Self {
        let mut catalog = Self::clone(&Self::built_in());
        let built_in = catalog.groups.len();
        let known: HashMap<&str, &Arc<ApiGroup>> = previous
            .groups
            .iter()
            .map(|group| (&*group.name, group))
            .collect();
        for definitions in definitions.chunk_by(|one, other| one.resource.group == other.resource.group) {
            let name = &definitions[0].resource.group;
            let extended = catalog.groups[..built_in].iter_mut().find(|it| it.name == *name);
            match (extended, known.get(&**name)) {
                (Some(group), _) => Arc::make_mut(group).add_custom(definitions),
                (None, Some(known)) if known.is_of(definitions) => catalog.groups.push(Arc::clone(known)),
                (None, _) => {
                    let mut group = ApiGroup::empty(name.clone());
                    group.add_custom(definitions);
                    catalog.groups.push(Arc::new(group));
                }
            }
        }
        catalog
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
            let is_behind = |it: &Arc<ApiGroup>| (rank(&it.name), &*it.name) > (priority, &service.group);
            // Core has a place of its own, in front.
            let behind = self
                .groups
                .iter()
                .position(|it| !it.name.is_empty() && is_behind(it));
            let mut group = ApiGroup::empty(service.group.clone().into());
            group.versions.push(version);
            return self
                .groups
                .insert(behind.unwrap_or(self.groups.len()), Arc::new(group));
        };
        let group = Arc::make_mut(group);
        group.definitions.clear();
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
    pub fn groups(&self) -> &[Arc<ApiGroup>] {
        &self.groups
    }

    /// One group.
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        let mut groups = self.groups.iter();
        groups.find(|group| group.name == name).map(|group| &**group)
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
    fn empty(name: Cow<'static, str>) -> Self {
        Self {
            name,
            versions: Vec::new(),
            definitions: Vec::new(),
        }
    }

    fn add_custom(&mut self, definitions: &[Arc<Definition>]) {
        if self.versions.is_empty() {
            self.definitions = definitions.to_vec();
        }
        for definition in definitions {
            self.add(ServedResource::custom(definition));
        }
    }

    /// True if it consists of exactly these definitions.
    fn is_of(&self, definitions: &[Arc<Definition>]) -> bool {
        let mut same = self.definitions.iter().zip(definitions);
        self.definitions.len() == definitions.len() && same.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    fn add(&mut self, resource: ServedResource) {
        let name = &resource.resource.version;
        let place = match self.versions.iter().position(|it| it.name == *name) {
            Some(place) => place,
            None => {
                self.versions.push(ApiVersion {
                    name: name.clone(),
                    resources: Vec::new(),
                    remote: None,
                });
                self.versions.len() - 1
            }
        };
        self.versions[place].resources.push(Arc::new(resource));
    }

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
            listing: Listing::Schema(listing),
        })
    }

    /// A custom resource.
    pub(crate) fn custom(definition: &Arc<Definition>) -> Self {
        Self {
            listing: Listing::Definition(definition.clone()),
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
        match &self.listing {
            Listing::Schema(listing) => listing,
            Listing::Definition(definition) => &definition.listing,
        }
    }
}
