//! Typed structs read from protobuf exactly what they read from JSON, and write what the JSON form writes.
//!
//! All instantiations are here, behind one generic function: they compile slowly. They are not with the tests of
//! `watchkeeper-wire`, which are optimised and would take four times as long to compile.

use std::fmt::Debug;
use std::io::Write as _;
use std::path::Path;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use watchkeeper_wire::protobuf::{Message, encode_as, encode_body};
use watchkeeper_wire::schema::Schema;

/// Decoding the object's protobuf must equal decoding its JSON.
#[track_caller]
fn check<K: DeserializeOwned + Serialize + PartialEq + Debug>(object: &Value) {
    let body = encode_body(Schema::builtin(), object).unwrap();
    let message = Message::open(Schema::builtin(), &body).unwrap();
    // As a server would print it: with the zero values that Go shows.
    let text = message.to_json().unwrap();
    let from_json: K = serde_json::from_slice(&text).unwrap();
    let from_protobuf: K = message.decode().unwrap();
    assert_eq!(from_protobuf, from_json);

    let text = |name: &str| object[name].as_str().unwrap();
    let written = encode_as(
        Schema::builtin(),
        text("apiVersion"),
        text("kind"),
        &from_protobuf,
    )
    .unwrap();
    let expected = encode_body(Schema::builtin(), &serde_json::to_value(&from_protobuf).unwrap()).unwrap();
    assert_eq!(written, expected);
    let again: K = Message::open(Schema::builtin(), &written)
        .unwrap()
        .decode()
        .unwrap();
    assert_eq!(again, from_protobuf);
}

fn meta() -> Value {
    json!({
        "name": "a",
        "namespace": "b",
        "uid": "33fd0bc4-d2f9-4899-a65e-83f1aa2cd1d9",
        "creationTimestamp": "2026-11-15T21:18:42Z",
        "generation": 7,
        "labels": {"app": "web", "empty": ""},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}],
        "managedFields": [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}}}}],
    })
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{
                "name": "c",
                "image": "registry.example.com/web:1",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": false}}},
                ],
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10},
                "readinessProbe": {"tcpSocket": {"port": 80}},
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
            }],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "secret": {"secretName": "s"}}],
            "tolerations": [{"operator": "Exists", "tolerationSeconds": 300}],
            "securityContext": {"runAsUser": 0, "supplementalGroups": [1, 2]},
        },
    })
}

#[test]
fn workloads() {
    let object = |api_version: &str, kind: &str, spec: Value, status: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": meta(), "spec": spec, "status": status});
    let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    check::<Pod>(&object(
        "v1",
        "Pod",
        template()["spec"].clone(),
        json!({"phase": "Running", "conditions": [condition], "startTime": "2026-01-01T00:00:00Z"}),
    ));
    check::<Pod>(&object("v1", "Pod", json!({}), json!({})));
    let deployment = json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template(),
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}});
    check::<Deployment>(&object(
        "apps/v1",
        "Deployment",
        deployment,
        json!({"replicas": 1}),
    ));
    let job = json!({"template": template(), "suspend": false});
    check::<Job>(&object("batch/v1", "Job", job.clone(), json!({"active": 1})));
    let cron_job = json!({"schedule": "@daily", "jobTemplate": {"spec": job}});
    check::<CronJob>(&object("batch/v1", "CronJob", cron_job, json!({})));
    let scaler = json!({"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}, "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]});
    check::<HorizontalPodAutoscaler>(&object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        scaler,
        json!({}),
    ));
    check::<ControllerRevision>(
        &json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(),
        "data": {"spec": {"template": {"x": [1, null, "a"]}}}, "revision": 3}),
    );
}

#[test]
fn configuration_and_network() {
    let object = |api_version: &str, kind: &str, more: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": meta()});
        object
            .as_object_mut()
            .unwrap()
            .append(&mut more.as_object().unwrap().clone());
        object
    };
    check::<ConfigMap>(&object(
        "v1",
        "ConfigMap",
        json!({"data": {"k": "v"}, "binaryData": {"b": "AAEC"}}),
    ));
    check::<Secret>(&object(
        "v1",
        "Secret",
        json!({"data": {"k": "aGk="}, "type": "Opaque", "immutable": false}),
    ));
    let ports = json!([{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}, {"port": 82}]);
    check::<Service>(&object(
        "v1",
        "Service",
        json!({"spec": {"ports": ports, "clusterIP": "None"}}),
    ));
    let path = json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 1}}}});
    let rules = json!([{"host": "h", "http": {"paths": [path]}}, {"host": "i"}]);
    check::<Ingress>(&object(
        "networking.k8s.io/v1",
        "Ingress",
        json!({"spec": {"rules": rules}}),
    ));
}

#[test]
fn cluster() {
    check::<Node>(
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi"}, "images": [{"names": ["a"], "sizeBytes": 5_000_000_000_i64}]}}),
    );
    check::<Event>(
        &json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"}, "firstTimestamp": "2026-01-01T00:00:00Z",
        "eventTime": "2026-01-01T00:00:00.123456Z", "count": 2}),
    );
    check::<Lease>(
        &json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"renewTime": "2026-01-01T00:00:00.000001Z", "leaseDurationSeconds": 15}}),
    );
    let schema = json!({"type": "object", "default": {"a": 1}, "properties": {
        "list": {"type": "array", "items": {"type": "string"}, "maximum": 1.5, "minimum": 2},
        "map": {"additionalProperties": {"type": "integer"}}, "any": {"additionalProperties": true},
        "enum": {"enum": ["a", 1, null]}}});
    check::<CustomResourceDefinition>(&json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "w.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "w", "kind": "W"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        "status": {"conditions": null, "storedVersions": ["v1"]}}));
}

/// The recordings are not part of the project; without them the test says so and passes.
#[test]
fn recorded_objects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens/codec");
    type Check = fn(&Value);
    let checks: [(&str, Check); 8] = [
        ("core.v1.Pod", check::<Pod>),
        ("core.v1.Node", check::<Node>),
        ("core.v1.Service", check::<Service>),
        ("core.v1.Secret", check::<Secret>),
        ("core.v1.ConfigMap", check::<ConfigMap>),
        ("batch.v1.Job", check::<Job>),
        ("batch.v1.CronJob", check::<CronJob>),
        ("networking.k8s.io.v1.Ingress", check::<Ingress>),
    ];
    for (name, check) in checks {
        match std::fs::read(folder.join(format!("{name}.json"))) {
            Ok(json) => check(&serde_json::from_slice(&json).unwrap()),
            Err(error) => {
                // Not `eprintln!`: its output is hidden in a passing test.
                let _ = writeln!(std::io::stderr(), "skipped: {name}: {error}");
            }
        }
    }
}
