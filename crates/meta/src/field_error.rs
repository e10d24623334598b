//! Validation errors: the field, the kind of error, the value and the reason.
//!
//! Validation functions report into [`FieldErrors`]; [`Status::invalid`](crate::Status::invalid) turns them
//! into the 422 a client sees. The texts are Kubernetes' own, because users and tools search for them.

mod collected;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use self::collected::{FieldErrors, MAX_FIELD_ERROR_BYTES, MAX_FIELD_ERRORS};
use crate::quote::{go_float, go_json, quote};

/// The path of a field in an object: `spec.containers[0].name`, `metadata.labels[a.b/c]`.
///
/// The default path names nothing and prints as `<nil>`, as Kubernetes prints a missing path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldPath(String);

/// One validation error.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The kind of error.
    pub kind: FieldErrorKind,
    /// The field.
    pub field: FieldPath,
    /// The value found there.
    pub value: BadValue,
    /// The reason, or the valid values; may be empty.
    pub detail: String,
}

/// The kinds of validation error, each with its `reason` in a cause and its phrase in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// Something referred to does not exist.
    NotFound,
    /// The field must be set.
    Required,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not one of an enumeration.
    NotSupported,
    /// The field may not be set in this situation, or not to this value.
    Forbidden,
    /// The value is too long; it is never repeated in the message.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// The value has the wrong type.
    TypeInvalid,
    /// The check itself failed.
    InternalError,
}

/// The invalid value, as the message shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// The message does not repeat the value.
    Omitted,
    /// Text is quoted, numbers and booleans are bare, everything else is JSON.
    Json(Value),
    /// Already printed, for values whose keys have a fixed order. Errors about the same value share the text.
    Printed(Arc<str>),
}

impl FieldPath {
    /// A field at the top of an object. An empty name prints as `[]`, as it does in Kubernetes.
    pub fn new(name: &str) -> Self {
        match name {
            "" => Self("[]".to_owned()),
            name => Self(name.to_owned()),
        }
    }

    /// A field of this field.
    pub fn child(&self, name: &str) -> Self {
        match self.0.as_str() {
            "" => Self(name.to_owned()),
            // Validation builds many paths that no error ever uses. Concatenating costs a tenth of formatting.
            path => Self([path, ".", name].concat()),
        }
    }

    /// An item of this list.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of this map, or the item of a list with that key.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The printed form.
    pub fn as_str(&self) -> &str {
        match self.0.as_str() {
            "" => "<nil>",
            path => path,
        }
    }
}

impl From<String> for FieldPath {
    fn from(path: String) -> Self {
        Self(path)
    }
}

impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FieldError {
    /// The field must be set; `detail` may be empty.
    pub fn required(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, BadValue::Omitted, detail)
    }

    /// The value is malformed or out of range.
    pub fn invalid(field: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(
            FieldErrorKind::Invalid,
            field,
            BadValue::Json(value.into()),
            detail,
        )
    }

    /// The value has the wrong type.
    pub fn type_invalid(field: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(
            FieldErrorKind::TypeInvalid,
            field,
            BadValue::Json(value.into()),
            detail,
        )
    }

    /// The value is not one of the supported ones, which the message lists in the given order.
    pub fn not_supported(field: &FieldPath, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        Self::new(
            FieldErrorKind::NotSupported,
            field,
            BadValue::Json(value.into()),
            detail,
        )
    }

    /// The field may not be set, or not like this.
    pub fn forbidden(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, BadValue::Omitted, detail)
    }

    /// The value occurs twice.
    pub fn duplicate(field: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, BadValue::Json(value.into()), "")
    }

    /// Nothing of that name exists.
    pub fn not_found(field: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, field, BadValue::Json(value.into()), "")
    }

    /// The value has more than `max` bytes.
    pub fn too_long(field: &FieldPath, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self::new(FieldErrorKind::TooLong, field, BadValue::Omitted, detail)
    }

    /// The list has `actual` items and may have `max`.
    pub fn too_many(field: &FieldPath, actual: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} {}", items(max));
        Self::new(
            FieldErrorKind::TooMany,
            field,
            BadValue::Json(actual.into()),
            detail,
        )
    }

    /// The list has `actual` items and must have `min`.
    pub fn too_few(field: &FieldPath, actual: usize, min: usize) -> Self {
        let detail = format!("must have at least {min} {}", items(min));
        Self::new(
            FieldErrorKind::TooFew,
            field,
            BadValue::Json(actual.into()),
            detail,
        )
    }

    /// The check itself failed.
    pub fn internal(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::InternalError, field, BadValue::Omitted, detail)
    }

    /// The message without the field, as a cause carries it.
    pub fn body(&self) -> String {
        let phrase = self.kind.phrase();
        let mut body = match self.shown_value() {
            Some(value) => format!("{phrase}: {value}"),
            None => phrase.to_owned(),
        };
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }

    fn new(kind: FieldErrorKind, field: &FieldPath, value: BadValue, detail: impl Into<String>) -> Self {
        Self {
            kind,
            field: field.clone(),
            value,
            detail: detail.into(),
        }
    }

    /// The value in its printed form, unless this kind of error never shows one.
    fn shown_value(&self) -> Option<Cow<'_, str>> {
        use FieldErrorKind::*;
        if matches!(self.kind, Required | Forbidden | TooLong | InternalError) {
            return None;
        }
        match &self.value {
            BadValue::Omitted => None,
            BadValue::Printed(text) => Some(Cow::Borrowed(text)),
            BadValue::Json(Value::String(text)) => Some(quote(text).into()),
            BadValue::Json(Value::Number(number)) if number.is_f64() => {
                Some(go_float(number.as_f64().unwrap_or_default()).into())
            }
            BadValue::Json(value) => Some(go_json(value).into()),
        }
    }
}

