//! The errors of a store, one enum per kind of call.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Key, KeyValue, Revision};

/// The error of a read or a feed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The needed history was compacted. Read the current state and continue from its revision.
    #[error(
        "revision {requested} has been compacted: history starts at {compacted}, the store is at {current}"
    )]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can be read.
        compacted: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The revision does not exist yet.
    #[error("revision {requested} is in the future: the store is at {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The latest revision is unknown, because etcd cannot be reached.
    #[error("cannot determine the latest revision: {why}")]
    Unavailable {
        /// The cause.
        why: String,
    },
    /// The value is encrypted, and no configured key decrypts it. Kubernetes' text.
    #[error("unable to transform key {key:?}: {why}")]
    Undecryptable {
        /// The key of the value.
        key: Key,
        /// The cause.
        why: Arc<str>,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl ReadError {
    /// True if the reader must start over from the current state.
    pub fn is_compacted(&self) -> bool {
        matches!(self, Self::Compacted { .. })
    }
}

/// The error of a write.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The key is not at the expected revision.
    #[error("conflict: {}", describe(.current))]
    Conflict {
        /// The current value of the key; `None` if it does not exist.
        current: Option<KeyValue>,
    },
    /// The value exceeds the limit.
    #[error("value of {size} bytes exceeds the limit of {limit}")]
    ValueTooLarge {
        /// Bytes of the value.
        size: usize,
        /// The store's limit.
        limit: usize,
    },
    /// The key is empty or longer than [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES).
    #[error("a key has 1 to {limit} bytes, not {size}")]
    KeyLength {
        /// Bytes of the key.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A compaction names a revision that does not exist yet.
    #[error("revision {requested} is in the future: the store is at {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The quota is reached, or the disk is full. Deletes are still accepted, and free space.
    #[error("no space left for the write")]
    NoSpace,
    /// An imported change is not newer than the store.
    #[error("revision {requested} is in the past: the store is at {current}")]
    Past {
        /// The revision of the change to import.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// Only an in-memory store accepts imported revisions.
    #[error("a history can be imported into a store in memory only")]
    NotInMemory,
    /// The writer's [`Scope`](crate::Scope) is read-only.
    #[error("the store is read-only")]
    ReadOnly,
    /// The engine could not make the write durable. It is not visible. If an fsync failed, it may appear after a
    /// restart, as a whole.
    #[error("the write could not be made durable")]
    Engine(#[source] EngineError),
    /// The write was sent to etcd, and the answer was lost. It may have been applied, or may still be; read the key to
    /// find out.
    #[error("the outcome of the write is unknown")]
    Unknown(#[source] EngineError),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl WriteError {
    /// True if another writer was faster; read again and retry.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

fn describe(current: &Option<KeyValue>) -> String {
    match current {
        None => "the key does not exist".to_owned(),
        Some(found) => format!("the key is at revision {}", found.mod_revision),
    }
}

/// The error of opening a durable store. No file was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another store of this one, has it open.
    #[error("{} is in use", path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// The directory contains no store.
    #[error("there is no store in {}", path.display())]
    Missing {
        /// The data directory.
        path: PathBuf,
    },
    /// The data file belongs to another program.
    #[error("{} is not a watchkeeper store", path.display())]
    Foreign {
        /// The data file.
        path: PathBuf,
    },
    /// The data file was written by a later version of this program.
    #[error("{} has format {found}, newer than {supported}", path.display())]
    Newer {
        /// The data file.
        path: PathBuf,
        /// The format it has.
        found: u64,
        /// The newest format that can be read.
        supported: u64,
    },
    /// The data file is modified, truncated or incomplete.
    #[error("{} is damaged: {detail}", path.display())]
    Damaged {
        /// The data file.
        path: PathBuf,
        /// The damage found.
        detail: String,
    },
    /// A file system operation failed.
    #[error("could not {step} {}", path.display())]
    Io {
        /// The operation.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// etcd is unreachable or refuses access, or an option is invalid.
    #[error("cannot use etcd: {0}")]
    Etcd(String),
    /// The runtime was shut down.
    #[error("opening the store was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl OpenError {
    pub(crate) fn damaged(path: &Path, detail: impl fmt::Display) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            detail: detail.to_string(),
        }
    }

    /// Advice for the user. No file was changed.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::InUse { .. } => {
                "another server or command is using it: stop that one, or name another directory"
            }
            Self::Missing { .. } => "name the directory that a server was started with",
            Self::Foreign { .. } => "name another directory, or move the file away",
            Self::Newer { .. } => {
                "use a program that is at least as new as the one that wrote it, or restore a backup of an earlier time"
            }
            Self::Damaged { .. } => {
                "nothing was changed: keep a copy of the directory, and restore the last backup into a new one"
            }
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "check the owner of the directory and the user who runs this program"
                }
                kind if is_no_space(kind) => "free disk space, and try again",
                _ => "check the path and the disk",
            },
            Self::Etcd(_) => "check that etcd is running, and that addresses and certificates are correct",
            Self::Interrupted(_) => "try again",
        }
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn etcd(why: impl ToString) -> Self {
        Self::Etcd(why.to_string())
    }
}

/// True if the disk, or the user's disk quota, is full.
fn is_no_space(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

/// The error of an engine. All writers of a commit share it.
#[derive(Clone)]
pub struct EngineError(Arc<dyn Error + Send + Sync>);

impl EngineError {
    pub(crate) fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(source.into()))
    }

    /// True if the disk was full.
    pub(crate) fn is_no_space(&self) -> bool {
        match self.0.downcast_ref::<redb::Error>() {
            Some(redb::Error::Io(error)) => is_no_space(error.kind()),
            _ => false,
        }
    }
}

impl fmt::Debug for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
