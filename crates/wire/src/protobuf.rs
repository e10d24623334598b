//! Kubernetes' protobuf encoding: bodies, lists and watch frames as bytes, and messages over the schema.

mod de;
mod encode;
pub mod envelope;
mod fields;
pub mod frame;
pub mod header;
pub mod list;
pub mod managed_fields;
mod message;
pub mod primitive;
mod reorder;
pub mod resource_version;
mod ser;
mod special;
mod text;
mod time;
mod tree;

pub(crate) use encode::LazyZeros;
pub use encode::{EncodeError, encode_body, encode_message};
pub use envelope::Envelope;
pub use message::Message;
pub use ser::encode_as;
pub(crate) use special::whole;

#[cfg(test)]
mod tests;
