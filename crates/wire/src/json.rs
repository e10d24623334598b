//! Kubernetes' JSON encoding: cutting objects out of lists and watch streams, and reading their headers.
//!
//! [`list::ListSplitter`] and [`watch::LineSplitter`] take a body in chunks of any size and yield objects as slices;
//! [`mod@header`] reads identity, labels and owners from such a slice; none of them builds a tree, and what they pass
//! over is only followed as far as brackets and quotes go: whether it is proper JSON shows when it is decoded. That is
//! done when someone asks, by a reader for what servers write and, where that is at a loss, by `serde_json`.

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
