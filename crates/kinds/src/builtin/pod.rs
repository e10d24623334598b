//! Pod: a group of containers that run on one node.

mod annotation_rules;
mod container_rules;
mod defaults;
mod env_rules;
mod ephemeral_rules;
mod image;
mod mount_rules;
mod placement_rules;
mod port_rules;
mod probe_rules;
mod quality_of_service;
pub(crate) mod quota;
mod resize_rules;
mod resource_rules;
mod security_rules;
mod spec_rules;
mod status_rules;
mod system_rules;
mod table;
mod update_rules;
mod volume_rules;
mod warnings;
mod windows_rules;

use self::table::Summary;
pub(crate) use annotation_rules::check_annotations;
pub(crate) use container_rules::privileged_errors;
pub(crate) use defaults::default_spec;
pub(crate) use placement_rules::check_node_selector;
pub(crate) use resource_rules::check_limits;
pub(crate) use spec_rules::{check_spec, check_tolerations};
pub(crate) use warnings::{
    deprecated_label, warn_name, warn_of_fractions, warn_of_old_keys, warn_of_old_source, warn_template,
};

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::fields::Selectable;
use crate::kind::{Generation, Kind};
use crate::kind::{Hooks, PLAIN};
use crate::metadata;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{NONE, either, or};
use crate::{Part, Warnings};

/// The default toleration of an unreachable node: five minutes, as in Kubernetes.
const TOLERATED_SECONDS: i64 = 300;

/// The taints of a node that is not reachable.
const NOT_REACHABLE: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The context of a pod spec: a pod, or a template.
#[derive(Default)]
pub(crate) struct Around<'v> {
    /// The pod's name; none for a template, for which some checks are skipped.
    pub(crate) pod: Option<&'v str>,
}

/// The kind served as `pods`.
pub static KIND: Kind = Kind {
    group: "",
    name: "Pod",
    plural: "pods",
    generation: Generation::Spec,
    delete_returns_object: true,
    graceful: true,
    columns: COLUMNS,
    row_condition: table::row_condition,
    selectable: Some(SELECTABLE),
    pod_spec: Some("/spec"),
    usage: quota::usage,
    counted_by_plural: true,
    grows_by: &[Part::Resize],
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", |row| json!(Summary::of(row.object).ready())),
    Column::text("Status", |row| json!(Summary::of(row.object).status)),
    Column::text("Restarts", |row| Summary::of(row.object).restarts(row.now)),
    Column::AGE,
    Column::text("IP", |row| {
        json!(or(
            either(row.object, "/status/podIPs/0/ip", "/status/podIP"),
            NONE
        ))
    })
    .wide(),
    Column::text("Node", |row| row.text_or_none("/spec/nodeName")).wide(),
    Column::text("Nominated Node", |row| {
        row.text_or_none("/status/nominatedNodeName")
    })
    .wide(),
    Column::text("Readiness Gates", |row| json!(table::readiness_gates(row.object))).wide(),
];

const SELECTABLE: &[Selectable] = &[
    Selectable::at("spec.nodeName", &["/spec/nodeName"]),
    Selectable::renamed("spec.host", "spec.nodeName"),
    Selectable::at("spec.restartPolicy", &["/spec/restartPolicy"]),
    Selectable::at("spec.schedulerName", &["/spec/schedulerName"]),
    Selectable::at("spec.serviceAccountName", &["/spec/serviceAccountName"]),
    Selectable::boolean("spec.hostNetwork", &["/spec/hostNetwork"]),
    Selectable::at("status.phase", &["/status/phase"]),
    Selectable::at("status.podIP", &["/status/podIP"]),
    Selectable::at("status.podIPs", &["/status/podIP"]),
    Selectable::at("status.nominatedNodeName", &["/status/nominatedNodeName"]),
];

const HOOKS: Hooks = Hooks {
    default: defaults::default_pod,
    prepare_for_create: |pod, warnings| {
        shorten_grace(pod);
        add_default_tolerations(pod);
        take_app_armor_from_annotations(pod, warnings);
        let quality = quality_of_service::of(&pod["spec"]);
        pod["status"] = json!({"phase": "Pending", "qosClass": quality});
    },
    prepare_for_update: |part, pod, live, _| match part {
        Part::Object | Part::Whole => {
            add_default_tolerations(pod);
            keep_priority(pod, live);
        }
        Part::Status => keep_identity(pod, live),
        _ => {}
    },
    check,
    check_new,
    check_change: |change, errors| match change.part {
        Part::Object => update_rules::check_change(&change.new, &change.live, errors),
        Part::Resize => resize_rules::check_change(&change.new, &change.live, errors),
        Part::EphemeralContainers => ephemeral_rules::check_change(&change.new, &change.live, errors),
        Part::Status => status_rules::check_change(&change.new, &change.live, errors),
        _ => {}
    },
    warn: warnings::warn_pod,
    warn_of_status: warnings::warn_of_status,
    // The annotations that Kubernetes reads are in its own domain.
    heeds: Some(|key| {
        let domain_end = key.bytes().position(|byte| byte == b'/');
        domain_end.is_some_and(|end| key[..end].ends_with("kubernetes.io"))
    }),
    ..PLAIN
};

fn check(pod: &Place<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    check_annotations(&metadata.field("annotations"), &spec, errors);
    let around = Around {
        pod: Some(metadata.field("name").text()),
    };
    check_spec(&spec, &around, errors);
    if spec.field("serviceAccountName").text().is_empty() {
        check_no_tokens(&spec, errors);
    }
    container_rules::check_images_of_pod(&spec, errors);
}

