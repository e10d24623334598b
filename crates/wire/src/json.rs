//! Kubernetes' JSON encoding: cutting objects out of lists and watch streams, and reading their headers.
//!
//! [`list::ListSplitter`] and [`watch::LineSplitter`] take a body in chunks of any size and return objects as slices.
//! [`mod@header`] reads identity, labels and owners from such a slice. None of them builds a tree. In what they skip,
//! only brackets and quotes are followed; invalid JSON there is found when the object is decoded. Decoding happens on
//! demand, by a fast deserializer for the JSON servers write, with `serde_json` for the rest.

pub(crate) mod de;
mod error;
pub mod header;
pub mod list;
pub mod managed_fields;
mod outline;
mod reader;
pub mod resource_version;
mod scan;
pub(crate) mod strings;
mod tree;
pub(crate) mod typed;
pub mod watch;

pub use error::{JsonError, JsonErrorKind};
pub(crate) use header::item_identity;
pub use header::{annotations, header, item_header, labels};
pub(crate) use outline::Outline;
pub(crate) use reader::Reader;
