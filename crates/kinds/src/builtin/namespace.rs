//! Namespace: labelled with its own name, and deleted only after its content is.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{NameRule, qualified_name};

use crate::fields::Selectable;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::defaulting::fill_empty;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::{Part, metadata};

/// The label by which selectors match a namespace's name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizers that need no domain.
const FINALIZERS: &[&str] = &["foregroundDeletion", "kubernetes", "orphan"];

/// Namespaces that cannot be deleted.
const UNDELETABLE: &[&str] = &["default", "kube-system", "kube-public"];

/// The kind served as `namespaces`.
pub static KIND: Kind = Kind {
    group: "",
    name: "Namespace",
    plural: "namespaces",
    names: NameRule::Dns1123Label,
    delete_returns_object: true,
    undeletable: |name| {
        UNDELETABLE
            .contains(&name)
            .then_some("this namespace may not be deleted")
    },
    finalizers_in_spec: true,
    uid_precondition: Some("Precondition failed"),
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", |row| json!(row.text("/status/phase"))),
    Column::AGE,
];

const SELECTABLE: &[Selectable] = &[Selectable::at("status.phase", &["/status/phase"])];

const HOOKS: Hooks = Hooks {
    default: label_with_name,
    prepare_for_create: |namespace, _| {
        let kept = namespace["spec"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut finalizers: Vec<Value> = kept.into_iter().filter(|name| name != "kubernetes").collect();
        finalizers.push(json!("kubernetes"));
        namespace["spec"]["finalizers"] = Value::Array(finalizers);
        namespace["status"] = json!({"phase": "Active"});
        // A generated name was not yet known when defaults were applied.
        label_with_name(namespace);
    },
    prepare_for_update: |part, namespace, live, _| {
        if part == Part::Status {
            fill_empty(&mut namespace["status"], "phase", "Active");
        }
        // Only the `/finalize` subresource changes the finalizers.
        if part != Part::Finalize {
            namespace["spec"]["finalizers"] = live["spec"]["finalizers"].clone();
        }
        label_with_name(namespace);
    },
    // It has no deadline: it ends when it is empty.
    on_deletion: |namespace| {
        metadata::of(namespace).remove("deletionGracePeriodSeconds");
        namespace["status"]["phase"] = json!("Terminating");
    },
    check: |namespace, errors| {
        let metadata = namespace.field("metadata");
        check_pod_security(&metadata.field("labels"), errors);
    },
    check_new: |namespace, errors| {
        let spec = namespace.field("spec");
        let list = spec.field("finalizers");
        // Errors do not give the index of the finalizer, as in Kubernetes.
        for name in list.items() {
            check_finalizer(&list.with_value(name.value()), errors);
        }
    },
    check_change,
    ..PLAIN
};

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    match change.part {
        Part::Status => check_phase(&change.new, errors),
        Part::Finalize => {
            let spec = change.new.field("spec");
            let finalizers = spec.field("finalizers");
            finalizers.items().for_each(|name| check_finalizer(&name, errors));
        }
        _ => {}
    }
}

fn check_finalizer(name: &Place<'_, '_>, errors: &mut Errors) {
    name.must_keep(qualified_name, errors);
    if !name.text().contains('/') && !FINALIZERS.contains(&name.text()) {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(name.invalid(why));
    }
}

/// Checks the phase: active until the namespace is deleted, then terminating. Errors spell the field as Go does.
fn check_phase(namespace: &Place<'_, '_>, errors: &mut Errors) {
    let metadata = namespace.field("metadata");
    let is_deleted = metadata.field("deletionTimestamp").is_set();
    let (wanted, deleted) = match is_deleted {
        false => ("Active", "empty"),
        true => ("Terminating", "not empty"),
    };
    let status = namespace.field("status");
    let phase = status.field("phase").known_as("Phase");
    if phase.text() != wanted {
        let why = format!("may only be '{wanted}' if `deletionTimestamp` is {deleted}");
        errors.push(phase.invalid_for(phase.text(), why));
    }
}

/// Checks the pod security labels.
fn check_pod_security(labels: &Place<'_, '_>, errors: &mut Errors) {
    for (key, label) in labels.entries() {
        let Some(mode) = key.strip_prefix("pod-security.kubernetes.io/") else {
            continue;
        };
        let is_mode = |mode: &str| matches!(mode, "enforce" | "audit" | "warn");
        if is_mode(mode) && !matches!(label.text(), "privileged" | "baseline" | "restricted") {
            errors.push(label.invalid("must be one of privileged, baseline, restricted"));
        }
        let has_version = mode.strip_suffix("-version").is_some_and(is_mode);
        if has_version && !is_version(label.text()) {
            errors.push(label.invalid(r#"must be "latest" or "v1.x""#));
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
