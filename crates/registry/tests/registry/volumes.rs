//! Validation of volume sources that no recording covers.

use serde_json::{Value, json};

use crate::refusals::check;

const PODS: &str = "/api/v1/namespaces/default/pods";
const VOLUMES: &str = "/api/v1/persistentvolumes";

fn pod() -> Value {
    json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Creates pods with one volume. Errors are given below the volume.
async fn check_pods(cases: &[(Value, &str)]) {
    for (source, why) in cases {
        let mut volume = source.clone();
        volume["name"] = json!("v");
        check(
            PODS,
            pod(),
            &[("/spec/volumes", json!([volume]), &at("spec.volumes[0].", why))],
        )
        .await;
    }
}

/// Creates persistent volumes with a source. Errors are given below the spec.
async fn check_persistent(cases: &[(Value, &str)]) {
    for (source, why) in cases {
        let mut spec = source.clone();
        spec["accessModes"] = json!(["ReadWriteOnce"]);
        spec["capacity"] = json!({"storage": "1Gi"});
        let volume = json!({"metadata": {"name": "x"}, "spec": {}});
        check(VOLUMES, volume, &[("/spec", spec, &at("spec.", why))]).await;
    }
}

/// Puts the path in front of each error.
fn at(path: &str, errors: &str) -> String {
    match errors.split(" | ").collect::<Vec<_>>()[..] {
        [""] => String::new(),
        [error] => format!("{path}{error}"),
        ref errors => {
            let errors: Vec<String> = errors.iter().map(|error| format!("{path}{error}")).collect();
            format!("[{}]", errors.join(", "))
        }
    }
}

#[tokio::test]
async fn disks_of_clouds() {
    check_pods(&[
        (json!({"gcePersistentDisk": {"pdName": "d", "partition": 255}}), ""),
        (
            json!({"gcePersistentDisk": {"partition": 256}}),
            "persistentDisk.pdName: Required value | persistentDisk.partition: Invalid value: 256: must be between 1 \
             and 255, inclusive",
        ),
        (
            json!({"awsElasticBlockStore": {"volumeID": "d", "partition": -1}}),
            "awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive",
        ),
        (json!({"azureDisk": {"diskName": "d", "diskURI": "https://a"}}), ""),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "https://a", "cachingMode": "All", "kind": "Managed"}}),
            "azureDisk.cachingMode: Unsupported value: \"All\": supported values: \"None\", \"ReadOnly\", \
             \"ReadWrite\" | azureDisk.diskURI: Unsupported value: \"https://a\": supported values: \
             \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
        ),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Other"}}),
            "azureDisk.kind: Unsupported value: \"Other\": supported values: \"Dedicated\", \"Managed\", \"Shared\" | \
             azureDisk.diskURI: Unsupported value: \"x\": supported values: \
             \"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd\"",
        ),
        (json!({"cinder": {"volumeID": "d", "secretRef": {}}}), "cinder.secretRef.name: Required value"),
        (json!({"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {}}}), ""),
    ])
    .await;
}

