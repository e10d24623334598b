//! What a patch does to an object.
//!
//! Four kinds of patch come in, each with the object it changes as a JSON value; the changed value goes out. This
//! crate is pure: it reads no store, and it does not decide whether the result is valid.

pub mod compare;
pub mod field_set;
pub mod json_patch;
pub mod merge_patch;
mod structure;
pub mod typed;
