//! The priorities of local group versions, by which discovery orders groups and versions.

/// Groups of custom kinds follow the built-in ones.
const CUSTOM_GROUP: i32 = 1000;
const CUSTOM_VERSION: i32 = 100;

/// Priorities of the built-in groups, as kube-apiserver registers them.
const GROUPS: &[(&str, i32)] = &[
    // Served by the aggregation layer itself, before all others.
    ("apiregistration.k8s.io", 20_000),
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("internal.apiserver.k8s.io", 16_000),
    ("storagemigration.k8s.io", 15_800),
];

/// The priority of a local group.
pub(crate) fn group_priority(group: &str) -> i32 {
    let known = GROUPS.iter().find(|(name, _)| *name == group);
    known.map_or(CUSTOM_GROUP, |(_, priority)| *priority)
}

/// The priority of a local version in its group: stable before beta before alpha, later versions first.
pub(crate) fn version_priority(group: &str, version: &str) -> i32 {
    if group_priority(group) == CUSTOM_GROUP {
        return CUSTOM_VERSION;
    }
    match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io", "v1") => 21,
        (_, version) if version.contains("alpha") => 9,
        (_, version) if version.contains("beta") => 12,
        _ => 15,
    }
}
