//! What a patch does to an object.
//!
//! Four kinds of patch come in, each with the object it changes as a JSON value; the changed value goes out:
//! [`json_patch`], [`merge_patch`], [`strategic`] merge and [`apply`]. Every write, patch or not, is laid to a manager in
//! [`managed_fields`], with a view to the [`endpoint`] it came to. What a field is made of comes from the one schema in
//! `watchkeeper-wire`, so built-in and custom kinds share this code.
//!
//! What clients need to make a patch of three states of an object is in [`three_way`].
//!
//! This crate is pure: it reads no store, and it does not decide whether the result is valid.

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
