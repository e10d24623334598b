//! The built-in kinds, one file each.

use crate::kind::Kind;

/// Declares the modules, the kinds as constants, and the list of all kinds.
macro_rules! kinds {
    ($($file:ident: $name:ident,)*) => {
        $(pub(crate) mod $file;)*
        $(pub use self::$file::KIND as $name;)*

        static ALL: &[&Kind] = &[$(&self::$file::KIND,)*];
    };
}

kinds! {
    api_service: API_SERVICE,
    certificate_signing_request: CERTIFICATE_SIGNING_REQUEST,
    cluster_role: CLUSTER_ROLE,
    cluster_role_binding: CLUSTER_ROLE_BINDING,
    cluster_trust_bundle: CLUSTER_TRUST_BUNDLE,
    component_status: COMPONENT_STATUS,
    config_map: CONFIG_MAP,
    controller_revision: CONTROLLER_REVISION,
    cron_job: CRON_JOB,
    csi_driver: CSI_DRIVER,
    csi_node: CSI_NODE,
    csi_storage_capacity: CSI_STORAGE_CAPACITY,
    custom_resource_definition: CUSTOM_RESOURCE_DEFINITION,
    daemon_set: DAEMON_SET,
    deployment: DEPLOYMENT,
    device_class: DEVICE_CLASS,
    device_taint_rule: DEVICE_TAINT_RULE,
    endpoint_slice: ENDPOINT_SLICE,
    endpoints: ENDPOINTS,
    event: EVENT,
    events_k8s_io_event: EVENTS_K8S_IO_EVENT,
    flow_schema: FLOW_SCHEMA,
    horizontal_pod_autoscaler: HORIZONTAL_POD_AUTOSCALER,
    ingress: INGRESS,
    ingress_class: INGRESS_CLASS,
    ip_address: IP_ADDRESS,
    job: JOB,
    lease: LEASE,
    limit_range: LIMIT_RANGE,
    mutating_admission_policy: MUTATING_ADMISSION_POLICY,
    mutating_admission_policy_binding: MUTATING_ADMISSION_POLICY_BINDING,
    mutating_webhook_configuration: MUTATING_WEBHOOK_CONFIGURATION,
    namespace: NAMESPACE,
    network_policy: NETWORK_POLICY,
    node: NODE,
    persistent_volume: PERSISTENT_VOLUME,
    persistent_volume_claim: PERSISTENT_VOLUME_CLAIM,
    pod: POD,
    pod_certificate_request: POD_CERTIFICATE_REQUEST,
    pod_disruption_budget: POD_DISRUPTION_BUDGET,
    pod_template: POD_TEMPLATE,
    priority_class: PRIORITY_CLASS,
    priority_level_configuration: PRIORITY_LEVEL_CONFIGURATION,
    replica_set: REPLICA_SET,
    replication_controller: REPLICATION_CONTROLLER,
    resource_claim: RESOURCE_CLAIM,
    resource_claim_template: RESOURCE_CLAIM_TEMPLATE,
    resource_quota: RESOURCE_QUOTA,
    resource_slice: RESOURCE_SLICE,
    role: ROLE,
    role_binding: ROLE_BINDING,
    runtime_class: RUNTIME_CLASS,
    secret: SECRET,
    service: SERVICE,
    service_account: SERVICE_ACCOUNT,
    service_cidr: SERVICE_CIDR,
    stateful_set: STATEFUL_SET,
    storage_class: STORAGE_CLASS,
    storage_version_migration: STORAGE_VERSION_MIGRATION,
    validating_admission_policy: VALIDATING_ADMISSION_POLICY,
    validating_admission_policy_binding: VALIDATING_ADMISSION_POLICY_BINDING,
    validating_webhook_configuration: VALIDATING_WEBHOOK_CONFIGURATION,
    volume_attachment: VOLUME_ATTACHMENT,
    volume_attributes_class: VOLUME_ATTRIBUTES_CLASS,
}

/// The base of every custom kind.
pub static CUSTOM: Kind = Kind::CUSTOM;

/// Finds a kind by group and name.
pub(crate) fn find(group: &str, name: &str) -> Option<&'static Kind> {
    ALL.iter()
        .copied()
        .find(|kind| kind.group == group && kind.name == name)
}

/// Finds a kind by group and plural name.
pub fn by_plural(group: &str, plural: &str) -> Option<&'static Kind> {
    ALL.iter()
        .copied()
        .find(|kind| kind.group == group && kind.plural == plural)
}

#[cfg(test)]
mod tests {
    use watchkeeper_wire::schema::resources;

    use super::*;

    #[test]
    fn every_listable_resource_has_a_kind_and_columns() {
        for listing in resources::all().iter().filter(|it| it.has_verb("list")) {
            let resource = &listing.resource;
            let kind = find(&resource.group, &resource.kind);
            let kind = kind.unwrap_or_else(|| panic!("{resource:?} has no file"));
            assert_eq!(kind.plural, resource.plural);
            assert!(!kind.columns.is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn every_kind_is_a_resource() {
        for kind in ALL {
            let mut all = resources::all().iter().map(|it| &it.resource);
            assert!(
                all.any(|it| it.group == kind.group && it.kind == kind.name),
                "{kind:?}"
            );
        }
    }
}
