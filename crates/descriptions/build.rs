//! Writes the table of descriptions to the output folder: from the schemas of k8s-openapi's types, compressed.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "texts")]
    texts::write();
}

#[cfg(feature = "texts")]
mod texts {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use k8s_openapi::api::{
        admissionregistration::v1 as admissionregistration, apps::v1 as apps,
        authentication::v1 as authentication, authorization::v1 as authorization,
        autoscaling::v1 as autoscaling, autoscaling::v2 as autoscaling_v2, batch::v1 as batch,
        certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol,
        networking::v1 as networking, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
        resource::v1 as resource, scheduling::v1 as scheduling, storage::v1 as storage,
        storagemigration::v1 as storagemigration,
    };
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
    use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
    use schemars::SchemaGenerator;
    use serde_json::Value;

    /// The texts of a type: its own under the empty name, then those of its fields.
    type Texts<'a> = BTreeMap<&'a str, &'a str>;

    pub(super) fn write() {
        let mut schemas = SchemaGenerator::default();
        add_kinds(&mut schemas);
        let types = schemas.definitions().iter();
        let table: BTreeMap<&str, Texts<'_>> =
            types.map(|(name, schema)| (&**name, texts_of(schema))).collect();
        let folder = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
        let file =
            File::create(Path::new(&folder).join("texts.json.gz")).expect("the output folder is writable");
        let mut compressed = GzEncoder::new(file, Compression::best());
        serde_json::to_writer(&mut compressed, &table).expect("the table is written");
        compressed.finish().expect("the table is complete");
    }

    fn texts_of(schema: &Value) -> Texts<'_> {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let fields = fields.map(|(name, field)| (&**name, field));
        std::iter::once(("", schema))
            .chain(fields)
            .filter_map(|(name, schema)| Some((name, schema["description"].as_str()?)))
            .collect()
    }

    /// The kinds of a 1.37 server that are served by default. The types they refer to follow.
    fn add_kinds(schemas: &mut SchemaGenerator) {
        macro_rules! add {
            ($($package:ident: $($kind:ident)*;)*) => {
                $($(schemas.subschema_for::<$package::$kind>();)*)*
            };
        }
        add! {
            admissionregistration: MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
                MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
                ValidatingWebhookConfiguration;
            apiextensions: CustomResourceDefinition;
            apiregistration: APIService;
            apps: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
            authentication: SelfSubjectReview TokenRequest TokenReview;
            authorization: LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
                SubjectAccessReview;
            autoscaling: HorizontalPodAutoscaler Scale;
            autoscaling_v2: HorizontalPodAutoscaler;
            batch: CronJob Job;
            certificates: CertificateSigningRequest ClusterTrustBundle PodCertificateRequest;
            coordination: Lease;
            core: Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
                PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
                ServiceAccount;
            discovery: EndpointSlice;
            events: Event;
            flowcontrol: FlowSchema PriorityLevelConfiguration;
            meta: APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta Status;
            networking: Ingress IngressClass IPAddress NetworkPolicy ServiceCIDR;
            node: RuntimeClass;
            policy: Eviction PodDisruptionBudget;
            rbac: ClusterRole ClusterRoleBinding Role RoleBinding;
            resource: DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice;
            scheduling: PriorityClass;
            storage: CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass;
            storagemigration: StorageVersionMigration;
        }
    }
}
