//! What can go wrong, one enum per kind of call.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Key, KeyValue, Revision};

/// Why a read or a feed has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The history that the answer needs is gone. Read the current state and go on from its revision.
    #[error(
        "revision {requested} has been compacted: history starts at {compacted}, the store is at {current}"
    )]
    Compacted {
        /// What the reader asked for.
        requested: Revision,
        /// The oldest revision that can be read.
        compacted: Revision,
        /// The newest.
        current: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future: the store is at {current}")]
    Future {
        /// What the reader asked for.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The latest state was asked for, and etcd cannot be asked what that is.
    #[error("the latest state is not known: {why}")]
    Unavailable {
        /// What went wrong.
        why: String,
    },
    /// The value is encrypted, and none of the keys that are known opens it. In Kubernetes' words.
    #[error("unable to transform key {key:?}: {why}")]
    Undecryptable {
        /// The key whose value it is.
        key: Key,
        /// What is missing.
        why: Arc<str>,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl ReadError {
    /// Whether the reader must start over from the current state.
    pub fn is_compacted(&self) -> bool {
        matches!(self, Self::Compacted { .. })
    }
}

/// Why a write did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The key is not at the expected revision.
    #[error("conflict: {}", describe(.current))]
    Conflict {
        /// What the key holds now; `None` if it does not exist.
        current: Option<KeyValue>,
    },
    /// The value is larger than the store accepts.
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
    /// Only what has happened can be compacted.
    #[error("revision {requested} is in the future: the store is at {current}")]
    Future {
        /// What the caller asked for.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The store is as large as its quota allows, or the disk is full. Deletes may still be done, and make room.
    #[error("there is no room for the write")]
    NoSpace,
    /// A history is imported forwards only, and somebody has written meanwhile.
    #[error("revision {requested} is in the past: the store is at {current}")]
    Past {
        /// The revision of the change to import.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// Only a store in memory takes a history with revisions of its own.
    #[error("a history can be imported into a store in memory only")]
    NotInMemory,
    /// The writer's [`Scope`](crate::Scope) lets it write nothing.
    #[error("the store is read-only")]
    ReadOnly,
    /// The engine could not make the write durable. It is not visible now; if the disk failed while it was being
    /// synchronised, it may be found whole after a restart.
    #[error("the write could not be made durable")]
    Engine(#[source] EngineError),
    /// The write was sent to etcd, and the answer was lost. It may have happened, or happen yet; whoever wants to know
    /// reads the key.
    #[error("it is not known whether the write has happened")]
    Unknown(#[source] EngineError),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl WriteError {
    /// Whether another writer was faster, so that reading again and retrying makes sense.
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

/// Why a durable store could not be opened. The files are left as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another store of this one, has it open.
    #[error("{} is in use", path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// There is no store to look at.
    #[error("there is no store in {}", path.display())]
    Missing {
        /// The data directory.
        path: PathBuf,
    },
    /// The data file was written by something else.
    #[error("{} is not a watchkeeper store", path.display())]
    Foreign {
        /// The data file.
        path: PathBuf,
    },
    /// The data file was written by a later version of this crate.
    #[error("{} has format {found}, newer than {supported}", path.display())]
    Newer {
        /// The data file.
        path: PathBuf,
        /// The format it has.
        found: u64,
        /// The newest format that can be read.
        supported: u64,
    },
    /// The data file has been changed, cut short or lost in parts.
    #[error("{} is damaged: {detail}", path.display())]
    Damaged {
        /// The data file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The file system refused something.
    #[error("could not {step} {}", path.display())]
    Io {
        /// What was being done.
        step: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// etcd cannot be reached or does not want us, or an option is wrong.
    #[error("cannot use etcd: {0}")]
    Etcd(String),
    /// The runtime was shut down meanwhile.
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

    /// What to do next, for people. No file was changed.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::InUse { .. } => {
                "another server, or another command, works on it: stop that one, or name another directory"
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
                io::ErrorKind::PermissionDenied => "see who owns the directory, and who runs this program",
                kind if is_no_space(kind) => "make room on the disk, and try again",
                _ => "see that the path is right, and that the disk works",
            },
            Self::Etcd(_) => "see that etcd runs, and that addresses and certificates are right",
            Self::Interrupted(_) => "try again",
        }
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn etcd(why: impl ToString) -> Self {
        Self::Etcd(why.to_string())
    }
}

/// Whether an IO error says that the disk, or the user's share of it, is full.
fn is_no_space(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

/// What an engine says when a disk fails it. All writers that shared the commit get the same one.
#[derive(Clone)]
pub struct EngineError(Arc<dyn Error + Send + Sync>);

impl EngineError {
    pub(crate) fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(source.into()))
    }

    /// Whether there was no room on the disk.
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
