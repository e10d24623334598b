//! `metadata.ownerReferences`: the owners of an object.

use std::cell::LazyCell;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field_error::{BadValue, FieldError, FieldErrors, FieldPath};
use crate::{GroupVersionKind, field_error::FieldErrorKind};

/// Validates owner references: each names one object, and at most one is the controller.
pub fn owner_references(references: &Value, path: &FieldPath) -> FieldErrors {
    let Ok(references) = Vec::<Reference>::deserialize(references) else {
        // Missing, or already refused when the object was decoded.
        return FieldErrors::new();
    };
    let mut errors = FieldErrors::new();
    let mut controller: Option<String> = None;
    let shown = LazyCell::new(|| print(&references));
    for (index, reference) in references.iter().enumerate() {
        reference.check(&path.index(index), &mut errors);
        if reference.controller != Some(true) {
            continue;
        }
        let this = format!("{}/{}", reference.kind, reference.name);
        match &controller {
            None => controller = Some(this),
            // Each of these errors shows the whole list; they share its text.
            Some(first) => errors.push_with(|| {
                let why = format!(
                    r#"Only one reference can have Controller set to true. Found "true" in references for {first} and {this}"#
                );
                printed(path, shown.clone(), why)
            }),
        }
    }
    errors
}

/// One reference, with its fields in the order in which Kubernetes prints them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl Reference {
    fn check(&self, path: &FieldPath, errors: &mut FieldErrors) {
        let kind = GroupVersionKind::from_api_version(&self.api_version, &self.kind).unwrap_or_default();
        let demanded = [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("name", &self.name),
            ("uid", &self.uid),
        ];
        for (field, value) in demanded {
            if value.is_empty() {
                errors.push(FieldError::required(&path.child(field), "must not be empty"));
            } else if field == "apiVersion" && kind.version.is_empty() {
                let why = "version must not be empty";
                errors.push(FieldError::invalid(&path.child(field), value.as_str(), why));
            }
        }
        // Kubernetes forbids events as owners.
        if kind == GroupVersionKind::new("", "v1", "Event") {
            let why = format!("{kind} is disallowed from being an owner");
            errors.push(printed(path, print(self), why));
        }
    }
}

fn printed(path: &FieldPath, shown: Arc<str>, detail: String) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Invalid,
        field: path.clone(),
        value: BadValue::Printed(shown),
        detail,
    }
}

fn print(value: &impl Serialize) -> Arc<str> {
    serde_json::to_string(value).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(references: Value, errors: &[&str]) {
        let found = owner_references(&references, &FieldPath::from("metadata.ownerReferences"));
        assert_eq!(
            found.iter().map(FieldError::to_string).collect::<Vec<_>>(),
            errors
        );
    }

    #[test]
    fn owners_are_named_in_full() {
        check(Value::Null, &[]);
        check(
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]),
            &[],
        );
        check(
            json!([{"apiVersion": "a/b/c", "name": "x"}]),
            &[
                r#"metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": version must not be empty"#,
                "metadata.ownerReferences[0].kind: Required value: must not be empty",
                "metadata.ownerReferences[0].uid: Required value: must not be empty",
            ],
        );
    }

    #[test]
    fn many_controllers_share_one_text() {
        let owner = |index: usize| {
            let name = format!("owner-{index}");
            json!({"apiVersion": "v1", "kind": "A", "name": name, "uid": name, "controller": true})
        };
        let references: Value = (0..10_000).map(owner).collect();
        let found = owner_references(&references, &FieldPath::from("metadata.ownerReferences"));
        assert_eq!(found.len() + found.left_out(), 9_999);
        let texts: usize = found.iter().map(|error| error.to_string().len()).sum();
        assert!(texts < 2 << 20, "{texts} bytes");
    }

    #[test]
    fn one_owner_is_the_controller_and_events_own_nothing() {
        check(
            json!([
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true, "blockOwnerDeletion": false},
            ]),
            &[
                r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"A","name":"a","uid":"1","controller":true},{"apiVersion":"v1","kind":"B","name":"b","uid":"2","controller":true,"blockOwnerDeletion":false}]: Only one reference can have Controller set to true. Found "true" in references for A/a and B/b"#,
            ],
        );
        check(
            json!([{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}]),
            &[
                r#"metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"1"}: /v1, Kind=Event is disallowed from being an owner"#,
            ],
        );
    }
}
