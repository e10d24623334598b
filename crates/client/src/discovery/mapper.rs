//! Maps what a user types to a resource: `po`, `pod`, `pods`, `Pod`, `deployments.apps`, `deploy.v1.apps`, `all`.

use watchkeeper_meta::GroupVersionKind;

use super::{ApiResource, Discovery, DiscoveryClient};
use crate::error::Error;

/// The reason a name has no resource.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// Discovery failed.
    #[error("cannot discover the resources of the server")]
    Discovery(#[from] Error),
    /// No resource has that name. The text is kubectl's.
    #[error("the server doesn't have a resource type {name:?}")]
    NoResource {
        /// The name.
        name: String,
        /// The resource whose name differs least, if little.
        nearest: Option<String>,
    },
    /// No resource has that kind. The text is kubectl's.
    #[error("no matches for kind {:?} in version {:?}", .0.kind, .0.api_version())]
    NoKind(GroupVersionKind),
}

/// A name with optional version and group.
struct Wanted<'a> {
    name: String,
    version: Option<&'a str>,
    group: Option<&'a str>,
}

/// The comparison of groups.
type SameGroup = fn(&str, &str) -> bool;

impl DiscoveryClient {
    /// The resource of a name: plural, singular, short name or kind, as `name`, `name.group` or `name.version.group`.
    /// For an unknown name, discovery is refreshed before giving up.
    pub async fn resource(&self, name: &str) -> Result<ApiResource, MapError> {
        match self.look(|discovery| discovery.resource(name).cloned()).await? {
            Some(found) => Ok(found),
            None => Err(self.no_resource(name).await?),
        }
    }

    /// All resources of a name: one, or those of a category such as `all`.
    pub async fn resources(&self, name: &str) -> Result<Vec<ApiResource>, MapError> {
        match self
            .look(|discovery| discovery.category_or_resource(name))
            .await?
        {
            Some(found) => Ok(found),
            None => Err(self.no_resource(name).await?),
        }
    }

    async fn no_resource(&self, name: &str) -> Result<MapError, Error> {
        Ok(MapError::NoResource {
            name: name.to_owned(),
            nearest: self.get().await?.nearest(name).map(str::to_owned),
        })
    }

    /// The resource of a kind, as in manifests.
    pub async fn resource_of_kind(&self, kind: &GroupVersionKind) -> Result<ApiResource, MapError> {
        let found = self
            .look(|discovery| discovery.resource_of_kind(kind).cloned())
            .await?;
        found.ok_or_else(|| MapError::NoKind(kind.clone()))
    }

    async fn look<T>(&self, find: impl Fn(&Discovery) -> Option<T>) -> Result<Option<T>, Error> {
        match find(&*self.get().await?) {
            Some(found) => Ok(Some(found)),
            None => Ok(find(&*self.refresh().await?)),
        }
    }
}

impl Discovery {
    /// The resource of a name. Of several, the first group wins, in its preferred version. If nothing else matches, a
    /// prefix of a group's name stands for the group: `widgets.acme` for `widgets.acme.example`.
    pub fn resource(&self, name: &str) -> Option<&ApiResource> {
        let readings: Vec<_> = readings(name)
            .into_iter()
            .filter(|wanted| !wanted.name.is_empty())
            .collect();
        let find = |same_group: SameGroup| readings.iter().find_map(|wanted| self.find(wanted, same_group));
        find(|group, wanted| group == wanted)
            .or_else(|| find(|group, wanted| !wanted.is_empty() && group.starts_with(wanted)))
    }

    /// The resource of a kind.
    pub fn resource_of_kind(&self, kind: &GroupVersionKind) -> Option<&ApiResource> {
        self.resources()
            .find(|found| found.resource.group_version_kind() == *kind)
    }

    /// The resources of a category that can be listed.
    pub fn category(&self, name: &str) -> Vec<&ApiResource> {
        let belongs = |found: &&ApiResource| found.categories.iter().any(|category| category == name);
        self.preferred_resources()
            .filter(|found| belongs(found) && found.has_verb("list"))
            .collect()
    }

    /// The plural name that was perhaps meant: of names with a third of their letters wrong at most, the nearest.
    fn nearest(&self, name: &str) -> Option<&str> {
        let name = name.split('.').next().unwrap_or_default().to_lowercase();
        let distance = |found: &ApiResource| {
            let names = [&found.resource.plural, &found.singular];
            let distances = names.map(|known| strsim::damerau_levenshtein(known, &name));
            distances.into_iter().min().unwrap_or(usize::MAX)
        };
        let known = self.preferred_resources().map(|found| (distance(found), found));
        let (distance, found) = known.min_by_key(|(distance, _)| *distance)?;
        (!name.is_empty() && distance * 3 <= name.len()).then_some(&*found.resource.plural)
    }

    fn category_or_resource(&self, name: &str) -> Option<Vec<ApiResource>> {
        match self.category(name) {
            members if members.is_empty() => self.resource(name).map(|found| vec![found.clone()]),
            members => Some(members.into_iter().cloned().collect()),
        }
    }

    /// Full names take precedence: a short name must not hide a resource with that name.
    fn find(&self, wanted: &Wanted<'_>, same_group: SameGroup) -> Option<&ApiResource> {
        let fitting = || self.resources().filter(|found| wanted.fits(found, same_group));
        let full = fitting().find(|found| wanted.is_full_name_of(found));
        full.or_else(|| fitting().find(|found| found.short_names.iter().any(|short| *short == wanted.name)))
    }
}

impl Wanted<'_> {
    fn fits(&self, found: &ApiResource, same_group: SameGroup) -> bool {
        let resource = &found.resource;
        self.group.is_none_or(|group| same_group(&resource.group, group))
            && self.version.is_none_or(|version| resource.version == version)
    }

    fn is_full_name_of(&self, found: &ApiResource) -> bool {
        found.resource.plural == self.name
            || found.singular == self.name
            || found.resource.kind.eq_ignore_ascii_case(&self.name)
    }
}

/// The readings of a name: `a.b.c` is `a` of version `b` in group `c`, or `a` of group `b.c`.
fn readings(text: &str) -> Vec<Wanted<'_>> {
    let mut readings = Vec::new();
    let Some((name, rest)) = text.split_once('.') else {
        return vec![Wanted {
            name: text.to_lowercase(),
            version: None,
            group: None,
        }];
    };
    let name = name.to_lowercase();
    if let Some((version, group)) = rest.split_once('.') {
        readings.push(Wanted {
            name: name.clone(),
            version: Some(version),
            group: Some(group),
        });
    }
    readings.push(Wanted {
        name: name.clone(),
        version: None,
        group: Some(rest),
    });
    // `pods.v1` and `pods.v1.`: the core group has an empty name.
    let version = rest.strip_suffix('.').unwrap_or(rest);
    readings.push(Wanted {
        name,
        version: Some(version),
        group: Some(""),
    });
    readings
}
