//! Validation by the schema alone: enumerations and required fields.
//!
//! For kinds without their own rules. Metadata has its own rules, and the status is not validated.

use serde_json::Value;
use watchkeeper_meta::FieldErrors;
use watchkeeper_wire::schema::{Schema, Shape, TypeId};

use crate::rules::place::{Errors, Place};
use crate::rules::schema_plan::{self, Step};

/// The errors of an object by its schema.
pub(crate) fn errors(schema: &Schema, id: TypeId, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    check_object(schema, id, &Place::object(object), &mut errors);
    errors
}

fn check_object(schema: &Schema, id: TypeId, object: &Place<'_, '_>, errors: &mut Errors) {
    for step in schema_plan::of(schema, id) {
        if !matches!(step.name, "metadata" | "status") {
            let field = object.field(step.name);
            check_field(step, &field, errors);
            check_within(schema, step.shape, &field, errors);
        }
    }
}

fn check_field(step: &Step, field: &Place<'_, '_>, errors: &mut Errors) {
    let is_empty = field.text().is_empty() && field.len() == 0;
    if step.required && is_empty {
        errors.push(field.required(""));
    }
    let is_unknown = |text: &str| !text.is_empty() && !step.values.is_empty() && !step.values.contains(&text);
    if is_unknown(field.text()) {
        errors.push(field.unsupported(&step.values));
    }
    let items = field.items().filter(|item| is_unknown(item.text()));
    errors.extend(items.map(|item| item.unsupported(&step.values)));
}

fn check_within(schema: &Schema, shape: &Shape, place: &Place<'_, '_>, errors: &mut Errors) {
    match shape {
        Shape::Struct(id) if place.is_set() => check_object(schema, *id, place, errors),
        Shape::List(item) | Shape::ListMessage(item) => {
            for place in place.items() {
                check_within(schema, item, &place, errors);
            }
        }
        Shape::Map(item) => {
            for (_, place) in place.entries() {
                check_within(schema, item, &place, errors);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kind_version::KindVersion;

    use super::*;

    fn check(group: &str, kind: &str, object: Value, wanted: &[&str]) {
        let known = KindVersion::all();
        let definition = known
            .iter()
            .find(|known| known.resource.group == group && known.resource.kind == kind)
            .unwrap();
        let found = errors(&definition.schema, definition.type_id, &object);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted, "{kind}");
    }

    #[test]
    fn the_schema_rejects_unknown_enum_values_and_missing_fields() {
        check(
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "", "endpoints": [{"addresses": []}]}),
            &[
                "addressType: Required value",
                "endpoints[0].addresses: Required value",
            ],
        );
        check(
            "storage.k8s.io",
            "StorageClass",
            json!({"provisioner": "", "volumeBindingMode": "Later"}),
            &[
                "provisioner: Required value",
                r#"volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer""#,
            ],
        );
        check(
            "rbac.authorization.k8s.io",
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
            &["rules[0].verbs: Required value"],
        );
        check("", "ConfigMap", json!({"data": {"a": "b"}}), &[]);
    }

    #[test]
    fn metadata_and_status_are_not_validated_by_schema() {
        let node = json!({
            "metadata": {"managedFields": [{"operation": "Nope"}]},
            "status": {"phase": "Nope", "addresses": [{"type": "Nope", "address": ""}]},
        });
        check("", "Node", node, &[]);
    }
}
