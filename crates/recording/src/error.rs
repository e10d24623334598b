//! The errors of reading and writing a recording.

use std::io;
use std::path::PathBuf;

/// An error of reading or writing a recording. Everything before the failure stays readable.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be opened or read.
    #[error("cannot read recording {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be written, for example because the disk is full. Flushed data stay.
    #[error("cannot write recording {}; everything flushed before is kept", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a recording.
    #[error("{} is not a recording", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a later version of this program.
    #[error("{} has format {found}; this program reads format {supported}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: String,
        /// The supported format.
        supported: u32,
    },
    /// The file is damaged.
    #[error("recording {} is damaged at byte {at}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position of the damage.
        at: u64,
        /// The damage found.
        reason: String,
    },
    /// Another process records into the file.
    #[error("recording {} is in use by another process", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file has a recording of another cluster.
    #[error("{} records another cluster ({theirs}, this one is {ours}); name another file", path.display())]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// The cluster in the file.
        theirs: String,
        /// The cluster to be recorded.
        ours: String,
    },
    /// The moment is before the recording.
    #[error("{asked} is before the recording, which is complete from version {from} on")]
    TooEarly {
        /// The requested moment.
        asked: String,
        /// The version from which the recording is complete.
        from: u64,
    },
    /// The recording is empty.
    #[error("recording {} has no entries yet", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An object cannot be decoded.
    #[error("an object of {resource} cannot be read")]
    Object {
        /// The resource.
        resource: String,
        /// The cause.
        source: watchkeeper_wire::WireError,
    },
}
