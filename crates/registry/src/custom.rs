//! Custom kinds: how stored definitions come to be served.
//!
//! ```text
//! CustomResourceDefinition ─▶ kinds::custom::compile: one KindVersion per version, one schema for all of them
//!                          ─▶ settle:  names accepted, established, served; on deletion its objects first
//! ```
//!
//! What differs from built-in kinds in storage is here: objects are stored as JSON ([`stored`]).

pub(crate) mod body;
mod settle;
pub(crate) mod stored;

pub(crate) use self::settle::{CustomKinds, FINALIZER, with_condition};
