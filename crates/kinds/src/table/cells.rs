//! Cells of Tables that several kinds share, with Kubernetes' texts.

use serde_json::{Value, json};
use watchkeeper_meta::LabelSelector;

use super::Row;

pub(crate) const NONE: &str = "<none>";

pub(crate) fn text_at(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn either(object: &Value, first: &str, second: &str) -> String {
    match text_at(object, first) {
        text if text.is_empty() => text_at(object, second),
        text => text,
    }
}

pub(crate) fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_owned()
    } else {
        text
    }
}

/// A number or a text; empty for null.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn map_len(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

pub(crate) fn list_of(list: &Value, item: impl Fn(&Value) -> String) -> Vec<String> {
    list.as_array().into_iter().flatten().map(item).collect()
}

pub(crate) fn joined(list: &Value, separator: &str) -> String {
    list_of(list, plain).join(separator)
}

pub(crate) fn containers(object: &Value, pod_spec: &str, field: &str) -> String {
    let containers = object
        .pointer(&format!("{pod_spec}/containers"))
        .cloned()
        .unwrap_or_default();
    list_of(&containers, |container| plain(&container[field])).join(",")
}

/// `a=b,c=d`.
pub(crate) fn label_pairs(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    or(
        pairs
            .map(|(key, value)| format!("{key}={}", plain(value)))
            .collect::<Vec<_>>()
            .join(","),
        NONE,
    )
}

pub(crate) fn selector(selector: &Value) -> String {
    match LabelSelector::from_json(selector) {
        Ok(selector) if !selector.is_everything() => selector.to_string(),
        _ => NONE.to_owned(),
    }
}

/// The first few of a list, and the number of further ones.
pub(crate) fn some_of(items: Vec<String>, most: usize, none: &str) -> String {
    if items.is_empty() {
        return none.to_owned();
    }
    let shown = items[..items.len().min(most)].join(",");
    match items.len().checked_sub(most) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

pub(crate) fn condition(object: &Value, kind: &str) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    found
        .map(|condition| plain(&condition["status"]))
        .unwrap_or_default()
}

pub(crate) fn load_balancer(object: &Value) -> Vec<String> {
    let ingress = object
        .pointer("/status/loadBalancer/ingress")
        .cloned()
        .unwrap_or_default();
    let mut found = list_of(&ingress, |entry| match text_at(entry, "/ip") {
        ip if ip.is_empty() => text_at(entry, "/hostname"),
        ip => ip,
    });
    found.retain(|address| !address.is_empty());
    found
}

/// `resource.group/namespace/name`, without missing parts.
pub(crate) fn reference(reference: &Value) -> String {
    let (resource, group) = (text_at(reference, "/resource"), text_at(reference, "/group"));
    let resource = if group.is_empty() {
        resource
    } else {
        format!("{resource}.{group}")
    };
    let parts = [
        resource,
        text_at(reference, "/namespace"),
        text_at(reference, "/name"),
    ];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/")
}

pub(crate) fn access_modes(modes: &Value) -> String {
    let short = list_of(modes, |mode| {
        match mode.as_str().unwrap_or_default() {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        }
        .to_owned()
    });
    short.join(",")
}

pub(crate) fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    let named = subjects.filter(|subject| subject["kind"] == kind).map(|subject| {
        match (kind, text_at(subject, "/namespace")) {
            ("ServiceAccount", namespace) => format!("{namespace}/{}", text_at(subject, "/name")),
            _ => text_at(subject, "/name"),
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Ready and desired replicas: `1/3`.
pub(crate) fn ready_of_replicas(row: &Row<'_>) -> String {
    format!(
        "{}/{}",
        row.count("/status/readyReplicas"),
        row.count("/spec/replicas")
    )
}

/// The phase of a volume or a claim, or `Terminating`.
pub(crate) fn volume_phase(row: &Row<'_>) -> Value {
    match row.at("/metadata/deletionTimestamp").is_null() {
        true => json!(row.text("/status/phase")),
        false => json!("Terminating"),
    }
}

/// The class of a volume or a claim, by field or annotation.
pub(crate) fn storage_class(object: &Value) -> String {
    let annotation = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
    either(object, annotation, "/spec/storageClassName")
}

/// The kind of a policy's parameters.
pub(crate) fn param_kind(kind: &Value) -> String {
    match kind.is_null() {
        true => "<unset>".to_owned(),
        false => format!("{}/{}", text_at(kind, "/apiVersion"), text_at(kind, "/kind")),
    }
}

/// The parameter reference of a binding.
pub(crate) fn param_ref(parameters: &Value) -> String {
    match parameters.is_null() {
        true => "<unset>".to_owned(),
        false => reference(&json!({"namespace": parameters["namespace"], "name": parameters["name"]})),
    }
}
