//! The body of a custom object's write. It must state `apiVersion` and `kind`: there is no Go struct to infer them
//! from.

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, Status};

use crate::definition::Definition;

/// Rejects a body whose `apiVersion` or `kind` is missing or is not the resource's. The caller words
/// [`IdentityError::Unrecognized`].
pub(crate) fn check_identity(
    definition: &Definition,
    value: &Value,
    shown: &str,
) -> Result<(), IdentityError> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if kind.is_empty() {
        return Err(IdentityError::Unrecognized(format!(
            "Object 'Kind' is missing in '{shown}'"
        )));
    }
    if api_version.is_empty() {
        return Err(IdentityError::Unrecognized(format!(
            "Object 'apiVersion' is missing in '{shown}'"
        )));
    }
    if api_version != definition.api_version {
        return Err(IdentityError::Status(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            definition.api_version
        ))));
    }
    if kind != definition.resource.kind {
        return Err(IdentityError::Status(wrong_kind(definition, value, kind)));
    }
    Ok(())
}

/// The reason a body is rejected.
pub(crate) enum IdentityError {
    /// It does not state its type.
    Unrecognized(String),
    /// It states another type.
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
