use serde_json::json;

use super::*;

fn read(api_version: &str, kind: &str, value: Value) -> Result<Canonical, TypeError> {
    let schema = Schema::builtin();
    canonicalize(schema, schema.kind(api_version, kind).unwrap(), value)
}

#[track_caller]
fn check(api_version: &str, kind: &str, value: Value, expected: Value) {
    let read = read(api_version, kind, value).unwrap();
    assert_eq!(read.value, expected);
    assert_eq!(read.unknown, []);
}

#[track_caller]
fn check_error(api_version: &str, kind: &str, value: Value, expected: &str) {
    let error = read(api_version, kind, value).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn structs_are_always_shown_and_empty_values_left_out() {
    check(
        "v1",
        "Service",
        json!({"metadata": {"name": "a", "labels": {}, "finalizers": []}, "spec": {"ports": [{"port": 80, "name": ""}]}}),
        json!({
            "metadata": {"name": "a"},
            "spec": {"ports": [{"port": 80, "targetPort": 0}]},
            "status": {"loadBalancer": {}},
        }),
    );
}

#[test]
fn required_lists_are_null_when_missing_and_pointers_are_kept() {
    check(
        "apps/v1",
        "Deployment",
        json!({"spec": {"replicas": 0, "selector": {}, "paused": false}}),
        json!({
            "metadata": {},
            "spec": {
                "replicas": 0,
                "selector": {},
                "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}},
            },
            "status": {},
        }),
    );
}

#[test]
fn scalars_take_their_canonical_form() {
    check(
        "v1",
        "ResourceQuota",
        json!({"metadata": {"creationTimestamp": "2020-01-01T01:00:00.7+01:00"}, "spec": {"hard": {"cpu": 1.5, "memory": "0.5Gi"}}}),
        json!({
            "metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"hard": {"cpu": "1500m", "memory": "512Mi"}},
            "status": {},
        }),
    );
    check(
        "v1",
        "Secret",
        json!({"data": {"a": "aG\nk=", "b": null}}),
        json!({"metadata": {}, "data": {"a": "aGk=", "b": null}}),
    );
}

#[test]
fn nulls_are_zero_values() {
    check(
        "v1",
        "ConfigMap",
        json!({"metadata": {"name": null, "creationTimestamp": null}, "data": {"k": null}, "binaryData": null}),
        json!({"metadata": {}, "data": {"k": ""}}),
    );
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let pod = json!({
        "nope": 1,
        "metadata": {"labels": {"anything": "goes"}, "nope": {}},
        "spec": {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"port": 1, "nope": 1}}, "nope": 1}]},
    });
    let read = read("v1", "Pod", pod).unwrap();
    let complaints: Vec<_> = read.unknown.iter().map(ToString::to_string).collect();
    assert_eq!(
        complaints,
        [
            r#"unknown field "metadata.nope""#,
            r#"unknown field "spec.containers[0].livenessProbe.httpGet.nope""#,
            r#"unknown field "spec.containers[0].nope""#,
            r#"unknown field "nope""#,
        ]
    );
    assert_eq!(
        read.value["spec"]["containers"][0]["livenessProbe"],
        json!({"httpGet": {"port": 1}})
    );
}

