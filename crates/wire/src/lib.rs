//! Kubernetes objects as bytes: cutting them out of a stream, reading their headers and, on request, decoding them.
//!
//! This crate is pure: bytes in, bytes out. It knows neither HTTP nor storage.
//!
//! ```
//! use watchkeeper_wire::{Encoding, ListSplitter};
//!
//! // A list arrives in chunks that end anywhere.
//! let mut list = ListSplitter::new(Encoding::Json);
//! let mut items = Vec::new();
//! for mut chunk in [&br#"{"kind":"PodList","items":[{"metadata":{"na"#[..], br#"me":"web-0"}},{"metadata":{}}]}"#] {
//!     while let Some(item) = list.next(&mut chunk)? {
//!         items.push(item.to_vec());
//!     }
//! }
//! list.finish()?;
//! assert_eq!(items, [&br#"{"metadata":{"name":"web-0"}}"#[..], br#"{"metadata":{}}"#]);
//! # Ok::<(), watchkeeper_wire::WireError>(())
//! ```

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
