//! Kubernetes' protobuf encoding.

pub mod primitive;
