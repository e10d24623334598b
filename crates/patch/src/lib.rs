//! Patches of objects.
//!
//! There are four kinds of patch: [`json_patch`], [`merge_patch`], [`strategic`] merge and [`apply`]. Each takes a
//! JSON value and returns the changed value. Every write, patch or not, is recorded for its manager in
//! [`managed_fields`], according to the [`endpoint`] that received it. The types of fields come from the schema in
//! `watchkeeper-wire`, so built-in and custom kinds share this code.
//!
//! [`three_way`] computes the patches that clients send, from three states of an object.
//!
//! This crate is pure: it reads no store, and it does not validate the result.
//!
//! ```
//! use serde_json::{Value, json};
//! use watchkeeper_patch::{merge_patch, strategic};
//! use watchkeeper_wire::schema::Schema;
//!
//! let pod = || json!({"spec": {"containers": [{"name": "web", "image": "web:1"}, {"name": "proxy"}]}});
//! let patch = json!({"spec": {"containers": [{"name": "web", "image": "web:2"}]}});
//!
//! // A merge patch replaces the list. A strategic one finds the container by its name.
//! let mut replaced = pod();
//! merge_patch::apply(&mut replaced, &patch);
//! assert_eq!(replaced, patch);
//!
//! let (Value::Object(mut merged), Value::Object(patch)) = (pod(), patch) else { unreachable!() };
//! let schema = Schema::builtin();
//! strategic::apply(schema, schema.kind("v1", "Pod").unwrap(), &mut merged, patch)?;
//! assert_eq!(merged["spec"]["containers"], json!([{"name": "web", "image": "web:2"}, {"name": "proxy"}]));
//! # Ok::<(), strategic::StrategicError>(())
//! ```

pub mod apply;
pub mod compare;
pub mod configuration;
pub mod endpoint;
pub mod field_set;
pub mod go_text;
pub mod json_patch;
pub mod last_applied;
pub mod managed_fields;
pub mod merge_patch;
pub mod quoted;
pub mod strategic;
mod structure;
pub mod three_way;
pub mod typed;
