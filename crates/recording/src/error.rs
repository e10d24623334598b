//! Why a recording cannot be read or written.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot be read or written. Everything before the failure stays readable.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be opened or read.
    #[error("cannot read recording {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written: the disk is full, say. What was flushed before is kept.
    #[error("cannot write recording {}; everything flushed before is kept", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a recording", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// The file was written by a later version of this program.
    #[error("{} has format {found}; this program reads format {supported}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// The format it has.
        found: String,
        /// The format this program knows.
        supported: u32,
    },
    /// A part of the file is not what was written.
    #[error("recording {} is damaged at byte {at}: {reason}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where the damage begins.
        at: u64,
        /// What is wrong there.
        reason: String,
    },
    /// Another process records into the file.
    #[error("recording {} is in use by another process", path.display())]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// The file is about another cluster.
    #[error("{} records another cluster ({theirs}, this one is {ours}); name another file", path.display())]
    OtherCluster {
        /// Which file.
        path: PathBuf,
        /// The cluster in the file.
        theirs: String,
        /// The cluster that was to be recorded.
        ours: String,
    },
    /// The recording does not reach so far.
    #[error("{asked} is outside the recording, which reaches from {from} to {to}")]
    Outside {
        /// The moment that was asked for.
        asked: String,
        /// Where the recording begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// The recording holds nothing.
    #[error("recording {} has no entries yet", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// An object cannot be read.
    #[error("an object of {resource} cannot be read")]
    Object {
        /// Of which resource.
        resource: String,
        /// What is wrong with it.
        source: watchkeeper_wire::WireError,
    },
}
