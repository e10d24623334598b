//! What can be wrong with bytes, whatever their encoding.

use crate::json::JsonError;
use crate::protobuf::primitive::ProtobufError;

/// Bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// They are not the JSON they should be.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// They are not the protobuf they should be.
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    /// A watch event of a kind this version does not know. The stream goes on behind it.
    #[error("unknown watch event type {word:?}")]
    UnknownEvent {
        /// The word in its `type`.
        word: String,
    },
}
