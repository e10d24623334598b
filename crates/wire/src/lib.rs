//! Kubernetes objects as bytes: cutting them out of a stream, reading their headers and, on request, decoding them.
//!
//! This crate is pure: bytes in, bytes out. It knows neither HTTP nor storage.

pub mod canonical;
mod carry;
pub mod difference;
mod encoding;
mod error;
mod field_mask;
pub mod json;
mod kept;
pub mod limits;
pub mod list;
mod list_head;
mod object;
pub mod protobuf;
mod raw_object;
pub mod schema;
pub mod tree_size;
mod utf8;
pub mod values;
pub mod watch;
pub mod yaml;

pub use encoding::{Encoding, TextPairs};
pub use error::WireError;
pub use field_mask::{FieldMask, FieldMaskError, MOST_PATHS};
pub use list::ListSplitter;
pub use list_head::ListHead;
pub use object::{Object, ObjectOptions};
pub use raw_object::RawObject;
pub use watch::{RawEvent, WatchSplitter};
