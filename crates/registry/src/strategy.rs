//! How resources differ from each other: the few rules that are data, in one table.
//!
//! Everything that is not listed here behaves alike. What a kind's fields mean is in [`kinds`](crate::kinds).

use std::time::Duration;

use watchkeeper_meta::validation::NameRule;

/// An hour, as Kubernetes: events are news, not state.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// How a resource behaves where resources differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// PUT of an object that is not there creates it.
    pub creates_on_update: bool,
    /// PUT without a version overwrites whatever is there.
    pub updates_unconditionally: bool,
    /// `metadata.generation` counts the states of the spec.
    pub counts_generations: bool,
    /// Labels are part of what generations count.
    pub generations_count_labels: bool,
    /// DELETE answers with the object instead of a Status.
    pub delete_returns_object: bool,
    /// Dependents stay when the deletion does not say otherwise.
    pub orphans_by_default: bool,
    /// Propagation policies mean something.
    pub garbage_collected: bool,
    /// How long an object lives without being written.
    pub ttl: Option<Duration>,
    /// What a name may look like.
    pub names: NameRule,
}

/// PUT creates these.
const CREATED_ON_UPDATE: &[&str] = &[
    "clusterrolebindings",
    "clusterroles",
    "endpoints",
    "events",
    "leases",
    "limitranges",
    "rolebindings",
    "roles",
    "runtimeclasses",
    "services",
];

/// PUT of these needs a version.
const NEEDS_VERSION: &[&str] = &[
    "apiservices",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "customresourcedefinitions",
    "leases",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "poddisruptionbudgets",
    "runtimeclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "volumeattachments",
];

/// Kinds with a generation.
const COUNTS_GENERATIONS: &[&str] = &[
    "cronjobs",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "deviceclasses",
    "devicetaintrules",
    "endpointslices",
    "flowschemas",
    "horizontalpodautoscalers",
    "ingressclasses",
    "ingresses",
    "jobs",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "networkpolicies",
    "poddisruptionbudgets",
    "pods",
    "podtemplates",
    "prioritylevelconfigurations",
    "replicasets",
    "replicationcontrollers",
    "resourceslices",
    "statefulsets",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// DELETE shows what it deleted.
const DELETE_RETURNS_OBJECT: &[&str] = &[
    "csidrivers",
    "csinodes",
    "deviceclasses",
    "devicetaintrules",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourcequotas",
    "resourceslices",
    "serviceaccounts",
    "services",
    "storageclasses",
    "volumeattachments",
    "volumeattributesclasses",
];

impl Strategy {
    /// The strategy of every custom resource.
    pub(crate) const CUSTOM: Self = Self {
        creates_on_update: false,
        updates_unconditionally: false,
        counts_generations: true,
        generations_count_labels: false,
        delete_returns_object: false,
        orphans_by_default: false,
        garbage_collected: true,
        ttl: None,
        names: NameRule::Dns1123Subdomain,
    };

    /// The strategy of a built-in resource; plural names are unique among them where it matters.
    pub fn builtin(group: &str, plural: &str) -> Self {
        let is_event = plural == "events";
        Self {
            creates_on_update: CREATED_ON_UPDATE.contains(&plural),
            updates_unconditionally: !NEEDS_VERSION.contains(&plural),
            counts_generations: COUNTS_GENERATIONS.contains(&plural),
            generations_count_labels: plural == "endpointslices",
            delete_returns_object: DELETE_RETURNS_OBJECT.contains(&plural),
            orphans_by_default: matches!(plural, "jobs" | "replicationcontrollers"),
            garbage_collected: !is_event,
            ttl: is_event.then_some(EVENT_TTL),
            names: match (group, plural) {
                ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
                // Nobody ever said what these may be called, beyond what any path can hold.
                ("", "events") | ("policy", "poddisruptionbudgets") => NameRule::PathSegment,
                ("certificates.k8s.io", "certificatesigningrequests") => NameRule::PathSegment,
                ("", "namespaces") | ("apps", "statefulsets") => NameRule::Dns1123Label,
                ("", "services") => NameRule::Dns1035Label,
                _ => NameRule::Dns1123Subdomain,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_wire::schema::resources;

    use super::*;

    #[test]
    fn every_name_in_the_tables_is_a_resource() {
        for table in [
            CREATED_ON_UPDATE,
            NEEDS_VERSION,
            COUNTS_GENERATIONS,
            DELETE_RETURNS_OBJECT,
        ] {
            for plural in table {
                assert!(
                    resources::all()
                        .iter()
                        .any(|known| known.resource.plural == *plural),
                    "{plural}"
                );
            }
        }
    }
}
