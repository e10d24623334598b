//! How much one stream may make us hold. Whatever is beyond these limits ends in a typed error.

/// Largest object, in any encoding: 32 MiB.
///
/// A server keeps at most a few MiB per object (etcd refuses more than 1.5 MiB unless told otherwise); JSON takes
/// two to three times the room of protobuf. What is larger is not an object but a mistake or an attack.
pub const OBJECT_LIMIT: usize = 32 << 20;

/// Most brackets an object may open within each other: 127, where `serde_json` stops too.
pub const NESTING_LIMIT: u32 = 127;

/// Largest part of a list that is not items: one key, or the list's own metadata. 1 MiB.
///
/// Continue tokens are the only part that can grow, and they name one key.
pub const LIST_HEAD_LIMIT: usize = 1 << 20;

/// Largest watch event: an object and the words around it.
pub const EVENT_LIMIT: usize = OBJECT_LIMIT + 1024;
