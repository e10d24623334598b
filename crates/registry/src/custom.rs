//! Custom kinds: serves stored CustomResourceDefinitions.
//!
//! ```text
//! CustomResourceDefinition ─▶ KindVersion::compile: one KindVersion per version, one schema for all of them
//!                          ─▶ settle:  names accepted, established, served; on deletion its objects first
//! ```

mod follow;
mod names;
mod settle;

pub(crate) use self::follow::{definition_feed, follow_definitions};
pub(crate) use self::settle::Settling;