impl fmt::Display for FieldError {
    /// `spec.type: Unsupported value: "x": supported values: "a", "b"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

impl FieldErrorKind {
    /// The text in a cause's `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::InternalError => "InternalError",
        }
    }

    /// The phrase that begins the message.
    const fn phrase(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::InternalError => "Internal error",
        }
    }
}

/// All errors in one sentence. A single error stands alone, several stand in brackets, and equal messages are merged.
/// The sentence ends with the number of errors that were left out.
pub fn join_field_errors(errors: &FieldErrors) -> String {
    let mut seen = HashSet::new();
    let messages = errors.iter().map(FieldError::to_string);
    let messages = messages.filter(|message| seen.insert(message.clone()));
    let messages: Vec<String> = messages.chain(errors.remainder()).collect();
    match messages.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn items(count: usize) -> &'static str {
    if count == 1 { "item" } else { "items" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_kubernetes_own() {
        let spec = FieldPath::new("spec");
        let port = spec.child("ports").index(0).child("port");
        for (error, message) in [
            (
                FieldError::required(&spec.child("containers"), ""),
                "spec.containers: Required value",
            ),
            (
                FieldError::required(
                    &FieldPath::from("metadata.name"),
                    "name or generateName is required",
                ),
                "metadata.name: Required value: name or generateName is required",
            ),
            (
                FieldError::invalid(&port, 0, "must be between 1 and 65535, inclusive"),
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
            (
                FieldError::invalid(&spec, Value::Null, "no"),
                "spec: Invalid value: null: no",
            ),
            (
                FieldError::invalid(&spec, json!({"b": true, "a": "<"}), "no"),
                r#"spec: Invalid value: {"a":"\u003c","b":true}: no"#,
            ),
            (FieldError::invalid(&spec, 0.5, ""), "spec: Invalid value: 0.5"),
            (
                FieldError::not_supported(&spec.child("type"), "x", &["ClusterIP", "NodePort"]),
                r#"spec.type: Unsupported value: "x": supported values: "ClusterIP", "NodePort""#,
            ),
            (
                FieldError::not_supported(&FieldPath::new("dryRun"), vec!["Some"], &["All"]),
                r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#,
            ),
            (
                FieldError::duplicate(&spec.child("a"), "a"),
                r#"spec.a: Duplicate value: "a""#,
            ),
            (
                FieldError::not_found(&spec.child("v"), "v"),
                r#"spec.v: Not found: "v""#,
            ),
            (
                FieldError::too_long(&FieldPath::new(""), 1_048_576),
                "[]: Too long: may not be more than 1048576 bytes",
            ),
            (
                FieldError::too_many(&spec, 9, 8),
                "spec: Too many: 9: must have at most 8 items",
            ),
            (FieldError::forbidden(&spec, "no"), "spec: Forbidden: no"),
            (
                FieldError::internal(&FieldPath::default(), "lost"),
                "<nil>: Internal error: lost",
            ),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn paths_name_fields_items_and_entries() {
        let labels = FieldPath::new("metadata").child("labels");
        assert_eq!(labels.key("a.b/c").as_str(), "metadata.labels[a.b/c]");
        assert_eq!(
            FieldPath::default().child("values").index(0).key("a").as_str(),
            "values[0][a]"
        );
    }

    #[test]
    fn the_same_message_is_said_once() {
        let error = FieldError::forbidden(&FieldPath::new("a"), "no");
        assert_eq!(
            join_field_errors(&FieldErrors::from_iter([error.clone(), error.clone()])),
            "a: Forbidden: no"
        );
        let other = FieldError::forbidden(&FieldPath::new("b"), "no");
        assert_eq!(
            join_field_errors(&FieldErrors::from_iter([error, other])),
            "[a: Forbidden: no, b: Forbidden: no]"
        );
    }
}
