//! The canonical form of an object: a client's JSON body in, the object exactly as a Go server prints it out, with
//! the dropped fields listed.
//!
//! Go decodes a body into structs and prints the structs again. This module has the same effect:
//!
//! ```text
//! {"apiVersion":"v1","kind":"Service","metadata":{"name":"a","nope":1},
//!  "spec":{"ports":[{"port":80}],"externalName":""}}
//! ⇒ unknown field "metadata.nope"
//! ⇒ {"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},
//!    "spec":{"ports":[{"port":80,"targetPort":0}]},"status":{"loadBalancer":{}}}
//! ```
//!
//! Unknown fields are dropped. Nulls become zero values. Zero values are omitted for `omitempty` fields and shown for
//! others. Quantities, times and bytes take their canonical form. A value of the wrong type is an error with Go's
//! text. Nothing is defaulted or validated.
//!
//! A custom object is not decoded into structs: unknown fields are pruned, its metadata is treated as a struct, and
//! everything else stays as sent (see `prune`).

mod base64;
mod body;
mod go_type;
mod prune;
mod strict;
mod syntax;
mod walk;

pub use body::{Body, BodyError, read_body, read_body_into_one};
pub use strict::strict_errors;
pub use syntax::message as syntax_complaint;

use std::fmt;

use serde_json::Value;

use crate::difference::Difference;
use crate::schema::{Schema, TypeId};

/// The largest number of strict errors reported for one body, as in Go.
pub const STRICT_LIMIT: usize = 100;

/// An object in canonical form.
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    /// The object.
    pub value: Value,
    /// Fields that were dropped because the kind does not have them, at most [`STRICT_LIMIT`]. Errors within an
    /// object come before the object's own, Go's order when it converts a map into structs. When Go decodes a body,
    /// the order is that of [`strict_errors`].
    pub unknown: Vec<StrictError>,
    /// JSON pointers to empty maps that were omitted, at most [`STRICT_LIMIT`]. Go distinguishes an empty map from a
    /// missing one, and so do its messages.
    pub emptied: Vec<String>,
}

/// An error in strict field validation, a warning otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictError {
    /// A field the kind does not have.
    Unknown {
        /// `spec.ports[0].nope`.
        path: String,
    },
    /// A key that occurs twice in one object; the last one counts.
    Duplicate {
        /// `spec.replicas`.
        path: String,
    },
}

impl StrictError {
    /// The path of the field.
    pub fn path(&self) -> &str {
        match self {
            Self::Unknown { path } | Self::Duplicate { path } => path,
        }
    }
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { path } => write!(f, "unknown field {path:?}"),
            Self::Duplicate { path } => write!(f, "duplicate field {path:?}"),
        }
    }
}

/// A value of the wrong type for its field, with Go's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    /// Go's text when decoding JSON.
    pub message: String,
    /// Go's text when converting a map into structs, as with the result of a strategic merge patch, if that differs.
    pub conversion: Option<String>,
}

impl TypeError {
    fn new(message: String) -> Self {
        Self {
            message,
            conversion: None,
        }
    }

    /// Go's text when converting a map into structs.
    pub fn into_conversion(self) -> String {
        self.conversion.unwrap_or(self.message)
    }
}

/// Brings an object into canonical form.
///
/// ```
/// use serde_json::json;
/// use watchkeeper_wire::canonical::canonicalize;
/// use watchkeeper_wire::schema::Schema;
///
/// let schema = Schema::builtin();
/// let id = schema.kind("v1", "ConfigMap").unwrap();
/// let read = canonicalize(schema, id, json!({"data": {"k": null}, "nope": 1})).unwrap();
/// assert_eq!(read.value, json!({"metadata": {}, "data": {"k": ""}}));
/// assert_eq!(read.unknown[0].to_string(), r#"unknown field "nope""#);
/// ```
pub fn canonicalize(schema: &Schema, id: TypeId, value: Value) -> Result<Canonical, TypeError> {
    walk::canonicalize(schema, id, value, &Difference::Everywhere)
}

/// Like [`canonicalize`], for an object that differs only by `difference` from one in canonical form. Unchanged parts
/// are not visited.
pub fn canonicalize_changed(
    schema: &Schema,
    id: TypeId,
    value: Value,
    difference: &Difference,
) -> Result<Canonical, TypeError> {
    walk::canonicalize(schema, id, value, difference)
}

/// The name of a JSON value's type in Go's error texts.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(crate) use walk::quantity_text;

#[cfg(test)]
mod tests;
