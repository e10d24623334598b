//! The body of a write of a custom object. It must say what it is; Kubernetes has no struct to guess by.

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, Status};

use crate::definition::Definition;

/// Refuses a body that does not say that it is an object of this resource. `Err` of the first kind is what was not
/// recognized, for the caller to put into words.
pub(crate) fn check_identity(definition: &Definition, value: &Value, shown: &str) -> Result<(), Refusal> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if kind.is_empty() {
        return Err(Refusal::Unrecognized(format!(
            "Object 'Kind' is missing in '{shown}'"
        )));
    }
    if api_version.is_empty() {
        return Err(Refusal::Unrecognized(format!(
            "Object 'apiVersion' is missing in '{shown}'"
        )));
    }
    if api_version != definition.api_version {
        return Err(Refusal::Status(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            definition.api_version
        ))));
    }
    if kind != definition.resource.kind {
        return Err(Refusal::Status(wrong_kind(definition, value, kind)));
    }
    Ok(())
}

/// Why a body is not read.
pub(crate) enum Refusal {
    /// It does not say what it is.
    Unrecognized(String),
    /// It is something else.
    Status(Status),
}

fn wrong_kind(definition: &Definition, value: &Value, kind: &str) -> Status {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let why = format!("must be {}", definition.resource.kind);
    let error = FieldError::invalid(&FieldPath::new("kind"), kind, why);
    let stated = GroupKind {
        group: definition.resource.group.clone(),
        kind: kind.to_owned().into(),
    };
    Status::invalid(&stated, name, &error.into())
}
