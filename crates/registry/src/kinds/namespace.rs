//! Namespaces: a label with their own name, and a finalizer until they are empty.

use serde_json::{Value, json};

use super::place::{Faults, Place};
use super::{Hooks, PLAIN};
use crate::metadata;
use crate::update::Part;

/// The label that lets selectors name a namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) const HOOKS: Hooks = Hooks {
    default: label_with_name,
    prepare_for_create: |namespace| {
        let kept = namespace["spec"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut finalizers: Vec<Value> = kept.into_iter().filter(|name| name != "kubernetes").collect();
        finalizers.push(json!("kubernetes"));
        namespace["spec"]["finalizers"] = Value::Array(finalizers);
        namespace["status"] = json!({"phase": "Active"});
    },
    prepare_for_update: |part, namespace, live, _| {
        // Only the finalize subresource changes these.
        if part != Part::Finalize {
            namespace["spec"]["finalizers"] = live["spec"]["finalizers"].clone();
        }
        label_with_name(namespace);
    },
    faults: |namespace| {
        let mut faults = Vec::new();
        let namespace = Place::object(namespace);
        check_pod_security(&namespace.field("metadata").field("labels"), &mut faults);
        faults
    },
    ..PLAIN
};

/// Checks the labels that say what a namespace's pods may do.
fn check_pod_security(labels: &Place<'_, '_>, faults: &mut Faults) {
    for (key, label) in labels.entries() {
        let Some(mode) = key.strip_prefix("pod-security.kubernetes.io/") else {
            continue;
        };
        let is_mode = |mode: &str| matches!(mode, "enforce" | "audit" | "warn");
        if is_mode(mode) && !matches!(label.text(), "privileged" | "baseline" | "restricted") {
            faults.push(label.invalid("must be one of privileged, baseline, restricted"));
        }
        let has_version = mode.strip_suffix("-version").is_some_and(is_mode);
        if has_version && !is_version(label.text()) {
            faults.push(label.invalid(r#"must be "latest" or "v1.x""#));
        }
    }
}

fn is_version(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text == "latest" || text.strip_prefix("v1.").is_some_and(is_number)
}

fn label_with_name(namespace: &mut Value) {
    let name = metadata::text(namespace, "name").to_owned();
    if name.is_empty() {
        return;
    }
    let metadata = metadata::of(namespace);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if !labels.is_object() {
        *labels = json!({});
    }
    labels[NAME_LABEL] = json!(name);
}
