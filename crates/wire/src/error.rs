//! Errors of reading objects, in any encoding.

use watchkeeper_meta::ParseGroupVersionError;

use crate::json::JsonError;
use crate::limits::OBJECT_LIMIT;
use crate::protobuf::primitive::ProtobufError;

/// Bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Invalid JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Invalid protobuf.
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    /// A watch event of an unknown type. The stream can be read on.
    #[error("unknown watch event type {word:?}")]
    UnknownEvent {
        /// The event's `type`.
        word: String,
    },
    /// An object with an invalid `apiVersion`.
    #[error("invalid apiVersion")]
    ApiVersion(#[from] ParseGroupVersionError),
    /// An object larger than [`OBJECT_LIMIT`].
    #[error("an object of {bytes} bytes is larger than {OBJECT_LIMIT}")]
    ObjectTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// An object with a valid header that cannot be decoded into the requested type.
    #[error("cannot decode {kind} {key}: {reason}")]
    Decode {
        /// Its `apiVersion` and `kind`.
        kind: String,
        /// Its namespace and name.
        key: String,
        /// The reason.
        reason: String,
    },
}