#[test]
fn wrong_types_are_named_in_gos_words() {
    let check = check_error;
    check(
        "v1",
        "ConfigMap",
        json!({"data": {"k": 1}}),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    );
    check(
        "v1",
        "ConfigMap",
        json!({"data": ["k"]}),
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
    );
    check(
        "v1",
        "ConfigMap",
        json!({"metadata": {"name": 5}}),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
    );
    check(
        "v1",
        "ConfigMap",
        json!({"metadata": "x"}),
        "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
    );
    check(
        "apps/v1",
        "Deployment",
        json!({"spec": {"replicas": "3"}}),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        "apps/v1",
        "Deployment",
        json!({"spec": {"replicas": 2.0}}),
        "json: cannot unmarshal number 2.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        "apps/v1",
        "Deployment",
        json!({"spec": {"replicas": 99_999_999_999_i64}}),
        "json: cannot unmarshal number 99999999999 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        "v1",
        "Pod",
        json!({"spec": {"volumes": [{"configMap": {"name": 1}}]}}),
        "json: cannot unmarshal number into Go struct field \
         ConfigMapVolumeSource.spec.volumes.VolumeSource.configMap.LocalObjectReference.name of type string",
    );
    check(
        "v1",
        "Secret",
        json!({"data": {"a": [65, "b"]}}),
        "json: cannot unmarshal string into Go struct field Secret.data of type uint8",
    );
    check(
        "v1",
        "Service",
        json!({"spec": {"ports": [{"port": 80, "targetPort": true}]}}),
        "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
    );
    check(
        "v1",
        "Service",
        json!({"spec": {"ports": [{"port": 80, "protocol": 1}]}}),
        "json: cannot unmarshal number into Go struct field ServicePort.spec.ports.protocol of type v1.Protocol",
    );
    check(
        "v1",
        "PersistentVolume",
        json!({"spec": {"csi": {"driver": 1}}}),
        "json: cannot unmarshal number into Go struct field \
         CSIPersistentVolumeSource.spec.PersistentVolumeSource.csi.driver of type string",
    );
    check(
        "v1",
        "ResourceQuota",
        json!({"spec": {"hard": {"pods": "2 apples"}}}),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    check(
        "v1",
        "ConfigMap",
        json!({"metadata": {"creationTimestamp": "yesterday"}}),
        r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
    );
    check(
        "v1",
        "Secret",
        json!({"data": {"a": "not base64!"}}),
        "illegal base64 data at input byte 3",
    );
    check(
        "v1",
        "Pod",
        json!([]),
        "json: cannot unmarshal array into Go value of type v1.Pod",
    );
}

#[test]
fn duplicate_keys_are_named() {
    let body = br#"{"kind":"X","spec":{"a":1,"list":[{"b":1},{"b":1,"b":2,"b":3}],"a":2}}"#;
    let body = read_body(body).unwrap();
    assert_eq!(body.value["spec"], json!({"a": 2, "list": [{"b": 1}, {"b": 3}]}));
    let complaints: Vec<_> = body.duplicates.iter().map(ToString::to_string).collect();
    assert_eq!(
        complaints,
        [
            r#"duplicate field "spec.list[1].b""#,
            r#"duplicate field "spec.a""#
        ]
    );
}

#[test]
fn bad_bodies_are_typed_errors() {
    let message = |body: &[u8]| read_body(body).unwrap_err().to_string();
    assert_eq!(message(b""), "unexpected end of JSON input");
    assert_eq!(message(b"{} x"), "invalid character 'x' after top-level value");
    assert_eq!(message("[".repeat(200).as_bytes()), "exceeded max depth");
    let large = vec![b' '; crate::limits::OBJECT_LIMIT + 1];
    assert_eq!(message(&large), "the body is larger than 33554432 bytes");
    assert!(read_body(b"\"\xff\"").is_err());
}

#[test]
fn a_map_of_the_wrong_types_is_refused_in_words_of_its_own() {
    let check = |spec: Value, expected: &str| {
        let error = read("v1", "Pod", json!({ "spec": spec })).unwrap_err();
        assert_eq!(error.into_conversion(), expected);
    };
    check(json!({"containers": "x"}), "cannot restore slice from string");
    check(json!({"nodeSelector": []}), "cannot restore map from slice");
    check(json!({"securityContext": 1}), "cannot restore struct from: int64");
    check(json!({"hostname": 1}), "cannot convert int64 to string");
    check(
        json!({"restartPolicy": 1}),
        "cannot convert int64 to v1.RestartPolicy",
    );
    check(json!({"hostname": true}), "unrecognized type: string");
    check(json!({"hostNetwork": "x"}), "unrecognized type: bool");
    check(json!({"priority": 1.5}), "cannot convert float64 to int32");
}
