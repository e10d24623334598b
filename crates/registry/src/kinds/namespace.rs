//! Namespaces: a label with their own name, and a finalizer until they are empty.

use serde_json::{Value, json};

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
    prepare_for_update: |part, namespace, live| {
        // Only the finalize subresource changes these.
        if part != Part::Whole {
            namespace["spec"]["finalizers"] = live["spec"]["finalizers"].clone();
        }
        label_with_name(namespace);
    },
    ..PLAIN
};

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
