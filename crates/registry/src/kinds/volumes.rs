//! Claims, volumes and storage classes.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_subdomain, label_selector, qualified_name};
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{immutable, items, one_of, set_default, text};
use super::formats::{each, entries, quantity};
use super::{Hooks, PLAIN};
use crate::metadata;
use crate::update::Part;
use crate::write::Warnings;

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Every kind of volume a persistent volume can be.
const SOURCES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

pub(super) const CLAIM: Hooks = Hooks {
    default: |claim| {
        if claim["spec"].is_object() {
            set_default(&mut claim["spec"], "volumeMode", "Filesystem");
        }
    },
    prepare_for_create: |claim| {
        claim["status"] = json!({"phase": "Pending"});
        protect(claim, "kubernetes.io/pvc-protection");
    },
    prepare_for_update: |_, claim, _, _| {
        if claim["status"].is_object() {
            set_default(&mut claim["status"], "phase", "Pending");
        }
    },
    faults: claim_faults,
    update_faults: |part, claim, live| match part {
        Part::Status => Vec::new(),
        _ => claim_update_faults(claim, live),
    },
    warn: warn_of_class_annotation,
};

pub(super) const VOLUME: Hooks = Hooks {
    default: |volume| {
        if !volume["spec"].is_object() {
            return;
        }
        let spec = &mut volume["spec"];
        set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_default(spec, "volumeMode", "Filesystem");
        if spec["hostPath"].is_object() {
            set_default(&mut spec["hostPath"], "type", "");
        }
    },
    prepare_for_create: |volume| {
        let now = volume["metadata"]["creationTimestamp"].clone();
        volume["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        protect(volume, "kubernetes.io/pv-protection");
    },
    prepare_for_update: |part, volume, live, now| {
        let phase = |object: &Value| object["status"]["phase"].clone();
        if part == Part::Object || !volume["status"].is_object() {
            return;
        }
        if phase(volume) != phase(live) {
            volume["status"]["lastPhaseTransitionTime"] = json!(now);
        } else if let Some(since) = live["status"].get("lastPhaseTransitionTime") {
            set_default(&mut volume["status"], "lastPhaseTransitionTime", since.clone());
        }
    },
    faults: volume_faults,
    update_faults: |part, volume, live| match part {
        Part::Status => Vec::new(),
        _ => volume_update_faults(volume, live),
    },
    warn: |volume, live, warnings| {
        warn_of_class_annotation(volume, live, warnings);
        if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Recycle" {
            warnings.add(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the \
                 recommended approach is to use dynamic provisioning.",
            );
        }
    },
};

pub(super) const CLASS: Hooks = Hooks {
    default: |class| {
        set_default(class, "reclaimPolicy", "Delete");
        set_default(class, "volumeBindingMode", "Immediate");
    },
    faults: class_faults,
    update_faults: |_, class, live| {
        let mut faults = Vec::new();
        for name in ["parameters", "provisioner", "reclaimPolicy"] {
            if class.get(name) != live.get(name) {
                let why = format!("updates to {name} are forbidden.");
                faults.push(FieldError::forbidden(&FieldPath::new(name), why));
            }
        }
        let name = "volumeBindingMode";
        immutable(&mut faults, &FieldPath::new(name), &class[name], &live[name]);
        faults
    },
    ..PLAIN
};

/// Keeps an object until nobody uses it.
fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = metadata::of(object)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|known| known == finalizer)
    {
        list.push(json!(finalizer));
    }
}