#[tokio::test]
async fn disks_of_storage_networks() {
    const IQN: &str = "iqn.2001-04.com.example:storage";
    const LUN: &str = "must be between 0 and 255, inclusive";
    let iscsi = |name: &str| json!({"iscsi": {"targetPortal": "p", "iqn": name, "lun": 0}});
    check_pods(&[
        (iscsi(IQN), ""),
        (iscsi("eui.0123456789abcdef"), ""),
        (iscsi("naa.0123456789abcdef0123456789abcdef"), ""),
        (
            iscsi("eui.0123"),
            "iscsi.iqn: Invalid value: \"eui.0123\": must be valid format",
        ),
        (
            iscsi("iqn.2001-04.com.example"),
            "iscsi.iqn: Invalid value: \"iqn.2001-04.com.example\": must be valid format",
        ),
        (
            iscsi("other"),
            "iscsi.iqn: Invalid value: \"other\": must be valid format starting with iqn, eui, or naa",
        ),
        (
            json!({"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 256, "chapAuthSession": true}}),
            &format!("iscsi.lun: Invalid value: 256: {LUN} | iscsi.secretRef: Required value"),
        ),
        (
            json!({"iscsi": {"targetPortal": "p".repeat(63), "iqn": IQN, "lun": 0, "initiatorName": IQN}}),
            "name: Invalid value: \"v\": Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
             characters if iscsi.initiatorName is specified.",
        ),
        (json!({"fc": {"targetWWNs": ["a"], "lun": 0}}), ""),
        (json!({"fc": {"wwids": ["a"]}}), ""),
        (
            json!({"fc": {}}),
            "fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both",
        ),
        (
            json!({"fc": {"targetWWNs": ["a"]}}),
            "fc.lun: Required value: lun is required if targetWWNs is specified",
        ),
        (
            json!({"fc": {"targetWWNs": ["a"], "lun": -1}}),
            &format!("fc.lun: Invalid value: -1: {LUN}"),
        ),
    ])
    .await;
    check_persistent(&[
        (
            iscsi("other"),
            "iscsi.iqn: Invalid value: \"other\": must be valid format",
        ),
        (
            json!({"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 0, "secretRef": {"namespace": "n"}}}),
            "iscsi.secretRef.name: Required value",
        ),
        (
            json!({"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 0, "initiatorName": "x"}}),
            "iscsi.initiatorname: Invalid value: \"x\": must be valid format",
        ),
        (
            json!({"cinder": {"volumeID": "d", "secretRef": {}}}),
            "cinder.secretRef.name: Required value | cinder.secretRef.namespace: Required value",
        ),
    ])
    .await;
}

#[tokio::test]
async fn network_file_systems() {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    check_pods(&[
        (json!({"quobyte": {"registry": "a:1,[::1]:2", "volume": "v"}}), ""),
        (
            json!({"quobyte": {"registry": "a:1,b"}}),
            &format!("quobyte.registry: Invalid value: \"a:1,b\": {PAIRS} | quobyte.volume: Required value"),
        ),
        (
            json!({"quobyte": {"registry": "a:1", "volume": "v", "tenant": "t".repeat(65)}}),
            "quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters",
        ),
        (
            json!({"flocker": {}}),
            "flocker: Required value: one of datasetName and datasetUUID is required",
        ),
        (
            json!({"flocker": {"datasetName": "a/b", "datasetUUID": "u"}}),
            "flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously | \
             flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
        ),
        (
            json!({"nfs": {"server": "s", "path": "x"}}),
            "nfs.path: Invalid value: \"x\": must be an absolute path",
        ),
        (
            json!({"storageos": {"volumeName": "v", "secretRef": {}}}),
            "storageos.secretRef.name: Required value",
        ),
    ])
    .await;
    check_persistent(&[
        (
            json!({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}}),
            "glusterfs.endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set, it must be a valid \
             namespace name",
        ),
        (
            json!({"azureFile": {"secretName": "s", "shareName": "n", "secretNamespace": ""}}),
            "azureFile.secretNamespace: Required value",
        ),
        (
            json!({"storageos": {"volumeName": "v", "secretRef": {"name": "s"}}}),
            "storageos.secretRef.namespace: Required value",
        ),
    ])
    .await;
}

#[tokio::test]
async fn drivers_and_inline_volumes() {
    const RESERVED: &str = "kubernetes.io and k8s.io namespaces are reserved";
    check_pods(&[
        (
            json!({"flexVolume": {"driver": "d", "options": {"a.k8s.io/b": "1", "Kubernetes.io": "2", "k8s.iox": "3"}}}),
            &format!(
                "flexVolume.options[Kubernetes.io]: Invalid value: \"Kubernetes.io\": {RESERVED} | \
                 flexVolume.options[a.k8s.io/b]: Invalid value: \"a.k8s.io/b\": {RESERVED}"
            ),
        ),
        (
            json!({"csi": {"driver": "d.e", "nodePublishSecretRef": {}}}),
            "csi.nodePublishSecretRef.name: Required value",
        ),
        (json!({"image": {}}), "image.reference: Required value"),
        (
            json!({"image": {"pullPolicy": "x"}}),
            "image.reference: Required value | image.pullPolicy: Unsupported value: \"x\": supported values: \
             \"Always\", \"IfNotPresent\", \"Never\"",
        ),
    ])
    .await;
}

#[tokio::test]
async fn several_sources_are_refused_except_for_a_flex_volume() {
    let more = "Forbidden: may not specify more than 1 volume type";
    check_pods(&[(json!({"emptyDir": {}, "cephfs": {}}), &format!("cephFS: {more}"))]).await;
    check_persistent(&[
        (
            json!({"nfs": {"server": "s", "path": "/"}, "flexVolume": {"driver": ""}}),
            "flexVolume.driver: Required value",
        ),
        (
            json!({"nfs": {"server": "s", "path": "/"}, "csi": {}}),
            &format!("csi: {more}"),
        ),
        (
            json!({"local": {"path": "/a/../b"}}),
            "local.path: Invalid value: \"/a/../b\": must not contain '..' | nodeAffinity: Required value: Local \
             volume requires node affinity",
        ),
    ])
    .await;
}

#[tokio::test]
async fn mount_options_as_an_annotation_need_a_source_that_has_them() {
    let annotated = |source: &str, value: Value| {
        json!({
            "metadata": {"name": "x", "annotations": {"volume.beta.kubernetes.io/mount-options": "ro"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, source: value},
        })
    };
    let name = json!("x");
    let nfs = annotated("nfs", json!({"server": "s", "path": "/"}));
    check(VOLUMES, nfs, &[("/metadata/name", name.clone(), "")]).await;
    let why = "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options \
               for this volume type";
    let host = annotated("hostPath", json!({"path": "/x"}));
    check(VOLUMES, host, &[("/metadata/name", name, why)]).await;
}

#[tokio::test]
async fn what_a_pod_tells_the_signer_of_its_certificate() {
    let source = |more: Value| {
        let mut certificate = json!({"signerName": "a.b/c", "keyType": "ED25519", "keyPath": "k"});
        certificate
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"projected": {"sources": [{"podCertificate": certificate}]}})
    };
    let at = |why: &str| format!("projected.sources[0].podCertificate.{why}");
    check_pods(&[
        (source(json!({"userAnnotations": {"Acme.io/foo": "x"}, "maxExpirationSeconds": 7_862_400})), ""),
        (
            source(json!({"userAnnotations": {"foo": "x"}})),
            &at("userAnnotations: Invalid value: \"foo\": must be a domain-prefixed key (such as \"acme.io/foo\")"),
        ),
        (
            source(json!({"signerName": "kubernetes.io/x", "maxExpirationSeconds": 86_401})),
            &at("maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400"),
        ),
        (
            source(json!({"signerName": "a_.b/c"})),
            &at(
                "signerName: Invalid value: \"a_.b\": validating label \"a_\": a lowercase RFC 1123 label must \
                 consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric \
                 character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
        ),
        (
            source(json!({"signerName": "a/c"})),
            &at("signerName: Invalid value: \"a\": should be a domain with at least two segments separated by dots"),
        ),
    ])
    .await;
}
