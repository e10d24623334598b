//! Validation errors of every kind. Each case is a valid object with one field changed; texts, order and field names
//! are those of Kubernetes.

use crate::recording::{registry, send};
use serde_json::{Value, json};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                   '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Sets the value at a pointer, creating missing parents.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/");
        place = match step.parse::<usize>() {
            Ok(index) if place.is_array() => &mut place[index],
            _ => &mut place[step.as_str()],
        };
    }
    *place = value;
}

/// The field errors of a message, without kind and name.
fn reasons(message: &str) -> String {
    let (_, reasons) = message.split_once(" is invalid: ").unwrap_or(("", message));
    reasons.to_owned()
}

/// Creates an object with one field changed, once for each case; an empty text means that it is valid.
pub(crate) async fn check(path: &str, object: Value, cases: &[(&str, Value, &str)]) {
    for (pointer, value, why) in cases {
        let registry = registry().await;
        let mut object = object.clone();
        set(&mut object, pointer, value.clone());
        let told = match send(&registry, "POST", path, object).await {
            Ok(_) => String::new(),
            Err(status) => reasons(&status.message),
        };
        assert_eq!(told, *why, "{path} {pointer} {value}");
    }
}

/// Changes one field of an existing object.
pub(crate) async fn check_change(path: &str, object: Value, cases: &[(&str, Value, &str)]) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    for (pointer, value, why) in cases {
        let registry = registry().await;
        let created = send(&registry, "POST", path, object.clone()).await;
        let mut changed = created.unwrap_or_else(|status| panic!("{path}: {}", status.message));
        set(&mut changed, pointer, value.clone());
        let told = match send(&registry, "PUT", &format!("{path}/{name}"), changed).await {
            Ok(_) => String::new(),
            Err(status) => reasons(&status.message),
        };
        assert_eq!(told, *why, "{path} {pointer} {value}");
    }
}

fn named(spec: Value) -> Value {
    json!({"metadata": {"name": "x"}, "spec": spec})
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i:1"}]})
}

fn in_namespace(group_version: &str, plural: &str) -> String {
    let root = if group_version == "v1" { "api" } else { "apis" };
    format!("/{root}/{group_version}/namespaces/default/{plural}")
}

