//! Kubernetes objects as bytes: what is needed to cut them out of a stream, name them and, on request, decode them.
//!
//! This crate is pure: bytes in, bytes out. It knows neither HTTP nor storage.

pub mod protobuf;
pub mod schema;