/// Rejects projected tokens in a pod without a service account.
fn check_no_tokens(spec: &Place<'_, '_>, errors: &mut Errors) {
    for volume in spec.field("volumes").items() {
        let projected = volume.field("projected");
        for source in projected.field("sources").items() {
            let token = source.field("serviceAccountToken");
            if token.is_set() {
                errors.push(token.forbidden("must not be specified when serviceAccountName is not set"));
            }
        }
    }
}

fn check_new(pod: &Place<'_, '_>, errors: &mut Errors) {
    let spec = pod.field("spec");
    let debugging = spec.field("ephemeralContainers");
    if debugging.len() > 0 {
        errors.push(debugging.forbidden("cannot be set on create"));
    }
    let node = spec.field("nodeName");
    if !node.text().is_empty() && spec.field("schedulingGates").len() > 0 {
        errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
    let metadata = pod.field("metadata");
    annotation_rules::check_profiles(&metadata.field("annotations"), &spec, errors);
}

/// The init containers that always restart.
fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    let containers = pod["spec"]["initContainers"].as_array();
    containers
        .into_iter()
        .flatten()
        .filter(|container| container["restartPolicy"] == "Always")
}

fn sidecar_names(pod: &Value) -> HashSet<&str> {
    sidecars(pod)
        .filter_map(|container| container["name"].as_str())
        .collect()
}

/// Restores the live owners, and the live QoS class if the new status omits it.
fn keep_identity(pod: &mut Value, live: &Value) {
    let owners = live["metadata"].get("ownerReferences").cloned();
    match owners {
        Some(owners) => drop(metadata::of(pod).insert("ownerReferences".to_owned(), owners)),
        None => drop(metadata::of(pod).remove("ownerReferences")),
    }
    if let Some(quality) = live["status"].get("qosClass").cloned() {
        crate::rules::defaulting::fill(&mut pod["status"], "qosClass", quality);
    }
}

/// Replaces a negative grace period by one second.
fn shorten_grace(pod: &mut Value) {
    let grace = pod.pointer_mut("/spec/terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| grace.as_i64() < Some(0)) {
        *grace = json!(1);
    }
}

/// Adds the default tolerations for unreachable nodes, unless the pod has its own.
pub fn add_default_tolerations(pod: &mut Value) {
    for error in NOT_REACHABLE {
        let given = pod["spec"]["tolerations"].as_array().into_iter().flatten();
        if given.into_iter().any(|toleration| covers(toleration, error)) {
            continue;
        }
        let toleration = json!({
            "key": error,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATED_SECONDS,
        });
        match &mut pod["spec"]["tolerations"] {
            Value::Array(list) => list.push(toleration),
            none => *none = json!([toleration]),
        }
    }
}

/// True if a toleration covers evictions by this taint.
fn covers(toleration: &Value, error: &str) -> bool {
    let text = |name: &str| toleration[name].as_str().unwrap_or_default();
    (text("key") == error || text("key").is_empty())
        && (text("effect") == "NoExecute" || text("effect").is_empty())
}

/// Keeps the live priority if a client that does not know the field omits it.
fn keep_priority(pod: &mut Value, live: &Value) {
    for name in ["priority", "preemptionPolicy"] {
        if let Some(kept) = live["spec"].get(name) {
            crate::rules::defaulting::fill(&mut pod["spec"], name, kept.clone());
        }
    }
}

/// Copies AppArmor profiles from the deprecated annotations to their fields, and warns of annotations without one.
/// Pods for Windows have none.
fn take_app_armor_from_annotations(pod: &mut Value, warnings: &Warnings) {
    let annotations = pod["metadata"]["annotations"].clone();
    if annotations.is_null() || pod["spec"]["os"]["name"] == "windows" {
        return;
    }
    let of_pod = pod["spec"]["securityContext"].get("appArmorProfile").cloned();
    for list in ["initContainers", "containers"] {
        for container in crate::rules::defaulting::items_mut(&mut pod["spec"], list) {
            let name = container["name"].as_str().unwrap_or_default();
            let key = format!("{}{name}", warnings::APP_ARMOR);
            let annotation = annotations.get(&key).and_then(Value::as_str);
            let has_field = container["securityContext"].get("appArmorProfile").is_some();
            let Some(annotation) = annotation.filter(|_| !has_field) else {
                continue;
            };
            let profile = app_armor_profile(annotation);
            if profile.is_some() && profile == of_pod {
                continue;
            }
            if let Some(profile) = profile {
                crate::rules::defaulting::fill(container, "securityContext", json!({}));
                container["securityContext"]["appArmorProfile"] = profile;
            }
            let root = Place::object(&Value::Null);
            let metadata = root.field("metadata");
            let places = metadata.field("annotations").with_value(&annotations);
            warnings::warn_of_app_armor(&places.entry(&key), warnings);
        }
    }
}

fn app_armor_profile(text: &str) -> Option<Value> {
    Some(match text {
        "runtime/default" => json!({"type": "RuntimeDefault"}),
        "unconfined" => json!({"type": "Unconfined"}),
        text => {
            let name = text.strip_prefix("localhost/")?;
            let is_valid =
                !name.is_empty() && name.trim() == name && name.len() <= security_rules::MAX_PROFILE;
            is_valid.then(|| json!({"type": "Localhost", "localhostProfile": name}))?
        }
    })
}
