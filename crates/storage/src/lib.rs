//! A revisioned key-value store: one revision counter, compare-and-swap writes, history, and a gap-free feed.
//!
//! ```text
//! Store ─ create, update, delete ─▶ group commit ─▶ engine (memory, redb) ─▶ MVCC core ─▶ feeds
//!                                 ─▶ etcd ─▶ its watch ────────────────────▶ MVCC core ─▶ feeds
//!       ─ get, range ─────────────────────────────────────────────────────▶ MVCC core
//! ```
//!
//! Keys are paths, values are bytes; the store interprets neither. It has the features of etcd that an API server
//! uses: every mutation takes the next [`Revision`], a write names the revision it replaces, readers read at any
//! retained revision, and a [`Feed`] delivers every [`Change`] after a revision in order, with the previous value, or
//! reports that the history was compacted. Nothing is skipped silently.
//!
//! ```
//! use watchkeeper_storage::{Store, StoreOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::memory(StoreOptions::default());
//! let mut feed = store.watch("/maps/", store.current_revision())?;
//! let created = store.create("/maps/settings", "blue".into(), None).await?;
//! store.update("/maps/settings", "red".into(), created, None).await?;
//! assert!(store.update("/maps/settings", "grey".into(), created, None).await.is_err()); // another was faster
//!
//! let old = store.get("/maps/settings", Some(created)).await?;
//! assert_eq!(old.expect("it is retained").value.bytes(), "blue");
//! assert_eq!(feed.next().await?.changes.len(), 2);
//! # Ok(())
//! # }
//! ```

mod backup;
mod clock;
mod engine;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod feed;
mod group_commit;
mod import;
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
mod space;
mod state;
mod store;
mod transaction;
mod transform;
mod value;

pub use backup::{Backup, BackupError, BackupFile, BackupSummary};
pub use engine::redb::inspect::{Verified, back_up_directory, verify_directory};
pub use engine::redb::restore::{RestoreOptions, restore_directory};
pub use error::{EngineError, OpenError, ReadError, WriteError};
#[cfg(feature = "etcd")]
pub use etcd::EtcdOptions;
pub use feed::{Batch, Feed, Signal};
pub use model::{Change, ImportedChange, Key, KeyValue};
pub use mvcc::SharedPart;
pub use range::{Range, RangeRequest};
pub use retention::Retention;
pub use revision::{ReadAt, Revision};
pub use scope::Scope;
pub use snapshot::Snapshot;
pub use space::Usage;
pub use store::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Store, StoreOptions};
pub use transform::{ENCRYPTED, TransformError, Transformed, Transformer};
pub use value::{LateValue, Value};
