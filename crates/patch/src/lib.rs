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
