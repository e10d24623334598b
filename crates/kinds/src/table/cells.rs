//! Cells of Tables that several kinds share, with Kubernetes' texts.

use std::collections::BTreeSet;

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

/// The most items of a list that a cell shows.
pub(crate) const MOST_SHOWN: usize = 3;

/// The first few of a list, and the number of further ones.
pub(crate) fn some_of(items: Vec<String>, none: &str) -> String {
    some_of_many(&items[..items.len().min(MOST_SHOWN)], items.len(), none)
}

/// Like [`some_of`], with only those items that are shown.
pub(crate) fn some_of_many(shown: &[String], count: usize, none: &str) -> String {
    match count {
        0 => none.to_owned(),
        count => with_more(shown.join(","), count - shown.len()),
    }
}

/// A shortened list, and the number of items it leaves out.
pub(crate) fn with_more(shown: String, more: usize) -> String {
    match more {
        0 => shown,
        _ => format!("{shown} + {more} more..."),
    }
}

/// The condition of a type.
pub(crate) fn condition_of<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind)
}

/// The status of a condition; empty if there is none.
pub(crate) fn condition(object: &Value, kind: &str) -> String {
    condition_of(object, kind)
        .map(|condition| plain(&condition["status"]))
        .unwrap_or_default()
}

/// The addresses of a load balancer, each once and in order.
pub(crate) fn load_balancer(object: &Value) -> Vec<String> {
    let ingress = object
        .pointer("/status/loadBalancer/ingress")
        .cloned()
        .unwrap_or_default();
    let found = list_of(&ingress, |entry| either(entry, "/ip", "/hostname"));
    let found: BTreeSet<String> = found.into_iter().filter(|address| !address.is_empty()).collect();
    found.into_iter().collect()
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

/// The access modes and their short names, in the order in which cells show them.
const ACCESS_MODES: &[(&str, &str)] = &[
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// The access modes, each once, however the object lists them.
pub(crate) fn access_modes(modes: &Value) -> String {
    let stated: Vec<&Value> = modes.as_array().into_iter().flatten().collect();
    let shown = ACCESS_MODES
        .iter()
        .filter(|(mode, _)| stated.iter().any(|stated| *stated == mode));
    shown.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
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

/// The parameter reference of a binding: a name, in any namespace if none is given, or a selector.
pub(crate) fn param_ref(parameters: &Value) -> String {
    let (name, selector) = (text_at(parameters, "/name"), &parameters["selector"]);
    match (name.is_empty(), selector.is_null()) {
        (false, _) => format!("{}/{name}", or(text_at(parameters, "/namespace"), "*")),
        (true, false) => printed_selector(selector),
        (true, true) => "<unset>".to_owned(),
    }
}

/// A label selector as Go's protobuf code prints it.
fn printed_selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {},", plain(value)))
        .collect();
    let expressions = list_of(&selector["matchExpressions"], |expression| {
        let [key, operator] = ["key", "operator"].map(|name| plain(&expression[name]));
        let values = joined(&expression["values"], " ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions = expressions.concat();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
