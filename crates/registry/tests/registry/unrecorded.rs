//! Validation rules of Kubernetes that no recording covers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::recording::{registry, send};
use crate::refusals::{check, check_change};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// The text for names in which capitals are accepted.
fn caseless_subdomain() -> String {
    SUBDOMAIN
        .replace("a lowercase RFC", "an RFC")
        .replace("lower case alphanumeric", "alphanumeric")
        .replace("example.com", "Example.com")
}

#[tokio::test]
async fn the_name_of_an_api_service_is_its_version_and_group() {
    let wanted = r#"must be `spec.version+"."+spec.group`: "v1.a.example.com""#;
    check(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        json!({
            "metadata": {"name": "v1.a.example.com"},
            "spec": {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
        }),
        &[
            ("/metadata/name", json!("x"), &format!(r#"metadata.name: Invalid value: "x": {wanted}"#)),
            ("/metadata/name", json!("a/b"), r#"metadata.name: Invalid value: "a/b": may not contain '/'"#),
            ("/metadata/name", json!(""), "metadata.name: Required value: name or generateName is required"),
            (
                "/metadata/generateName",
                json!("g-"),
                &format!(r#"metadata.generateName: Invalid value: "g-": {wanted}"#),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_name_of_a_definition_is_its_plural_and_group() {
    check(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }),
        &[
            (
                "/metadata/name",
                json!("X"),
                &format!(
                    "[metadata.name: Invalid value: \"X\": {SUBDOMAIN}, metadata.name: Invalid value: \"X\": must be \
                     spec.names.plural+\".\"+spec.group]"
                ),
            ),
            ("/metadata/name", json!(""), "metadata.name: Required value: name or generateName is required"),
            (
                "/metadata/generateName",
                json!("g-"),
                r#"metadata.generateName: Invalid value: "g-": must be spec.names.plural+"."+spec.group"#,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_name_of_an_ip_address_is_canonical() {
    let parent = json!({"group": "", "resource": "services", "namespace": "a", "name": "b"});
    check(
        "/apis/networking.k8s.io/v1/ipaddresses",
        json!({"metadata": {"name": "192.168.1.1"}, "spec": {"parentRef": parent}}),
        &[
            ("/metadata/name", json!("2001:db8::1"), ""),
            (
                "/metadata/name",
                json!("2001:DB8::1"),
                r#"metadata.name: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")"#,
            ),
            (
                "/metadata/name",
                json!("x"),
                "metadata.name: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn storage_classes_are_validated_on_update() {
    check_change(
        "/apis/storage.k8s.io/v1/storageclasses",
        json!({"metadata": {"name": "x"}, "provisioner": "a.example.com"}),
        &[
            (
                "/provisioner",
                json!(""),
                "[provisioner: Required value, provisioner: Invalid value: null: field is immutable]",
            ),
            (
                "/parameters",
                json!({"a": "b"}),
                "parameters: Invalid value: null: field is immutable",
            ),
            (
                "/reclaimPolicy",
                json!("Retain"),
                "reclaimPolicy: Invalid value: null: field is immutable",
            ),
            (
                "/volumeBindingMode",
                json!("Later"),
                "[volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \
                 \"WaitForFirstConsumer\", volumeBindingMode: Invalid value: null: field is immutable]",
            ),
            (
                "/allowedTopologies",
                json!([{"matchLabelExpressions": [{"key": "zone", "values": []}]}]),
                "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn volume_attributes_classes_are_validated_after_the_update() {
    check_change(
        "/apis/storage.k8s.io/v1/volumeattributesclasses",
        json!({"metadata": {"name": "x"}, "driverName": "a.example.com", "parameters": {"a": "b"}}),
        &[
            (
                "/driverName",
                json!(""),
                "[driverName: Forbidden: updates to driverName are forbidden., driverName: Required value]",
            ),
            (
                "/parameters",
                json!({}),
                "[parameters: Forbidden: updates to parameters are forbidden., parameters: Required value: must contain \
                 at least one key/value pair]",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn immutable_fields_are_not_validated_again() {
    check_change(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        json!({
            "metadata": {"name": "x"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        }),
        &[(
            "/spec/devices/requests/0/name",
            json!(""),
            "spec: Invalid value: null: field is immutable",
        )],
    )
    .await;
}

#[tokio::test]
async fn immutable_fields_of_events_print_as_in_go() {
    let before = json!({
        "metadata": {"name": "x"}, "eventTime": "2020-01-01T00:00:00.000001Z", "regarding": {"kind": "Pod", "name": "p",
        "namespace": "default"}, "reason": "Why", "action": "Do", "type": "Normal", "note": "n",
        "reportingController": "example.com/c", "reportingInstance": "i",
    });
    check_change(
        "/apis/events.k8s.io/v1/namespaces/default/events",
        before,
        &[
            (
                "/regarding/name",
                json!("q"),
                "involvedObject: Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"default\",\"Name\":\"q\",\"UID\":\"\",\
                 \"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
            ),
            ("/note", json!(""), "message: Invalid value: \"\": field is immutable"),
        ],
    )
    .await;
}

#[tokio::test]
async fn overhead_and_tolerations_of_runtime_classes() {
    check(
        "/apis/node.k8s.io/v1/runtimeclasses",
        json!({"metadata": {"name": "x"}, "handler": "h"}),
        &[
            (
                "/overhead",
                json!({"podFixed": {"cpu": "-1"}}),
                "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ),
            (
                "/scheduling",
                json!({"tolerations": [{"key": "a", "operator": "Equal", "effect": "Never"}]}),
                "scheduling.tolerations[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_handler_of_a_runtime_class_is_a_declared_name() {
    let (path, long) = ("/apis/node.k8s.io/v1/runtimeclasses", "a".repeat(64));
    let class = json!({"metadata": {"name": "x"}, "handler": "h"});
    let too_long = format!("handler: Invalid value: \"{long}\": must be no more than 63 bytes");
    check(path, class.clone(), &[("/handler", json!(long), &too_long)]).await;
    check_change(
        path,
        class,
        &[
            (
                "/handler",
                json!("other"),
                "handler: Invalid value: null: field is immutable",
            ),
            (
                "/handler",
                json!(""),
                "[handler: Invalid value: null: field is immutable, handler: Required value]",
            ),
            (
                "/handler",
                json!("H"),
                &format!("[handler: Invalid value: \"H\": {LABEL}, handler: Invalid value: null: field is immutable]"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_owner_of_an_ip_address_is_immutable() {
    let parent = json!({"group": "", "resource": "services", "namespace": "a", "name": "b"});
    check_change(
        "/apis/networking.k8s.io/v1/ipaddresses",
        json!({"metadata": {"name": "192.168.1.1"}, "spec": {"parentRef": parent}}),
        &[
            (
                "/spec/parentRef/name",
                json!("c"),
                "spec.parentRef: Invalid value: null: field is immutable",
            ),
            (
                "/spec",
                json!({}),
                "[spec.parentRef: Required value, spec.parentRef: Invalid value: null: field is immutable]",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_attacher_of_a_volume_attachment_is_a_declared_name() {
    let long = "a".repeat(254);
    let capitals = caseless_subdomain();
    check(
        "/apis/storage.k8s.io/v1/volumeattachments",
        json!({
            "metadata": {"name": "x"},
            "spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        }),
        &[
            ("/spec/attacher", json!("A.Example.com"), ""),
            ("/spec/attacher", json!("a_b"), &format!("spec.attacher: Invalid value: \"a_b\": {capitals}")),
            (
                "/spec/attacher",
                json!(long),
                &format!(
                    "[spec.attacher: Invalid value: \"{long}\": must be no more than 253 bytes, spec.attacher: Too \
                     long: may not be more than 63 bytes]"
                ),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_container_of_a_metric_is_a_label() {
    let target = json!({"type": "AverageValue", "averageValue": "1Gi"});
    let source = json!({"container": "c", "name": "memory", "target": target});
    check(
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        json!({
            "metadata": {"name": "x"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 2,
                "metrics": [{"type": "ContainerResource", "containerResource": source}],
            },
        }),
        &[(
            "/spec/metrics/0/containerResource/container",
            json!("C"),
            &format!("spec.metrics[0].containerResource.container: Invalid value: \"C\": {LABEL}"),
        )],
    )
    .await;
}

#[tokio::test]
async fn an_empty_string_in_a_pointer_field_is_not_defaulted() {
    check(
        "/apis/batch/v1/namespaces/default/jobs",
        json!({
            "metadata": {"name": "x"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        }),
        &[(
            "/spec/completionMode",
            json!(""),
            "spec.completionMode: Unsupported value: \"\": supported values: \"NonIndexed\", \"Indexed\"",
        )],
    )
    .await;
    check(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": [], "ports": [{"port": 80}]}),
        &[(
            "/ports/0/protocol",
            json!(""),
            "ports[0].protocol: Unsupported value: \"\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        )],
    )
    .await;
    check(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        json!({"metadata": {"name": "x"}, "value": 1}),
        &[("/preemptionPolicy", json!(""), "preemptionPolicy: Required value")],
    )
    .await;
}

#[tokio::test]
async fn an_empty_port_name_has_neither_valid_characters_nor_a_letter() {
    let path = "spec.egress[0].ports[0].port: Invalid value: \"\"";
    check(
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        json!({"metadata": {"name": "x"}, "spec": {"podSelector": {}, "egress": [{"ports": [{"port": "dns"}]}]}}),
        &[(
            "/spec/egress/0/ports/0/port",
            json!(""),
            &format!(
                "[{path}: must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), {path}: must contain \
                 at least one letter (a-z)]"
            ),
        )],
    )
    .await;
}

#[tokio::test]
async fn declared_formats_have_their_own_texts() {
    let long = "a".repeat(254);
    let [class, attribute, driver] = [
        "spec.devices.requests[0].firstAvailable[0].deviceClassName",
        "spec.devices.constraints[0].matchAttribute",
        "spec.devices.config[0].opaque.driver",
    ];
    let capitals = caseless_subdomain();
    check(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        json!({
            "metadata": {"name": "x"},
            "spec": {"devices": {
                "requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}],
                "constraints": [{"requests": ["r"], "matchAttribute": "example.com/a"}],
                "config": [{"requests": ["r"], "opaque": {"driver": "example.com", "parameters": {}}}],
            }},
        }),
        &[
            (
                "/spec/devices/requests/0/firstAvailable/0/deviceClassName",
                json!(long),
                &format!("{class}: Invalid value: \"{long}\": must be no more than 253 bytes"),
            ),
            (
                "/spec/devices/constraints/0/matchAttribute",
                json!("-/a"),
                &format!("{attribute}: Invalid value: \"-\": prefix: {SUBDOMAIN}"),
            ),
            (
                "/spec/devices/constraints/0/matchAttribute",
                json!("/a"),
                &format!("{attribute}: Invalid value: \"\": prefix must not be empty"),
            ),
            (
                "/spec/devices/config/0/opaque/driver",
                json!("-x"),
                &format!("{driver}: Invalid value: \"-x\": {capitals}"),
            ),
            (
                "/spec/devices/config/0/opaque/driver",
                json!(long),
                &format!(
                    "[{driver}: Invalid value: \"{long}\": must be no more than 253 bytes, {driver}: Too long: may \
                     not be more than 63 bytes]"
                ),
            ),
        ],
    )
    .await;
}

/// A definition whose schema has a field `a` with this schema.
fn definition(schema: Value) -> Value {
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn invalid_schemas() {
    const AT: &str = "spec.validation.openAPIV3Schema";
    let keys = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}});
    let sets = json!({"type": "array", "x-kubernetes-list-type": "set",
        "items": {"type": "array", "items": {"type": "string"}}});
    let field = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    for (schema, why) in [
        (
            json!({"type": "object", "nullable": true}),
            "nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            "properties[kind].type: Invalid value: \"integer\": must be string",
        ),
        (
            field(keys),
            "properties[a].x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\"]: must not contain duplicate entries",
        ),
        (field(sets), ""),
    ] {
        let why = if why.is_empty() {
            String::new()
        } else {
            format!("{AT}.{why}")
        };
        check(
            DEFINITIONS,
            definition(schema),
            &[("/metadata/labels", json!({}), &why)],
        )
        .await;
    }
    let dialect = field(json!({"type": "string", "$schema": "x"}));
    let why = format!("{AT}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported");
    check(
        DEFINITIONS,
        definition(dialect),
        &[("/metadata/labels", json!({}), &why)],
    )
    .await;
}

#[tokio::test]
async fn invalid_paths() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"}, "m": {"type": "object", "additionalProperties": {"type": "string"}}}}}});
    let selectable = |path: &str| json!([{"jsonPath": path}]);
    let why = |path: &str, why: &str| {
        let at = "spec.selectableFields[0].jsonPath: Invalid value:";
        format!("{at} {path:?}: is an invalid path: {why}")
    };
    let scale = |path: &str| json!({"scale": {"specReplicasPath": path, "statusReplicasPath": ".status.n"}});
    check(
        DEFINITIONS,
        definition(schema),
        &[
            ("/spec/versions/0/selectableFields", selectable(".spec.m.x"), ""),
            (
                "/spec/versions/0/selectableFields",
                selectable("spec.a"),
                &why("spec.a", "expected [ or . but got: spec"),
            ),
            (
                "/spec/versions/0/selectableFields",
                selectable(".spec.a[0]"),
                &why(".spec.a[0]", "array notation is not allowed"),
            ),
            (
                "/spec/versions/0/selectableFields",
                selectable(".spec.a."),
                &why(".spec.a.", "unexpected end of JSON path"),
            ),
            (
                "/spec/versions/0/selectableFields",
                selectable(".spec.b"),
                &why(".spec.b", "does not refer to a valid field"),
            ),
            ("/spec/versions/0/subresources", scale(".spec.n[0]"), ""),
            (
                "/spec/versions/0/subresources",
                scale(".spec"),
                "spec.subresources.scale.specReplicasPath: Invalid value: \".spec\": should be a json path under .spec",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn embedded_resources_are_validated_as_objects() {
    let registry = registry().await;
    let schema = json!({"type": "object", "properties": {
        "e": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "s": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "i": {"x-kubernetes-int-or-string": true},
        "o": {"type": "object", "properties": {"n": {"type": "integer"}}, "allOf": [{"required": ["n"]}, {}]},
    }});
    send(&registry, "POST", DEFINITIONS, definition(schema))
        .await
        .expect("a definition");
    for (field, value, why) in [
        (
            "e",
            json!({"apiVersion": "a/b/c", "kind": "Pod"}),
            "e.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        ),
        (
            "e",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}}),
            "e.metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            "e",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}),
            "",
        ),
        // For a string, only the first error is reported; for int-or-string, that it is neither.
        (
            "s",
            json!("A"),
            "s: Invalid value: \"A\": s in body should be at least 2 chars long",
        ),
        (
            "i",
            json!(1.5),
            "i: Invalid value: \"number\": i in body must be of type integer,string: \"number\"",
        ),
        (
            "o",
            json!({}),
            "[o.n: Required value, <nil>: Invalid value: \"\": \"o\" must validate all the schemas (allOf)]",
        ),
    ] {
        let object =
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, field: value});
        let told = match send(
            &registry,
            "POST",
            "/apis/example.com/v1/things?dryRun=All",
            object,
        )
        .await
        {
            Ok(_) => String::new(),
            Err(status) => status
                .message
                .split_once(" is invalid: ")
                .unwrap_or_default()
                .1
                .to_owned(),
        };
        assert_eq!(told, why, "{field} {value}");
    }
}

#[tokio::test]
async fn windows_users() {
    let user = |why: &str| format!("spec.securityContext.windowsOptions.runAsUserName: Invalid value: {why}");
    check(
        "/api/v1/namespaces/default/pods",
        json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        &[
            ("/spec/securityContext", json!({"windowsOptions": {"runAsUserName": "DOMAIN\\me"}}), ""),
            (
                "/spec/securityContext",
                json!({"windowsOptions": {"runAsUserName": ""}}),
                &user("\"\": runAsUserName cannot be an empty string"),
            ),
            (
                "/spec/securityContext",
                json!({"windowsOptions": {"runAsUserName": "a\\.."}}),
                &user("\"a\\\\..\": runAsUserName's User cannot contain only periods or spaces"),
            ),
            (
                "/spec/securityContext",
                json!({"windowsOptions": {"hostProcess": true}}),
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess \
                 containers",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn projected_trust_bundles_and_certificates() {
    let source = |source: Value| json!([{"name": "v", "projected": {"sources": [source]}}]);
    let at = |why: &str| format!("spec.volumes[0].projected.sources[0].{why}");
    check(
        "/api/v1/namespaces/default/pods",
        json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        &[
            ("/spec/volumes", source(json!({"clusterTrustBundle": {"name": "a", "path": "p"}})), ""),
            (
                "/spec/volumes",
                source(json!({"clusterTrustBundle": {"path": "p"}})),
                &at("clusterTrustBundle: Required value: either name or signerName must be specified"),
            ),
            (
                "/spec/volumes",
                source(json!({"clusterTrustBundle": {"signerName": "x", "path": "p"}})),
                &at("clusterTrustBundle.signerName: Invalid value: \"x\": must be a fully qualified domain and path of \
                     the form 'example.com/signer-name'"),
            ),
            (
                "/spec/volumes",
                source(json!({"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519"}})),
                &at("podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and \
                     certificateChainPath"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_gated_pod_can_narrow_its_node_selection() {
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let disk = json!({"key": "disk", "operator": "Exists"});
    let terms = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    const AT: &str =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let pod = json!({
        "metadata": {"name": "x"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGates": [{"name": "g"}],
            "affinity": terms(json!([{"matchExpressions": [zone]}])),
        },
    });
    check_change(
        "/api/v1/namespaces/default/pods",
        pod,
        &[
            ("/spec/affinity", terms(json!([{"matchExpressions": [zone, disk]}])), ""),
            (
                "/spec/affinity",
                terms(json!([{"matchExpressions": [disk]}])),
                &format!(
                    "{AT}[0]: Invalid value: {{\"MatchExpressions\":[{{\"Key\":\"disk\",\"Operator\":\"Exists\",\
                     \"Values\":null}}],\"MatchFields\":null}}: only additions are allowed (no mutations or deletions)"
                ),
            ),
            (
                "/spec/affinity",
                terms(json!([{"matchExpressions": [zone]}, {"matchExpressions": [disk]}])),
                &format!(
                    "{AT}: Invalid value: [{{\"MatchExpressions\":[{{\"Key\":\"zone\",\"Operator\":\"In\",\"Values\":\
                     [\"a\"]}}],\"MatchFields\":null}},{{\"MatchExpressions\":[{{\"Key\":\"disk\",\"Operator\":\
                     \"Exists\",\"Values\":null}}],\"MatchFields\":null}}]: no additions/deletions to non-empty \
                     NodeSelectorTerms list are allowed"
                ),
            ),
        ],
    )
    .await;
}

/// Certificate requests of the organizations `dev` and `system:masters`.
const DEV: &str = include_str!("certificate_requests/dev.pem");
const MASTERS: &str = include_str!("certificate_requests/masters.pem");

#[tokio::test]
async fn a_certificate_is_requested_for_each_usage_once() {
    check(
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        json!({"metadata": {"name": "r"}, "spec": {"request": STANDARD.encode(DEV),
            "signerName": "example.com/s", "usages": ["client auth"]}}),
        &[
            ("/spec/usages", json!(["client auth", "server auth"]), ""),
            (
                "/spec/usages",
                json!(["client auth", "server auth", "client auth"]),
                r#"spec.usages[2]: Duplicate value: "client auth""#,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_client_certificate_cannot_be_requested_for_the_masters() {
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let registry = registry().await;
    let request = |name: &str, signer: &str, pem: &str| {
        json!({"metadata": {"name": name},
            "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]}})
    };
    let client = "kubernetes.io/kube-apiserver-client";
    let refused = send(&registry, "POST", path, request("a", client, MASTERS)).await;
    assert_eq!(
        refused.unwrap_err().message,
        "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: use of \
         kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    for (name, signer, pem) in [("b", client, DEV), ("c", "example.com/other", MASTERS)] {
        send(&registry, "POST", path, request(name, signer, pem))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_certificate_request_must_be_signed_by_its_own_key() {
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let registry = registry().await;
    let damaged = DEV.replace(
        "MIHVMH4CAQAwHDEMMAoGA1UECgwDZGV2",
        "MIHVMH4CAQAwHDEMMAoGA1UECgwDZGV3",
    );
    assert_ne!(damaged, DEV);
    for (pem, why) in [
        (&*damaged, "x509: ECDSA verification failure"),
        ("", "PEM block type must be CERTIFICATE REQUEST"),
    ] {
        let request = json!({"metadata": {"name": "a"}, "spec": {
            "request": STANDARD.encode(pem), "signerName": "example.com/other", "usages": ["client auth"]}});
        let refused = send(&registry, "POST", path, request).await.unwrap_err();
        assert_eq!(refused.code, 422);
        assert!(
            refused.message.contains("spec.request: Invalid value"),
            "{}",
            refused.message
        );
        assert!(refused.message.ends_with(why), "{}", refused.message);
    }
}

#[tokio::test]
async fn pods_are_labelled_with_the_zone_and_region_of_their_node() {
    let registry = registry().await;
    let labels =
        json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"});
    let node = json!({"metadata": {"name": "n", "labels": labels}});
    send(&registry, "POST", "/api/v1/nodes", node).await.unwrap();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, node: &str| {
        json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "mine", "app": "a"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
    };
    let placed = send(&registry, "POST", pods, pod("placed", "n")).await.unwrap();
    let expected =
        json!({"app": "a", "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
    assert_eq!(placed["metadata"]["labels"], expected);
    let lost = send(&registry, "POST", pods, pod("lost", "gone")).await.unwrap();
    assert_eq!(lost["metadata"]["labels"]["topology.kubernetes.io/zone"], "mine");
}

#[tokio::test]
async fn a_write_with_an_unidentifiable_list_item_records_no_managers() {
    let registry = registry().await;
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let account = |name: &str, secrets: Value| json!({"metadata": {"name": name}, "secrets": secrets});
    let created = send(&registry, "POST", path, account("a", json!([{}])))
        .await
        .unwrap();
    assert_eq!(created["metadata"]["managedFields"], Value::Null);
    let before = send(&registry, "POST", path, account("b", json!([{"name": "s"}])))
        .await
        .unwrap();
    let change = json!({"secrets": [{"namespace": "n"}]});
    let after = send(&registry, "PATCH", &format!("{path}/b"), change)
        .await
        .unwrap();
    assert_eq!(
        after["metadata"]["managedFields"],
        before["metadata"]["managedFields"]
    );
}

#[tokio::test]
async fn a_trust_bundle_consists_of_certificates_of_authorities() {
    const AT: &str = "/spec/trustBundle";
    let root = include_str!("../../../kinds/src/rules/certificate_request/root.pem");
    let leaf = include_str!("../../../kinds/src/rules/certificate_request/ed25519_leaf.pem");
    let why = |why: &str| format!("spec.trustBundle: Invalid value: \"<value omitted>\": {why}");
    let headed = root.replacen('\n', "\nA: b\n\n", 1);
    check(
        "/apis/certificates.k8s.io/v1/clustertrustbundles",
        json!({"metadata": {"name": "x"}, "spec": {}}),
        &[
            (AT, json!(root), ""),
            (AT, json!("x"), &why("at least one trust anchor must be provided")),
            (AT, json!(format!("{root}{root}")), &why("duplicate trust anchor (indices [0 1])")),
            (AT, json!(leaf), &why("entry 0 does not have the CA bit set")),
            (AT, json!(headed), &why("entry 0 has PEM block headers")),
            (
                AT,
                json!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN X-----\nAAAA\n-----END X-----\n"),
                &format!(
                    "[{}, {}]",
                    why("entry 0 does not parse as X.509"),
                    why("entry 1 has bad block type: X")
                ),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_pod_as_a_whole_requests_what_its_containers_need() {
    let container = json!({
        "name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
    });
    let pod = json!({"metadata": {"name": "x"}, "spec": {"containers": [container]}});
    check(
        "/api/v1/namespaces/default/pods",
        pod,
        &[
            ("/spec/resources", json!({"limits": {"cpu": "1", "memory": "2Gi"}}), ""),
            (
                "/spec/resources",
                json!({"requests": {"cpu": "500m", "memory": "2Gi"}}),
                "spec.resources.requests[cpu]: Invalid value: \"500m\": must be greater than or equal to aggregate \
                 container requests of 1",
            ),
            (
                "/spec/resources",
                json!({"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi", "cpu": "0"}}),
                "spec.resources.requests: Invalid value: \"1\": must be less than or equal to cpu limit of 0",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn restart_rules_name_an_action_and_exit_codes() {
    let rule = |rule: Value| json!([rule]);
    const AT: &str = "/spec/containers/0/restartPolicyRules";
    let at = |why: &str| format!("spec.containers[0].restartPolicyRules[0].{why}");
    let many = vec![json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}); 21];
    check(
        "/api/v1/namespaces/default/pods",
        json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i", "restartPolicy": "Never"}]}}),
        &[
            (AT, rule(json!({"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}})), ""),
            (
                AT,
                rule(json!({"action": "DoNotRestart", "exitCodes": {"operator": "Equals"}})),
                &format!(
                    "[{}, {}]",
                    at("action: Unsupported value: \"DoNotRestart\": supported values: \"Restart\", \"RestartAllContainers\""),
                    at("exitCodes.operator: Unsupported value: \"Equals\": supported values: \"In\", \"NotIn\""),
                ),
            ),
            (AT, rule(json!({"action": "Restart"})), &at("exitCodes: Required value: must be specified")),
            (AT, json!(many), "spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_data_source_in_a_namespace_is_dropped_as_a_whole() {
    let registry = registry().await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str, source: Value| {
        json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSourceRef": source,
        }})
    };
    let foreign = claim(
        "x",
        json!({"kind": "PersistentVolumeClaim", "name": "c", "namespace": "other"}),
    );
    let created = send(&registry, "POST", claims, foreign).await.unwrap();
    assert_eq!(created["spec"].get("dataSourceRef"), None);
    assert_eq!(created["spec"].get("dataSource"), None);
    let own = claim("y", json!({"kind": "PersistentVolumeClaim", "name": "c"}));
    let created = send(&registry, "POST", claims, own).await.unwrap();
    assert_eq!(created["spec"]["dataSource"]["name"], "c");
}
