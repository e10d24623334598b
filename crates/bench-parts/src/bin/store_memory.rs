//! Memory of a store: bytes per object as sent, with a field mask, and per index entry.
//!
//! `cargo run --release -p watchkeeper-bench-parts --bin store_memory [OBJECTS]`: each line is a process of its own, so
//! that resident memory is comparable.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::process::Command;

use serde_json::{Value, json};
use watchkeeper_meta::ResourceVersion;
use watchkeeper_runtime::store::{self, Store};
use watchkeeper_runtime::watcher::Event;
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{FieldMask, Object, ObjectOptions, protobuf};

const OBJECTS: usize = 30_000;

/// What a scheduler or an autoscaler reads of a pod.
const KEPT: [&str; 3] = ["spec.nodeName", "spec.containers.resources", "status.phase"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [case, count] => measure(case, count.parse()?),
        [count] => each(count.parse()?),
        _ => each(OBJECTS),
    }
}

fn each(count: usize) -> Result<(), Box<dyn Error>> {
    println!("{count} pods        object bytes   resident bytes each");
    for case in [
        "protobuf",
        "protobuf, masked",
        "JSON",
        "JSON, masked",
        "protobuf, indexed",
    ] {
        let program = std::env::current_exe()?;
        let output = Command::new(program).args([case, &count.to_string()]).output()?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(())
}

fn measure(case: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let mask = FieldMask::new("v1", "Pod", KEPT)?;
    let (store, mut writer) = store::new();
    if case.ends_with("indexed") {
        index(&store)?;
    }
    let before = resident();
    let mut deltas = Vec::new();
    writer.apply(0, Event::Init, &mut deltas);
    let mut bytes = 0;
    for number in 0..count {
        let object = object(number, case.starts_with("JSON"))?;
        let object = if case.ends_with("masked") {
            object.masked(&mask)
        } else {
            object
        };
        bytes += object.memory_size();
        writer.apply(0, Event::InitApply(object), &mut deltas);
    }
    writer.apply(0, Event::InitDone(ResourceVersion::new("9")), &mut deltas);
    drop(deltas);
    writer.publish();
    let each = (resident() - before) / count;
    println!("{case:<20} {:>10} {each:>15}", bytes / count);
    drop(store);
    Ok(())
}

/// One entry per pod, a hundred pods per value.
fn index(store: &Store) -> Result<(), Box<dyn Error>> {
    store.add_index("node", |pod: &Object| {
        let number: usize = pod.name().trim_start_matches("web-").parse().unwrap_or_default();
        vec![format!("node-{}", number / 100)]
    })?;
    Ok(())
}

fn object(number: usize, is_json: bool) -> Result<Object, Box<dyn Error>> {
    let value = pod(number);
    let options = ObjectOptions::default();
    Ok(match is_json {
        true => Object::from_json(value.to_string().as_bytes(), &options)?,
        false => Object::from_protobuf(&protobuf::encode_body(Schema::builtin(), &value)?, &options)?,
    })
}

/// A pod as a Deployment makes it.
fn pod(number: usize) -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3});
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("web-{number}"),
            "generateName": "web-7c5ddbdf54-",
            "namespace": "shop",
            "uid": format!("0f4b6c5e-8d3a-4f0e-9f1b-{number:012}"),
            "resourceVersion": number.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54", "tier": "front"},
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": "6f1ed002ab5595859014ebf0951522d9a1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7c5ddbdf54", "uid": "u", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": format!("node-{}", number / 100),
            "serviceAccountName": "web",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "containers": [{
                "name": "web", "image": "registry.example.com/shop/web:1.27.3",
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}, {"name": "LEVEL", "value": "info"}],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            }],
            "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}, {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running",
            "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
            "hostIP": "10.0.0.1", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "startTime": "2026-01-01T00:00:00Z", "qosClass": "Burstable",
            "containerStatuses": [{"name": "web", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": true, "restartCount": 0, "image": "registry.example.com/shop/web:1.27.3", "imageID": "sha256:6f1ed002ab5595859014ebf0951522d9a1", "containerID": "containerd://6f1ed002ab5595859014ebf0951522d9a1", "started": true}],
        },
    })
}

/// Resident memory in bytes; 0 where the system does not tell.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or_default() * 1024
}