#[tokio::test]
async fn names_of_objects() {
    let map = json!({"metadata": {"name": "x"}});
    let long = "a".repeat(254);
    check(
        &in_namespace("v1", "configmaps"),
        map.clone(),
        &[
            (
                "/metadata/name",
                json!("Bad_Name"),
                &format!(r#"metadata.name: Invalid value: "Bad_Name": {SUBDOMAIN}"#),
            ),
            (
                "/metadata/name",
                json!(long),
                &format!(r#"metadata.name: Invalid value: "{long}": must be no more than 253 characters"#),
            ),
            (
                "/metadata/labels",
                json!({"app": "bad value"}),
                "metadata.labels: Invalid value: \"bad value\": a valid label must be an empty string or consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ),
            (
                "/metadata/finalizers",
                json!(["mine"]),
                "metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it \
                 fully qualified",
            ),
        ],
    )
    .await;
    check(
        "/api/v1/namespaces",
        map.clone(),
        &[(
            "/metadata/name",
            json!("a.b"),
            "metadata.name: Invalid value: \"a.b\": must not contain dots",
        )],
    )
    .await;
    let budgets = in_namespace("policy/v1", "poddisruptionbudgets");
    check(
        &budgets,
        named(json!({"minAvailable": 1})),
        &[
            ("/metadata/name", json!("Fine_Too"), ""),
            (
                "/metadata/name",
                json!("a%b"),
                "metadata.name: Invalid value: \"a%b\": may not contain '%'",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn containers_of_pods() {
    check(
        &in_namespace("v1", "pods"),
        named(pod_spec()),
        &[
            ("/spec/containers", json!([]), "spec.containers: Required value"),
            (
                "/spec/containers/0/name",
                json!("Not_Ok"),
                &format!(r#"spec.containers[0].name: Invalid value: "Not_Ok": {LABEL}"#),
            ),
            (
                "/spec/containers/0/image",
                json!(" i:1"),
                "spec.containers[0].image: Invalid value: \" i:1\": must not have leading or trailing whitespace",
            ),
            ("/spec/containers/0/image", json!(""), "spec.containers[0].image: Required value"),
            (
                "/spec/containers/0/terminationMessagePolicy",
                json!("Nope"),
                "spec.containers[0].terminationMessagePolicy: Unsupported value: \"Nope\": supported values: \"File\", \
                 \"FallbackToLogsOnError\"",
            ),
            (
                "/spec/containers/0/ports",
                json!([{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]),
                "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\"",
            ),
            (
                "/spec/containers/0/restartPolicy",
                json!("Often"),
                "spec.containers[0].restartPolicy: Unsupported value: \"Often\": supported values: \"Always\", \
                 \"Never\", \"OnFailure\"",
            ),
            (
                "/spec/initContainers",
                json!([{"name": "c", "image": "i:1"}]),
                "spec.initContainers[0].name: Duplicate value: \"c\"",
            ),
            (
                "/spec/initContainers",
                json!([{"name": "i", "image": "i:1", "livenessProbe": {"exec": {"command": ["x"]}}}]),
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without \
                 restartPolicy=Always",
            ),
            (
                "/spec/ephemeralContainers",
                json!([{"name": "d", "image": "i:1"}]),
                "spec.ephemeralContainers: Forbidden: cannot be set on create",
            ),
            (
                "/spec/containers/0/lifecycle",
                json!({"preStop": {"sleep": {"seconds": 31}}}),
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than \
                 terminationGracePeriodSeconds (30)",
            ),
            (
                "/spec/containers/0/readinessProbe",
                json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "X Y", "value": ""}]}}),
                "spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: \"X Y\": a valid HTTP header \
                 must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
                 '[-A-Za-z0-9]+')",
            ),
            (
                "/spec/containers/0/livenessProbe",
                json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 80}}),
                "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn resources_of_containers() {
    check(
        &in_namespace("v1", "pods"),
        named(pod_spec()),
        &[
            (
                "/spec/containers/0/resources",
                json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}}),
                "spec.containers[0].resources.requests: Invalid value: \"2Gi\": must be less than or equal to memory \
                 limit of 1Gi",
            ),
            (
                "/spec/containers/0/resources",
                json!({"requests": {"example.com/gpu": "1"}}),
                "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            ),
            (
                "/spec/containers/0/resources",
                json!({"limits": {"example.com/gpu": "500m"}}),
                "[spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer, \
                 spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"500m\": must be an integer]",
            ),
            (
                "/spec/containers/0/resources",
                json!({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}),
                "[spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive \
                 integer multiple of hugepages-2Mi, spec.containers[0].resources.requests[hugepages-2Mi]: Invalid \
                 value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi]",
            ),
            (
                "/spec/containers/0/resources",
                json!({"limits": {"hugepages-2Mi": "4Mi"}}),
                "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
            ),
            (
                "/spec/containers/0/resources",
                json!({"claims": [{"name": "gpu"}]}),
                "spec.containers[0].resources.claims[0]: Not found: \"gpu\": must be one of the names in \
                 pod.spec.resourceClaims which is empty",
            ),
            (
                "/spec/containers/0/resizePolicy",
                json!([{"resourceName": "disk", "restartPolicy": "NotRequired"}]),
                "spec.containers[0].resizePolicy: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\"",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn environments_and_mounts() {
    check(
        &in_namespace("v1", "pods"),
        named(pod_spec()),
        &[
            (
                "/spec/containers/0/env",
                json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "", "key": "k"}}}]),
                &format!(
                    "spec.containers[0].env[0].valueFrom.secretKeyRef.name: Invalid value: \"\": {SUBDOMAIN}"
                ),
            ),
            (
                "/spec/containers/0/env",
                json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "a b"}}}]),
                "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Invalid value: \"a b\": a valid config key \
                 must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or \
                 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ),
            (
                "/spec/containers/0/env",
                json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]),
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": \
                 supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \
                 \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
            ),
            (
                "/spec/containers/0/env",
                json!([{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}}}]),
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only \
                 divisor's values 1m and 1 are supported with the cpu resource",
            ),
            (
                "/spec/containers/0/envFrom",
                json!([{"prefix": "A_"}]),
                "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            ),
            (
                "/spec/containers/0/volumeMounts",
                json!([{"name": "v", "mountPath": ""}]),
                "[spec.containers[0].volumeMounts[0].name: Not found: \"v\", \
                 spec.containers[0].volumeMounts[0].mountPath: Required value]",
            ),
            (
                "/spec",
                json!({"containers": [{"name": "c", "image": "i:1", "volumeMounts":
                    [{"name": "v", "mountPath": "/v", "subPath": "../x", "mountPropagation": "Bidirectional"}]}],
                    "volumes": [{"name": "v"}]}),
                "[spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..', \
                 spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is \
                 available only to privileged containers]",
            ),
            (
                "/spec",
                json!({"containers": [{"name": "c", "image": "i:1", "volumeDevices":
                    [{"name": "v", "devicePath": "/dev/x"}]}], "volumes": [{"name": "v", "emptyDir": {}}]}),
                "spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of \
                 PersistentVolumeClaim or Ephemeral for block mode",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn volumes_of_pods() {
    check(
        &in_namespace("v1", "pods"),
        named(pod_spec()),
        &[
            (
                "/spec/volumes",
                json!([{"name": "v", "emptyDir": {}, "configMap": {"name": "m"}}]),
                "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "hostPath": {"path": "/a/../b", "type": "Thing"}}]),
                "[spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..', \
                 spec.volumes[0].hostPath.type: Unsupported value: \"Thing\": supported values: \"\", \"BlockDevice\", \
                 \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"]",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "secret": {"secretName": "s", "defaultMode": 1000,
                    "items": [{"key": "k", "path": "/x"}]}}]),
                "[spec.volumes[0].secret.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 \
                 (octal), both inclusive, spec.volumes[0].secret.items[0].path: Invalid value: \"/x\": must be a \
                 relative path]",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "nfs": {"server": "s", "path": ""}}]),
                "[spec.volumes[0].nfs.path: Required value, spec.volumes[0].nfs.path: Invalid value: \"\": must be an \
                 absolute path]",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "downwardAPI": {"items": [{"path": "a"}]}}]),
                "spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "projected": {"sources": [
                    {"configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                    {"secret": {"name": "b", "items": [{"key": "k", "path": "p"}]}}]}}]),
                "spec.volumes[0].projected: Invalid value: \"b\": conflicting duplicate paths",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when \
                 serviceAccountName is not set",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]),
                "[spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access \
                 mode is required, spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required \
                 value]",
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "csi": {"driver": "Not_A_Driver"}}]),
                &format!(r#"spec.volumes[0].csi.driver: Invalid value: "Not_A_Driver": {SUBDOMAIN}"#),
            ),
            (
                "/spec/volumes",
                json!([{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
                "spec.volumes[1].name: Duplicate value: \"v\"",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn scheduling_and_security_of_pods() {
    check(
        &in_namespace("v1", "pods"),
        named(pod_spec()),
        &[
            (
                "/spec/overhead",
                json!({"cpu": "1"}),
                "pods \"x\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                 Overhead",
            ),
            (
                "/spec/restartPolicy",
                json!("Sometimes"),
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \
                 \"Never\"",
            ),
            (
                "/spec/dnsPolicy",
                json!("Mine"),
                "spec.dnsPolicy: Unsupported value: \"Mine\": supported values: \"ClusterFirstWithHostNet\", \
                 \"ClusterFirst\", \"Default\", \"None\"",
            ),
            (
                "/spec/dnsPolicy",
                json!("None"),
                "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
            ),
            (
                "/spec/tolerations",
                json!([{"key": "k", "operator": "Exists", "value": "v"}]),
                "spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
            ),
            (
                "/spec/tolerations",
                json!([{"key": "k", "effect": "Never"}]),
                "spec.tolerations[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"",
            ),
            (
                "/spec/schedulingGates",
                json!([{"name": "a b"}]),
                &format!(r#"spec.schedulingGates[0]: Invalid value: "a b": {KEY}"#),
            ),
            (
                "/spec/nodeSelector",
                json!({"a": "b c"}),
                "spec.nodeSelector: Invalid value: \"b c\": a valid label must be an empty string or consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ),
            (
                "/spec/securityContext",
                json!({"runAsUser": -1, "seccompProfile": {"type": "Localhost"}}),
                "[spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive, \
                 spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type \
                 is Localhost]",
            ),
            (
                "/spec/containers/0/securityContext",
                json!({"privileged": true, "allowPrivilegeEscalation": false}),
                "spec.containers[0].securityContext: Invalid value: {\"Capabilities\":null,\"Privileged\":true,\
                 \"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\
                 \"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\
                 \"ProcMount\":null,\"SeccompProfile\":null,\"AppArmorProfile\":null}: cannot set \
                 `allowPrivilegeEscalation` to false and `privileged` to true",
            ),
            (
                "/spec/hostAliases",
                json!([{"ip": "10.0.0.300", "hostnames": ["Bad_Host"]}]),
                &format!(
                    "[spec.hostAliases[0].ip: Invalid value: \"10.0.0.300\": must be a valid IP address, (e.g. \
                     10.9.8.7 or 2001:db8::ffff), spec.hostAliases[0].hostnames[0]: Invalid value: \"Bad_Host\": \
                     {SUBDOMAIN}]"
                ),
            ),
            (
                "/spec/activeDeadlineSeconds",
                json!(0),
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
            ),
            (
                "/spec/os",
                json!({"name": "plan9"}),
                "spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn changes_of_pods() {
    let pods = in_namespace("v1", "pods");
    check_change(
        &pods,
        named(pod_spec()),
        &[
            ("/spec/containers/0/image", json!("i:2"), ""),
            (
                "/spec/containers",
                json!([]),
                "[spec.containers: Required value, spec.containers: Forbidden: pod updates may not add or remove \
                 containers]",
            ),
            (
                "/spec/schedulingGates",
                json!([{"name": "g"}]),
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
            ),
            (
                "/spec/tolerations",
                json!([]),
                "",
            ),
        ],
    )
    .await;
    check_status(
        &pods,
        named(pod_spec()),
        &[
            ("/status/qosClass", json!("Burstable"), "status.qosClass: Invalid value: \"Burstable\": field is immutable"),
            (
                "/status/podIPs",
                json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]),
                "status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than \
                 one IP for each IP family",
            ),
        ],
    )
    .await;
}

/// Changes one field of an object's status.
async fn check_status(path: &str, object: Value, cases: &[(&str, Value, &str)]) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    for (pointer, value, why) in cases {
        let registry = registry().await;
        let mut changed = send(&registry, "POST", path, object.clone()).await.unwrap();
        set(&mut changed, pointer, value.clone());
        let told = match send(&registry, "PUT", &format!("{path}/{name}/status"), changed).await {
            Ok(_) => String::new(),
            Err(status) => reasons(&status.message),
        };
        assert_eq!(told, *why, "{path} {pointer} {value}");
    }
}

#[tokio::test]
async fn namespaces_are_active_until_they_are_deleted() {
    check_status(
        "/api/v1/namespaces",
        json!({"metadata": {"name": "n"}}),
        &[
            ("/status/phase", json!("Active"), ""),
            (
                "/status/phase",
                json!("Terminating"),
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
            ),
            (
                "/status/phase",
                json!("Nope"),
                "status.Phase: Invalid value: \"Nope\": may only be 'Active' if `deletionTimestamp` is empty",
            ),
        ],
    )
    .await;
    check(
        "/api/v1/namespaces",
        json!({"metadata": {"name": "n"}}),
        &[(
            "/spec/finalizers",
            json!(["mine"]),
            "spec.finalizers: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully \
             qualified",
        )],
    )
    .await;
}

fn workload(more: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec()},
    });
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    named(spec)
}

#[tokio::test]
async fn sets_of_pods() {
    check(
        &in_namespace("apps/v1", "replicasets"),
        workload(json!({})),
        &[
            (
                "/spec/template/spec/restartPolicy",
                json!("OnFailure"),
                "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
            ),
            (
                "/spec/template/spec/activeDeadlineSeconds",
                json!(5),
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not \
                 Supported",
            ),
            (
                "/spec/template/metadata/labels/bad key",
                json!("v"),
                &format!(r#"spec.template.labels: Invalid value: "bad key": {KEY}"#),
            ),
            // Templates may contain values that pods may not.
            ("/spec/template/spec/containers/0/image", json!(" "), ""),
        ],
    )
    .await;
    check(
        &in_namespace("apps/v1", "statefulsets"),
        workload(json!({})),
        &[
            (
                "/spec/serviceName",
                json!("Not_Ok"),
                &format!(r#"spec.serviceName: Invalid value: "Not_Ok": {LABEL}"#),
            ),
            (
                "/spec/updateStrategy",
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}),
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
            ),
            (
                "/spec/ordinals",
                json!({"start": -1}),
                "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "/metadata/name",
                json!("a.b"),
                "metadata.name: Invalid value: \"a.b\": must not contain dots",
            ),
            (
                "/spec/template/spec/containers/0/volumeMounts",
                json!([{"name": "data", "mountPath": "/data"}]),
                "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\"",
            ),
        ],
    )
    .await;
    check(
        &in_namespace("apps/v1", "daemonsets"),
        workload(json!({})),
        &[
            (
                "/spec/updateStrategy",
                json!({"rollingUpdate": {"maxSurge": 1}}),
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is \
                 non-zero",
            ),
            (
                "/spec/updateStrategy",
                json!({"rollingUpdate": {"maxUnavailable": "x%"}}),
                "[spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"x%\": a valid percent string must \
                 be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is \
                 '[0-9]+%'), spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when \
                 maxSurge is 0]",
            ),
        ],
    )
    .await;
    for plural in ["deployments", "replicasets", "daemonsets"] {
        check_change(
            &in_namespace("apps/v1", plural),
            workload(json!({})),
            &[("/spec/template/metadata/labels/more", json!("labels"), "")],
        )
        .await;
    }
}

#[tokio::test]
async fn jobs_and_cron_jobs() {
    let job_spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}});
    let jobs = in_namespace("batch/v1", "jobs");
    check(
        &jobs,
        named(job_spec.clone()),
        &[
            (
                "/spec/completionMode",
                json!("Random"),
                "spec.completionMode: Unsupported value: \"Random\": supported values: \"NonIndexed\", \"Indexed\"",
            ),
            (
                "/spec/backoffLimitPerIndex",
                json!(1),
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
            ),
            (
                "/spec/podFailurePolicy",
                json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 1]}}]}),
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered",
            ),
            (
                "/spec/podFailurePolicy",
                json!({"rules": [{"action": "Retry"}]}),
                "[spec.podFailurePolicy.rules[0].action: Unsupported value: \"Retry\": supported values: \"Count\", \
                 \"FailIndex\", \"FailJob\", \"Ignore\", spec.podFailurePolicy.rules[0]: Invalid value: specifying one \
                 of OnExitCodes and OnPodConditions is required]",
            ),
            (
                "/spec/managedBy",
                json!("me"),
                "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ),
            (
                "/spec/backoffLimit",
                json!(-1),
                "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
            ),
        ],
    )
    .await;
    check_change(
        &jobs,
        named(job_spec.clone()),
        &[
            ("/spec/parallelism", json!(3), ""),
            (
                "/spec/completions",
                json!(3),
                "spec.completions: Invalid value: 3: field is immutable",
            ),
            (
                "/spec/completionMode",
                json!("Indexed"),
                "spec.completionMode: Invalid value: \"Indexed\": field is immutable",
            ),
        ],
    )
    .await;
    let cron_job = named(json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": job_spec}}));
    check(
        &in_namespace("batch/v1", "cronjobs"),
        cron_job,
        &[
            ("/spec/schedule", json!(""), "spec.schedule: Required value"),
            (
                "/spec/schedule",
                json!("61 * * * *"),
                "spec.schedule: Invalid value: \"61 * * * *\": end of range (61) above maximum (59): 61",
            ),
            (
                "/metadata/name",
                json!("a".repeat(53)),
                &format!(
                    "metadata.name: Invalid value: \"{}\": must be no more than 52 characters",
                    "a".repeat(53)
                ),
            ),
            (
                "/spec/jobTemplate/spec/selector",
                json!({"matchLabels": {"a": "b"}}),
                "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be \
                 auto-generated",
            ),
            (
                "/spec/startingDeadlineSeconds",
                json!(-1),
                "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "/spec/timeZone",
                json!("Local"),
                "spec.timeZone: Invalid value: \"Local\": timeZone must be an explicit time zone as defined in \
                 https://www.iana.org/time-zones",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn config_maps_and_secrets() {
    check(
        &in_namespace("v1", "configmaps"),
        json!({"metadata": {"name": "x"}}),
        &[
            (
                "/data",
                json!({"a/b": "c"}),
                "data[a/b]: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', \
                 '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
                 '[-._a-zA-Z0-9]+')",
            ),
            ("/data", json!({"..": "c"}), "data[..]: Invalid value: \"..\": must not be '..'"),
            ("/data", json!({"..a": "c"}), "data[..a]: Invalid value: \"..a\": must not start with '..'"),
        ],
    )
    .await;
    let both = json!({"metadata": {"name": "x"}, "data": {"a": "b"}});
    check(
        &in_namespace("v1", "configmaps"),
        both,
        &[(
            "/binaryData",
            json!({"a": "Yg=="}),
            "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
        )],
    )
    .await;
    let secrets = in_namespace("v1", "secrets");
    check(
        &secrets,
        json!({"metadata": {"name": "x"}}),
        &[
            (
                "/type",
                json!("kubernetes.io/tls"),
                "[data[tls.crt]: Required value, data[tls.key]: Required value]",
            ),
            (
                "/type",
                json!("kubernetes.io/basic-auth"),
                "[data[username]: Required value, data[password]: Required value]",
            ),
            (
                "/type",
                json!("kubernetes.io/ssh-auth"),
                "data[ssh-privatekey]: Required value",
            ),
            (
                "/type",
                json!("kubernetes.io/dockerconfigjson"),
                "data[.dockerconfigjson]: Required value",
            ),
            (
                "/type",
                json!("kubernetes.io/service-account-token"),
                "metadata.annotations[kubernetes.io/service-account.name]: Required value",
            ),
            ("/type", json!("my.own/type"), ""),
        ],
    )
    .await;
    check_change(
        &secrets,
        json!({"metadata": {"name": "x"}}),
        &[(
            "/type",
            json!("my.own/type"),
            "type: Invalid value: \"my.own/type\": field is immutable",
        )],
    )
    .await;
}

#[tokio::test]
async fn services_and_endpoints() {
    let services = in_namespace("v1", "services");
    let service = named(json!({"ports": [{"port": 80}]}));
    check(
        &services,
        service.clone(),
        &[
            (
                "/spec/ports",
                json!([{"name": "Http", "port": 80}]),
                &format!(r#"spec.ports[0].name: Invalid value: "Http": {LABEL}"#),
            ),
            (
                "/spec/externalIPs",
                json!(["0.0.0.0"]),
                "spec.externalIPs[0]: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)",
            ),
            (
                "/spec/trafficDistribution",
                json!("Far"),
                "spec.trafficDistribution: Unsupported value: \"Far\": supported values: \"PreferClose\", \
                 \"PreferSameZone\", \"PreferSameNode\"",
            ),
            (
                "/metadata/name",
                json!("a_b"),
                "metadata.name: Invalid value: \"a_b\": a lowercase RFC 1123 label must consist of lower case \
                 alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
                 or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
        ],
    )
    .await;
    check_change(
        &services,
        service,
        &[
            ("/spec/selector", json!({"a": "b"}), ""),
            (
                "/spec/ipFamilies",
                json!(["IPv6"]),
                "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
            ),
        ],
    )
    .await;
    let slice =
        json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]});
    let slices = in_namespace("discovery.k8s.io/v1", "endpointslices");
    check(
        &slices,
        slice.clone(),
        &[
            (
                "/endpoints/0/addresses",
                json!(["::1:2"]),
                "endpoints[0].addresses[0]: Invalid value: \"::1:2\": must be an IPv4 address",
            ),
            (
                "/endpoints/0/addresses",
                json!([]),
                "endpoints[0].addresses: Required value",
            ),
            (
                "/endpoints/0/addresses",
                json!(["127.0.0.1"]),
                "endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range \
                 (127.0.0.0/8, ::1/128)",
            ),
            (
                "/ports",
                json!([{"port": 80}, {"port": 81}]),
                "ports[1].name: Duplicate value: \"\"",
            ),
            (
                "/endpoints/0/hints",
                json!({"forZones": [{"name": "a"}, {"name": "a"}]}),
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
            ),
        ],
    )
    .await;
    let two_labels = "should be a domain with at least two segments separated by dots";
    let long = format!("{}.b", "a".repeat(64));
    let mut domains = slice.clone();
    domains["addressType"] = json!("FQDN");
    check(
        &slices,
        domains,
        &[
            ("/endpoints/0/addresses", json!(["a.b", "c.d."]), ""),
            (
                "/endpoints/0/addresses",
                json!([""]),
                "endpoints[0].addresses[0]: Required value",
            ),
            (
                "/endpoints/0/addresses",
                json!(["a."]),
                &format!("endpoints[0].addresses[0]: Invalid value: \"a\": {two_labels}"),
            ),
            (
                "/endpoints/0/addresses",
                json!(["A.b."]),
                &format!("endpoints[0].addresses[0]: Invalid value: \"A.b\": {SUBDOMAIN}"),
            ),
            (
                "/endpoints/0/addresses",
                json!([long]),
                &format!(
                    "endpoints[0].addresses[0]: Invalid value: \"{}\": must be no more than 63 characters",
                    "a".repeat(64)
                ),
            ),
        ],
    )
    .await;
    check_change(
        &slices,
        slice,
        &[(
            "/addressType",
            json!("FQDN"),
            "addressType: Invalid value: null: field is immutable",
        )],
    )
    .await;
}

#[tokio::test]
async fn network_policies() {
    let rule = |peer: Value| json!([{"from": [peer]}]);
    check(
        &in_namespace("networking.k8s.io/v1", "networkpolicies"),
        named(json!({"podSelector": {}})),
        &[
            (
                "/spec/ingress",
                rule(json!({"ipBlock": {"cidr": "10.0.0.0"}})),
                "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. \
                 10.9.8.0/24 or 2001:db8::/64)",
            ),
            (
                "/spec/ingress",
                rule(json!({"ipBlock": {"cidr": ""}})),
                "spec.ingress[0].from[0].ipBlock.cidr: Required value",
            ),
            (
                "/spec/ingress",
                rule(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}})),
                "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of \
                 `cidr`",
            ),
            (
                "/spec/ingress",
                rule(json!({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}})),
                "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
            ),
            (
                "/spec/ingress",
                json!([{"ports": [{"port": 80, "endPort": 79}]}]),
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
            ),
            (
                "/spec/ingress",
                json!([{"ports": [{"protocol": "ICMP"}]}]),
                "spec.ingress[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \
                 \"SCTP\"",
            ),
            (
                "/spec/policyTypes",
                json!(["Both"]),
                "spec.policyTypes[0]: Unsupported value: \"Both\": supported values: \"Ingress\", \"Egress\"",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn ingresses_and_their_classes() {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    check(
        &in_namespace("networking.k8s.io/v1", "ingresses"),
        named(json!({"rules": [{"http": {"paths": [path]}}]})),
        &[
            (
                "/spec/rules/0/http/paths/0/pathType",
                json!("Regex"),
                "spec.rules[0].http.paths[0].pathType: Unsupported value: \"Regex\": supported values: \"Exact\", \
                 \"ImplementationSpecific\", \"Prefix\"",
            ),
            (
                "/spec/rules/0/http/paths/0/path",
                json!("no-slash"),
                "spec.rules[0].http.paths[0].path: Invalid value: \"no-slash\": must be an absolute path",
            ),
            (
                "/spec/rules/0/http/paths/0/backend",
                json!({}),
                "spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service backend is required",
            ),
            (
                "/spec/rules/0/http/paths/0/backend/service",
                json!({"name": "s"}),
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            ),
            (
                "/spec/rules/0/http/paths/0/backend/service/port",
                json!({"name": "http", "number": 80}),
                "spec.rules[0].http.paths[0].backend: Invalid value: \"\": cannot set both port name & port number",
            ),
            (
                "/spec/rules/0/host",
                json!("10.0.0.1"),
                "spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            ),
            (
                "/spec/rules/0/http/paths",
                json!([]),
                "spec.rules[0].http.paths: Required value",
            ),
            (
                "/spec/ingressClassName",
                json!("Not_Ok"),
                &format!(r#"spec.ingressClassName: Invalid value: "Not_Ok": {SUBDOMAIN}"#),
            ),
        ],
    )
    .await;
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    let class = named(json!({"controller": "example.com/c"}));
    check(
        classes,
        class.clone(),
        &[
            (
                "/spec/controller",
                json!("plain"),
                "spec.controller: Invalid value: \"plain\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ),
            (
                "/spec/parameters",
                json!({"kind": "K", "name": "n", "scope": "Namespace"}),
                "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
            ),
        ],
    )
    .await;
    check_change(
        classes,
        class,
        &[(
            "/spec/controller",
            json!("example.com/d"),
            "spec.controller: Invalid value: \"example.com/d\": field is immutable",
        )],
    )
    .await;
}

#[tokio::test]
async fn storage() {
    let claim_spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claims = in_namespace("v1", "persistentvolumeclaims");
    check(
        &claims,
        named(claim_spec.clone()),
        &[
            (
                "/spec/accessModes",
                json!(["ReadWrite"]),
                "spec.accessModes: Unsupported value: \"ReadWrite\": supported values: \"ReadOnlyMany\", \
                 \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            ),
            (
                "/spec/accessModes",
                json!(["ReadWriteOnce", "ReadWriteOncePod"]),
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            ),
            (
                "/spec/resources/requests/storage",
                json!("0"),
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            ),
            (
                "/spec/volumeMode",
                json!("Tape"),
                "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
            ),
            (
                "/spec/dataSourceRef",
                json!({"kind": "Thing", "name": "t"}),
                "[spec.dataSource: Invalid value: \"Thing\": must be 'PersistentVolumeClaim' when referencing the \
                 default apiGroup, spec.dataSourceRef: Invalid value: \"Thing\": must be 'PersistentVolumeClaim' when \
                 referencing the default apiGroup]",
            ),
        ],
    )
    .await;
    check_change(
        &claims,
        named(claim_spec),
        &[
            ("/spec/volumeName", json!("pv"), ""),
            (
                "/spec/accessModes",
                json!(["ReadOnlyMany"]),
                "spec: Forbidden: spec is immutable after creation except resources.requests and \
                 volumeAttributesClassName for bound claims\n@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \
                 \"ReadWriteOnce\"\n+  \"ReadOnlyMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n",
            ),
        ],
    )
    .await;
    let volume = named(json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"},
    }));
    let volumes = "/api/v1/persistentvolumes";
    check(
        volumes,
        volume.clone(),
        &[
            (
                "/spec/persistentVolumeReclaimPolicy",
                json!("Keep"),
                "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: \"Delete\", \
                 \"Recycle\", \"Retain\"",
            ),
            (
                "/spec/nfs",
                json!({"server": "s", "path": "/p"}),
                "spec.nfs: Forbidden: may not specify more than 1 volume type",
            ),
            (
                "/spec/nodeAffinity",
                json!({}),
                "spec.nodeAffinity.required: Required value: must specify required node constraints",
            ),
        ],
    )
    .await;
    check_change(
        volumes,
        volume,
        &[(
            "/spec/hostPath/path",
            json!("/w"),
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -2,7 \
             +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \
             \"Path\": \"/v\",\n+  \"Path\": \"/w\",\n   \"Type\": \"\"\n  },\n  \"Glusterfs\": null,\n",
        )],
    )
    .await;
    let class = json!({"metadata": {"name": "x"}, "provisioner": "example.com/p"});
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    check(
        classes,
        class.clone(),
        &[
            ("/provisioner", json!(""), "provisioner: Required value"),
            (
                "/reclaimPolicy",
                json!("Recycle"),
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
            ),
            (
                "/allowedTopologies",
                json!([{"matchLabelExpressions": [{"key": "zone", "values": []}]}]),
                "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            ),
        ],
    )
    .await;
    check_change(
        classes,
        class,
        &[
            (
                "/parameters",
                json!({"a": "b"}),
                "parameters: Invalid value: null: field is immutable",
            ),
            ("/allowVolumeExpansion", json!(true), ""),
            (
                "/volumeBindingMode",
                json!("WaitForFirstConsumer"),
                "volumeBindingMode: Invalid value: null: field is immutable",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn budgets_and_autoscalers() {
    check(
        &in_namespace("policy/v1", "poddisruptionbudgets"),
        named(json!({})),
        &[
            (
                "/spec/minAvailable",
                json!("120%"),
                "spec.minAvailable: Invalid value: \"120%\": must not be greater than 100%",
            ),
            (
                "/spec/maxUnavailable",
                json!(-1),
                "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "/spec/unhealthyPodEvictionPolicy",
                json!("Never"),
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \
                 \"IfHealthyBudget\"",
            ),
        ],
    )
    .await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let metric = |resource: Value| json!([{"type": "Resource", "resource": resource}]);
    check(
        &in_namespace("autoscaling/v2", "horizontalpodautoscalers"),
        named(json!({"scaleTargetRef": target, "maxReplicas": 3})),
        &[
            (
                "/spec/minReplicas",
                json!(0),
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ),
            (
                "/spec/metrics",
                metric(json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}})),
                "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
            ),
            (
                "/spec/metrics",
                metric(json!({"name": "cpu", "target": {"type": "Share", "averageUtilization": 5}})),
                "spec.metrics[0].resource.target.type: Invalid value: \"Share\": must be either Utilization, Value, or \
                 AverageValue",
            ),
            (
                "/spec/behavior",
                json!({"scaleUp": {"stabilizationWindowSeconds": 4000}}),
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to \
                 3600",
            ),
            (
                "/spec/behavior",
                json!({"scaleDown": {"policies": [{"type": "Share", "value": 1, "periodSeconds": 15}]}}),
                "spec.behavior.scaleDown.policies[0].type: Unsupported value: \"Share\": supported values: \"Percent\", \
                 \"Pods\"",
            ),
            // An empty list is not a missing one, which has a default.
            (
                "/spec/behavior",
                json!({"scaleUp": {"policies": []}, "scaleDown": {"policies": null}}),
                "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
            ),
            (
                "/spec/behavior",
                json!({"scaleDown": {"policies": []}}),
                "spec.behavior.scaleDown.policies: Required value: must specify at least one Policy",
            ),
        ],
    )
    .await;
    let older = send(
        &registry().await,
        "POST",
        &in_namespace("autoscaling/v1", "horizontalpodautoscalers"),
        named(json!({"scaleTargetRef": target, "maxReplicas": 3})),
    )
    .await
    .unwrap();
    assert_eq!(older["spec"]["targetCPUUtilizationPercentage"], 80);
    let owned = older["metadata"]["managedFields"].to_string();
    assert!(owned.contains("targetCPU"), "{owned}");
}

#[tokio::test]
async fn rights() {
    let roles = in_namespace("rbac.authorization.k8s.io/v1", "roles");
    check(
        &roles,
        json!({"metadata": {"name": "x"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        &[
            (
                "/rules/0/resources",
                json!([]),
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ),
            (
                "/rules/0/apiGroups",
                json!([]),
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            ),
        ],
    )
    .await;
    let subject = json!({"kind": "ServiceAccount", "name": "a", "namespace": "default"});
    let binding = json!({
        "metadata": {"name": "x"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [subject],
    });
    check(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        binding,
        &[
            (
                "/subjects/0/namespace",
                json!(""),
                "subjects[0].namespace: Required value",
            ),
            (
                "/subjects/0/apiGroup",
                json!("x.y"),
                "subjects[0].apiGroup: Unsupported value: \"x.y\": supported values: \"\"",
            ),
            (
                "/roleRef/kind",
                json!("Role"),
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn leases_events_and_nodes() {
    check(
        &in_namespace("coordination.k8s.io/v1", "leases"),
        named(json!({})),
        &[
            (
                "/spec/leaseDurationSeconds",
                json!(-5),
                "spec.leaseDurationSeconds: Invalid value: -5: must be greater than 0",
            ),
            // Fields of coordinated leader election, which is off, are dropped.
            ("/spec/preferredHolder", json!("me"), ""),
            ("/spec/strategy", json!("Mine"), ""),
        ],
    )
    .await;
    let event = json!({
        "metadata": {"name": "x"}, "involvedObject": {"namespace": "default"}, "reason": "r", "type": "Normal",
    });
    check(
        &in_namespace("v1", "events"),
        event,
        &[
            (
                "/involvedObject/namespace",
                json!("other"),
                "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace",
            ),
            ("/metadata/name", json!("Any_Name"), ""),
        ],
    )
    .await;
    let newer = json!({
        "metadata": {"name": "x"}, "regarding": {"namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal",
    });
    check(
        &in_namespace("events.k8s.io/v1", "events"),
        newer,
        &[
            ("/eventTime", json!(null), "eventTime: Required value"),
            (
                "/type",
                json!("Bad"),
                "type: Invalid value: \"\": has invalid value: Bad",
            ),
            ("/action", json!(""), "action: Required value"),
            (
                "/series",
                json!({"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}),
                "series.count: Invalid value: \"\": should be at least 2",
            ),
            (
                "/deprecatedCount",
                json!(3),
                "count: Invalid value: \"\": needs to be unset",
            ),
        ],
    )
    .await;
    let nodes = "/api/v1/nodes";
    check(
        nodes,
        named(json!({})),
        &[
            (
                "/spec/taints",
                json!([{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]),
                "metadata.taints[1]: Duplicate value: {\"Key\":\"k\",\"Value\":\"\",\"Effect\":\"NoExecute\",\
                 \"TimeAdded\":null}: taints must be unique by key and effect pair",
            ),
            (
                "/spec/podCIDRs",
                json!(["10.0.0.0/24", "10.0.1.0/24"]),
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one CIDR \
                 for each IP family",
            ),
            (
                "/status/capacity",
                json!({"cpu": "-1"}),
                "[status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0, \
                 status.allocatable.cpu: Invalid value: \"-1\": must be greater than or equal to 0]",
            ),
        ],
    )
    .await;
    check_change(
        nodes,
        named(json!({"providerID": "a"})),
        &[
            ("/spec/unschedulable", json!(true), ""),
            (
                "/spec/providerID",
                json!("b"),
                "spec.providerID: Invalid value: null: field cannot be modified once set",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn quotas_ranges_and_priorities() {
    let quotas = in_namespace("v1", "resourcequotas");
    check(
        &quotas,
        named(json!({"hard": {"pods": "1"}})),
        &[
            (
                "/spec/hard",
                json!({"nope": "1"}),
                "[spec.hard[nope]: Invalid value: \"nope\": must be a standard resource type or fully qualified, \
                 spec.hard[nope]: Invalid value: \"nope\": must be a standard resource for quota]",
            ),
            (
                "/spec/hard",
                json!({"pods": "1500m"}),
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
            ),
            (
                "/spec/scopes",
                json!(["Terminating", "NotTerminating"]),
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes",
            ),
            (
                "/spec/scopeSelector",
                json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}),
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when \
                 `operator` is 'In' or 'NotIn' for scope selector",
            ),
        ],
    )
    .await;
    check_change(
        &quotas,
        named(json!({"hard": {"pods": "1"}})),
        &[(
            "/spec/scopes",
            json!(["Terminating"]),
            "spec.scopes: Invalid value: [\"Terminating\"]: field is immutable",
        )],
    )
    .await;
    let limit = |limit: Value| json!([limit]);
    check(
        &in_namespace("v1", "limitranges"),
        named(json!({"limits": []})),
        &[
            (
                "/spec/limits",
                limit(json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"},
                    "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}})),
                "[spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1, \
                 spec.limits[0].defaultRequest[cpu]: Invalid value: \"2\": default request value 2 is greater than max \
                 value 1, spec.limits[0].defaultRequest[cpu]: Invalid value: \"2\": default request value 2 is greater \
                 than default limit value 1, spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater \
                 than default value 1]",
            ),
            (
                "/spec/limits",
                limit(json!({"type": "Container", "max": {"disk": "1"}})),
                "[spec.limits[0].max[disk]: Invalid value: \"disk\": must be a standard resource type or fully \
                 qualified, spec.limits[0].max[disk]: Invalid value: \"disk\": must be a standard resource for \
                 containers, spec.limits[0].default[disk]: Invalid value: \"disk\": must be a standard resource type or \
                 fully qualified, spec.limits[0].default[disk]: Invalid value: \"disk\": must be a standard resource \
                 for containers, spec.limits[0].defaultRequest[disk]: Invalid value: \"disk\": must be a standard \
                 resource type or fully qualified, spec.limits[0].defaultRequest[disk]: Invalid value: \"disk\": must \
                 be a standard resource for containers]",
            ),
            (
                "/spec/limits",
                limit(json!({"type": "Pod", "default": {"cpu": "1"}})),
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            ),
        ],
    )
    .await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    check(
        classes,
        json!({"metadata": {"name": "x"}, "value": 1}),
        &[
            (
                "/value",
                json!(1_000_000_001),
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            ),
            (
                "/metadata/name",
                json!("system-mine"),
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use \
                 only. error: system-mine is not a known system priority class",
            ),
            (
                "/preemptionPolicy",
                json!("Always"),
                "preemptionPolicy: Unsupported value: \"Always\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ),
        ],
    )
    .await;
    check_change(
        classes,
        json!({"metadata": {"name": "x"}, "value": 1}),
        &[
            ("/description", json!("d"), ""),
            (
                "/value",
                json!(2),
                "value: Forbidden: may not be changed in an update.",
            ),
        ],
    )
    .await;
}
