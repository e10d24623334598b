//! Kubernetes' protobuf encoding.

pub mod envelope;
pub mod frame;
pub mod header;
pub mod list;
pub mod managed_fields;
pub mod primitive;

pub use envelope::Envelope;
