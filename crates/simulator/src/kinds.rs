//! The kinds of the simulator.

use watchkeeper_meta::Resource;
use watchkeeper_wire::schema::resources;

/// A built-in resource in its first stable version.
pub(crate) fn resource(group: &str, plural: &str) -> Resource {
    match resources::by_plural(group, "v1", plural) {
        Some(known) => known.resource.clone(),
        // Every name used here is in the table; a test checks each.
        None => unreachable!("{plural} is a built-in resource"),
    }
}

/// Autoscalers in the version with all metrics.
pub(crate) fn autoscalers() -> Resource {
    match resources::by_plural("autoscaling", "v2", "horizontalpodautoscalers") {
        Some(known) => known.resource.clone(),
        None => resource("autoscaling", "horizontalpodautoscalers"),
    }
}

macro_rules! kinds {
    ($($name:ident: $group:literal $plural:literal,)*) => {
        $(pub(crate) fn $name() -> Resource {
            resource($group, $plural)
        })*

        #[cfg(test)]
        const ALL: &[fn() -> Resource] = &[$($name),*];
    };
}

kinds! {
    certificate_signing_requests: "certificates.k8s.io" "certificatesigningrequests",
    claims: "" "persistentvolumeclaims",
    cluster_roles: "rbac.authorization.k8s.io" "clusterroles",
    config_maps: "" "configmaps",
    controller_revisions: "apps" "controllerrevisions",
    cron_jobs: "batch" "cronjobs",
    custom_resource_definitions: "apiextensions.k8s.io" "customresourcedefinitions",
    daemon_sets: "apps" "daemonsets",
    deployments: "apps" "deployments",
    disruption_budgets: "policy" "poddisruptionbudgets",
    endpoint_slices: "discovery.k8s.io" "endpointslices",
    endpoints: "" "endpoints",
    jobs: "batch" "jobs",
    leases: "coordination.k8s.io" "leases",
    namespaces: "" "namespaces",
    nodes: "" "nodes",
    pods: "" "pods",
    policies: "admissionregistration.k8s.io" "validatingadmissionpolicies",
    quotas: "" "resourcequotas",
    replica_sets: "apps" "replicasets",
    replication_controllers: "" "replicationcontrollers",
    service_accounts: "" "serviceaccounts",
    services: "" "services",
    stateful_sets: "apps" "statefulsets",
    subject_access_reviews: "authorization.k8s.io" "subjectaccessreviews",
    volumes: "" "persistentvolumes",
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kind_is_in_the_table() {
        for kind in super::ALL {
            assert!(!kind().kind.is_empty());
        }
    }
}
