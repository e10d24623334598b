//! What a Go server makes of the JSON body of a built-in kind: in flows what a client sent, out flows the object
//! exactly as the server prints it, with everything that was dropped named.
//!
//! Go reads a body into structs and prints the structs again. What this does to a body, and what is done here:
//!
//! ```text
//! {"apiVersion":"v1","kind":"Service","metadata":{"name":"a","nope":1},
//!  "spec":{"ports":[{"port":80}],"externalName":""}}
//! ⇒ unknown field "metadata.nope"
//! ⇒ {"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},
//!    "spec":{"ports":[{"port":80,"targetPort":0}]},"status":{"loadBalancer":{}}}
//! ```
//!
//! Unknown fields go; nulls become zero values; zero values are left out where `omitempty` says so and shown
//! where it does not; quantities, times and bytes take their canonical form. A value of the wrong type is an
//! error in Go's words. Nothing is defaulted and nothing is validated.
//!
//! A custom object is not read into structs: its unknown fields are pruned, its metadata is a struct, and everything
//! else stays as it was sent (see `prune`).

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

/// Most complaints about one body; Go stops there too.
pub const STRICT_LIMIT: usize = 100;

/// An object as the server prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    /// The object.
    pub value: Value,
    /// Fields that were dropped because the kind does not have them, at most [`STRICT_LIMIT`]: in each object those
    /// within it before its own, which is the order of Go where it turns a map into structs. Where it reads a body,
    /// the order is that of [`strict_errors`].
    pub unknown: Vec<StrictError>,
    /// Where maps stood that were empty and are left out, as JSON pointers, at most [`STRICT_LIMIT`]. Go knows them from
    /// maps that were not there, and so do texts about the object.
    pub emptied: Vec<String>,
}

/// Something that strict reading refuses and lenient reading warns about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictError {
    /// A field that the kind does not have.
    Unknown {
        /// `spec.ports[0].nope`.
        path: String,
    },
    /// A key that stands twice in one object; the last one counts.
    Duplicate {
        /// `spec.replicas`.
        path: String,
    },
}

impl StrictError {
    /// Which field it is about.
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

/// A value that Go cannot read into the field it is meant for; the text is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    /// What Go says of JSON that it cannot read.
    pub message: String,
    /// What Go says of a map that it cannot turn into structs, as it does with a strategic patch's result, if that
    /// differs.
    pub conversion: Option<String>,
}

impl TypeError {
    fn new(message: String) -> Self {
        Self {
            message,
            conversion: None,
        }
    }

    /// What Go says of a map that it cannot turn into structs.
    pub fn into_conversion(self) -> String {
        self.conversion.unwrap_or(self.message)
    }
}

/// Brings an object into the form in which the server prints it.
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

/// As [`canonicalize`], for an object that differs in this from one that is in that form already: the rest is not
/// looked at again.
pub fn canonicalize_changed(
    schema: &Schema,
    id: TypeId,
    value: Value,
    difference: &Difference,
) -> Result<Canonical, TypeError> {
    walk::canonicalize(schema, id, value, difference)
}

/// What error texts call the type of a JSON value.
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
