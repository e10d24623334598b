//! A revisioned key-value store: one revision counter, compare-and-swap writes, history, and a gap-free feed.
//!
//! ```text
//! Store ─ create, update, delete ─▶ group commit ─▶ engine (memory, redb) ─▶ MVCC heart ─▶ feeds
//!                                 ─▶ etcd ─▶ its watch ────────────────────▶ MVCC heart ─▶ feeds
//!       ─ get, range ─────────────────────────────────────────────────────▶ MVCC heart
//! ```
//!
//! Keys are paths, values are bytes, and the store gives no meaning to either. It has what etcd has as far as an
//! API server uses it: every mutation takes the next [`Revision`], a write names the revision it replaces, readers
//! read at any retained revision, and a [`Feed`] delivers every [`Change`] after a revision in order, with the
//! value before it, or says that history was compacted. Nothing is ever skipped in silence.

mod clock;
mod engine;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod feed;
mod group_commit;
mod maintenance;
mod marks;
mod model;
mod mvcc;
mod range;
mod recovery;
mod retention;
mod revision;
mod scope;
mod signals;
mod snapshot;
mod state;
mod store;
mod transaction;

pub use error::{EngineError, OpenError, ReadError, WriteError};
#[cfg(feature = "etcd")]
pub use etcd::EtcdOptions;
pub use feed::{Batch, Feed, Signal};
pub use model::{Change, Key, KeyValue};
pub use range::{Range, RangeRequest};
pub use retention::Retention;
pub use revision::{ReadAt, Revision};
pub use scope::Scope;
pub use snapshot::Snapshot;
pub use store::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Store, StoreOptions};
