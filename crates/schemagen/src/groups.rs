//! The kinds: every struct with a `TypeMeta`, in the API group of its package.

use watchkeeper_wire::schema::{Kind, Text, Type, TypeId};

use crate::GenerateError;

/// The API group of a package.
const GROUPS: [(&str, &str); 25] = [
    ("admission", "admission.k8s.io"),
    ("admissionregistration", "admissionregistration.k8s.io"),
    ("apidiscovery", "apidiscovery.k8s.io"),
    ("apiextensions", "apiextensions.k8s.io"),
    ("apiregistration", "apiregistration.k8s.io"),
    ("apps", "apps"),
    ("authentication", "authentication.k8s.io"),
    ("authorization", "authorization.k8s.io"),
    ("autoscaling", "autoscaling"),
    ("batch", "batch"),
    ("certificates", "certificates.k8s.io"),
    ("coordination", "coordination.k8s.io"),
    ("core", ""),
    ("discovery", "discovery.k8s.io"),
    ("events", "events.k8s.io"),
    ("flowcontrol", "flowcontrol.apiserver.k8s.io"),
    ("meta", "meta.k8s.io"),
    ("networking", "networking.k8s.io"),
    ("node", "node.k8s.io"),
    ("policy", "policy"),
    ("rbac", "rbac.authorization.k8s.io"),
    ("resource", "resource.k8s.io"),
    ("scheduling", "scheduling.k8s.io"),
    ("storage", "storage.k8s.io"),
    ("storagemigration", "storagemigration.k8s.io"),
];

/// Kinds of the meta package that belong to `v1`.
const UNGROUPED: [&str; 6] = [
    "Status",
    "APIVersions",
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "List",
];

/// Kinds of the meta package that belong to every group and version.
const EVERYWHERE: [&str; 8] = [
    "WatchEvent",
    "ListOptions",
    "GetOptions",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
    "ApplyOptions",
];

/// The kinds among the types.
pub fn kinds(types: &[Type]) -> Result<Vec<Kind>, GenerateError> {
    let mut kinds = Vec::new();
    for (index, it) in types.iter().enumerate() {
        let kind = it.short_name();
        let is_everywhere = it.name.starts_with("meta/") && EVERYWHERE.contains(&kind);
        if it.is_object || is_everywhere {
            kinds.push(Kind {
                api_version: if is_everywhere {
                    Text::default()
                } else {
                    api_version(it)?
                },
                kind: Text::Owned(kind.to_owned()),
                id: TypeId::new(index),
            });
        }
    }
    Ok(kinds)
}

fn api_version(it: &Type) -> Result<Text, GenerateError> {
    let package = it.name.split('.').next().unwrap_or_default();
    let (package, version) = package.split_once('/').unwrap_or((package, ""));
    if package == "meta" && UNGROUPED.contains(&it.short_name()) {
        return Ok(Text::Owned(version.to_owned()));
    }
    let found = GROUPS.iter().find(|(name, _)| *name == package);
    let (_, group) = found.ok_or_else(|| GenerateError::Group(package.to_owned()))?;
    Ok(Text::Owned(match *group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }))
}
