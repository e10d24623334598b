//! What can be wrong with bytes, whatever their encoding.

use watchkeeper_meta::ParseGroupVersionError;

use crate::json::JsonError;
use crate::limits::OBJECT_LIMIT;
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
    /// An object whose `apiVersion` is none.
    #[error("invalid apiVersion")]
    ApiVersion(#[from] ParseGroupVersionError),
    /// An object beyond [`OBJECT_LIMIT`].
    #[error("an object of {bytes} bytes is larger than {OBJECT_LIMIT}")]
    ObjectTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// An object whose header could be read, but whose rest is not what was asked for.
    #[error("cannot decode {kind} {key}: {reason}")]
    Decode {
        /// Its `apiVersion` and `kind`.
        kind: String,
        /// Its namespace and name.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}