fn warn_of_class_annotation(object: &Value, _live: Option<&Value>, warnings: &Warnings) {
    if object["metadata"]["annotations"].get(CLASS_ANNOTATION).is_some() {
        warnings.add(format!(
            "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
}

fn access_mode_faults(object: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let modes: Vec<&str> = items(object, "/spec/accessModes")
        .filter_map(Value::as_str)
        .collect();
    for mode in &modes {
        one_of(faults, path, mode, ACCESS_MODES);
    }
    let alone = modes.iter().filter(|mode| **mode == "ReadWriteOncePod").count();
    if alone > 0 && alone < modes.len() {
        let why = "may not use ReadWriteOncePod with other access modes";
        faults.push(FieldError::forbidden(path, why));
    }
}

fn class_name_faults(object: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    let class = text(object, "/spec/storageClassName");
    if !class.is_empty() {
        each(
            faults,
            &spec.child("storageClassName"),
            class,
            dns1123_subdomain(class),
        );
    }
}

fn volume_mode_faults(object: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    let mode = text(object, "/spec/volumeMode");
    if !mode.is_empty() {
        one_of(faults, &spec.child("volumeMode"), mode, VOLUME_MODES);
    }
}

fn positive(amount: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let amount = quantity(amount);
    if amount.is_zero() || amount.is_negative() {
        faults.push(FieldError::invalid(
            path,
            amount.to_string(),
            "must be greater than zero",
        ));
    }
}

fn claim_faults(claim: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let modes = spec.child("accessModes");
    if items(claim, "/spec/accessModes").next().is_none() {
        faults.push(FieldError::required(&modes, "at least 1 access mode is required"));
    }
    if let Some(selector) = claim.pointer("/spec/selector") {
        faults.extend(label_selector(selector, &spec.child("selector")));
    }
    access_mode_faults(claim, &modes, &mut faults);
    let path = spec.child("resources").key("storage");
    match claim.pointer("/spec/resources/requests/storage") {
        None => faults.push(FieldError::required(&path, "")),
        Some(amount) => positive(amount, &path, &mut faults),
    }
    class_name_faults(claim, &spec, &mut faults);
    volume_mode_faults(claim, &spec, &mut faults);
    faults
}

fn claim_update_faults(claim: &Value, live: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        if text(live, "/spec/volumeName").is_empty() {
            remove(&mut spec, "volumeName");
        }
        if text(claim, "/status/phase") == "Bound" {
            remove(&mut spec, "volumeAttributesClassName");
            remove(&mut spec["resources"], "requests");
        }
        spec
    };
    let path = FieldPath::new("spec");
    if fixed(claim) != fixed(live) {
        // Kubernetes adds how the two differ, in Go's notation.
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        faults.push(FieldError::forbidden(&path, why));
    }
    let request = |object: &Value| quantity(&object["spec"]["resources"]["requests"]["storage"]);
    let capacity = quantity(&live["status"]["capacity"]["storage"]);
    if request(claim) < request(live) && request(claim) <= capacity {
        let path = path.child("resources").child("requests").child("storage");
        faults.push(FieldError::forbidden(
            &path,
            "field can not be less than status.capacity",
        ));
    }
    faults
}

fn remove(object: &mut Value, name: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(name);
    }
}

fn volume_faults(volume: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let modes = spec.child("accessModes");
    if items(volume, "/spec/accessModes").next().is_none() {
        faults.push(FieldError::required(&modes, ""));
    }
    access_mode_faults(volume, &modes, &mut faults);
    capacity_faults(volume, &spec.child("capacity"), &mut faults);
    let policy = text(volume, "/spec/persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        let path = spec.child("persistentVolumeReclaimPolicy");
        one_of(&mut faults, &path, policy, &["Delete", "Recycle", "Retain"]);
    }
    source_faults(volume, &spec, &mut faults);
    class_name_faults(volume, &spec, &mut faults);
    volume_mode_faults(volume, &spec, &mut faults);
    faults
}

fn capacity_faults(volume: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let capacity = volume.pointer("/spec/capacity").cloned().unwrap_or_default();
    let names: Vec<&String> = entries(volume, "/spec/capacity").map(|(name, _)| name).collect();
    if names.is_empty() {
        faults.push(FieldError::required(path, ""));
    }
    if names != ["storage"] {
        faults.push(FieldError::not_supported(path, capacity, &["storage"]));
    }
    for (name, amount) in entries(volume, "/spec/capacity") {
        positive(amount, &path.key(name), faults);
    }
}

fn source_faults(volume: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    let mut found = SOURCES
        .iter()
        .filter(|source| volume["spec"].get(source).is_some());
    if found.next().is_none() {
        faults.push(FieldError::required(spec, "must specify a volume type"));
    }
    for second in found {
        let why = "may not specify more than 1 volume type";
        faults.push(FieldError::forbidden(&spec.child(second), why));
    }
    if let Some(host) = volume["spec"].get("hostPath") {
        let path = spec.child("hostPath").child("path");
        match text(host, "/path") {
            "" => faults.push(FieldError::required(&path, "")),
            host if host.split('/').any(|part| part == "..") => {
                faults.push(FieldError::invalid(&path, host, "must not contain '..'"));
            }
            "/" if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Recycle" => {
                let why = "may not be 'recycle' for a hostPath mount of '/'";
                faults.push(FieldError::forbidden(
                    &spec.child("persistentVolumeReclaimPolicy"),
                    why,
                ));
            }
            _ => {}
        }
    }
}

fn volume_update_faults(volume: &Value, live: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let source = |object: &Value| -> Vec<Option<Value>> {
        SOURCES
            .iter()
            .map(|source| object["spec"].get(source).cloned())
            .collect()
    };
    if source(volume) != source(live) {
        let why = "spec.persistentvolumesource is immutable after creation";
        faults.push(FieldError::forbidden(&spec.child("persistentvolumesource"), why));
    }
    let mode = |object: &Value| object["spec"]["volumeMode"].clone();
    immutable(&mut faults, &spec.child("volumeMode"), &mode(volume), &mode(live));
    faults
}

fn class_faults(class: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let path = FieldPath::new("provisioner");
    match text(class, "/provisioner") {
        "" => faults.push(FieldError::required(&path, "")),
        provisioner => each(
            &mut faults,
            &path,
            provisioner,
            qualified_name(&provisioner.to_lowercase()),
        ),
    }
    if entries(class, "/parameters").any(|(name, _)| name.is_empty()) {
        let why = "field can not be empty.";
        faults.push(FieldError::invalid(&FieldPath::new("parameters"), "", why));
    }
    let closed: [(&str, &[&str]); 2] = [
        ("reclaimPolicy", &["Delete", "Retain"]),
        ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ];
    for (name, allowed) in closed {
        one_of(
            &mut faults,
            &FieldPath::new(name),
            text(class, &format!("/{name}")),
            allowed,
        );
    }
    faults
}
