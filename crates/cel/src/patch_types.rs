//! The types used only in patches: `Object{…}` with its nested types, and `JSONPatch{…}`.
//!
//! `Object.spec` is the type of the field `spec`, whatever the object is: its fields are known only when the patch is
//! applied. Whether a value is in the field its type names is checked when it is converted to JSON
//! ([`Value::to_patch`](crate::Value::to_patch)).

use std::sync::Arc;

use crate::types::Type;

const OBJECT: &str = "Object";
const JSON_PATCH: &str = "JSONPatch";

/// The result type of an apply configuration.
pub fn object_type() -> Type {
    Type::Message(OBJECT.into())
}

/// The result type of a JSON patch.
pub fn json_patch_type() -> Type {
    Type::list(Type::Message(JSON_PATCH.into()))
}

/// The type of a name.
pub(crate) fn named(name: &str) -> Option<Type> {
    let is_object = name
        .strip_prefix(OBJECT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    (is_object || name == JSON_PATCH).then(|| Type::Message(Arc::from(name)))
}

/// The type of a field; `None` if there is no such field.
pub(crate) fn field(message: &str, field: &str) -> Option<Type> {
    match (message, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(Type::String),
        (JSON_PATCH, "value") => Some(Type::Dyn),
        (JSON_PATCH, _) => None,
        _ => Some(Type::Dyn),
    }
}
