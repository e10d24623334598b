//! Limits on the memory one stream may occupy. Exceeding one is a typed error.

/// The largest object, in any encoding.
///
/// A server keeps at most a few MiB per object (etcd refuses more than 1.5 MiB by default), and JSON is two to three
/// times as large as protobuf. Anything larger is a mistake or an attack.
pub const OBJECT_LIMIT: usize = 32 << 20;

/// The deepest nesting of an object, the same as in `serde_json`.
pub const NESTING_LIMIT: u32 = 127;

/// The largest part of a list outside its items: one key, or the list's metadata.
///
/// Continue tokens are the only part that can grow, and they name one key.
pub const LIST_HEAD_LIMIT: usize = 1 << 20;

/// The largest watch event: an object and its envelope.
pub const EVENT_LIMIT: usize = OBJECT_LIMIT + 1024;
