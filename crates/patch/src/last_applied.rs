//! The annotation in which client-side `kubectl apply` keeps the last applied configuration, and its use in
//! server-side apply.
//!
//! A user who moves from client-side to server-side apply would conflict with their own earlier writes. So the
//! manager `kubectl` may take over, without force, the fields that the annotation states and the live object still
//! has. Its server-side applies keep the annotation up to date, so that one can go back.

use serde_json::Value;
use watchkeeper_meta::go_json;
use watchkeeper_meta::validation::MAX_ANNOTATIONS;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::compare::compare;
use crate::configuration::field_set;
use crate::field_set::FieldSet;

/// The manager that inherits fields from client-side apply.
pub const INHERITOR: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of the last applied configuration that have not changed since. Empty without an annotation, or with one
/// that is invalid or in another version than the object.
pub fn unchanged_fields(schema: &Schema, root: TypeId, live: &Value) -> FieldSet {
    let applied = annotation(live).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(applied) = applied.filter(|applied| applied["apiVersion"] == live["apiVersion"]) else {
        return FieldSet::new();
    };
    let Ok(mut fields) = field_set(schema, root, &applied) else {
        return FieldSet::new();
    };
    let change = compare(schema, root, &applied, live);
    fields.subtract(&change.changed);
    fields.subtract(&change.removed);
    fields
}

/// Updates an existing annotation to the applied configuration. Removes it if the annotations would become too large.
pub fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    let Some(annotations) = annotations_mut(object) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), (go_json(&config) + "\n").into());
    let lengths = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if lengths.sum::<usize>() > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()?;
    (!text.is_empty()).then_some(text)
}

fn annotations_mut(object: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live(annotation: &str, data: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "annotations": {ANNOTATION: annotation}},
            "data": data,
        })
    }

    #[test]
    fn what_was_applied_and_is_still_so_may_be_taken_over() {
        let schema = Schema::builtin();
        let root = schema.kind("v1", "ConfigMap").unwrap();
        let check = |annotation: &str, paths: &[&str]| {
            let fields = unchanged_fields(schema, root, &live(annotation, json!({"k": "v", "n": "2"})));
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            assert_eq!(fields.paths(), paths, "{annotation}");
        };
        let applied = |version: &str| {
            json!({"apiVersion": version, "kind": "ConfigMap", "data": {"k": "v", "n": "1", "gone": "1"}})
                .to_string()
        };
        check(&applied("v1"), &[".apiVersion", ".kind", ".data.k"]);
        check(&applied("v2"), &[]);
        check(r#"{"apiVersion": "v1", "nope": 1}"#, &[]);
        check("no JSON", &[]);
        check("", &[]);
    }

    #[test]
    fn the_annotation_follows_what_is_applied() {
        let check = |annotation: &str, config: Value, refreshed: Value| {
            let mut object = live(annotation, json!({}));
            refresh(&mut object, &config);
            assert_eq!(
                object["metadata"]["annotations"]
                    .get(ANNOTATION)
                    .cloned()
                    .unwrap_or_default(),
                refreshed
            );
        };
        check(
            "{}",
            json!({"data": {"k": "<"}}),
            json!("{\"data\":{\"k\":\"\\u003c\"}}\n"),
        );
        let annotated = json!({"metadata": {"annotations": {ANNOTATION: "old", "a": "b"}}});
        check(
            "{}",
            annotated,
            json!("{\"metadata\":{\"annotations\":{\"a\":\"b\"}}}\n"),
        );
        check("", json!({}), json!(""));
        check(
            "{}",
            json!({"data": {"k": "x".repeat(MAX_ANNOTATIONS)}}),
            json!(null),
        );
    }
}
