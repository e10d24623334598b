//! Backups: the state of a store at one revision, as one verifiable stream of bytes.
//!
//! ```text
//! "watchkeeper backup 1\n"
//! revision      u64   of the whole backup
//! for each key, in order:
//!   revision    u64   of its last write, never zero
//!   length      u32
//!   row               as in a data file, with a checksum of its own
//! at the end:
//!   zero        u64
//!   keys        u64   their number
//!   checksum    u32   CRC-32 of everything before it
//! ```
//!
//! Numbers are little endian. History is not included: a restored store starts at the revision of the backup, and a
//! watch from an earlier one gets `410 Gone` and lists again. Keys keep their create and modify revisions.
//!
//! The stream is produced while it is sent, so it needs little memory, and the store keeps running.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::engine::redb::row;
use crate::model::Record;
use crate::mvcc::Mvcc;
use crate::transform::{Seal, TransformError, Values};
use crate::{Key, MAX_KEY_BYTES, OpenError, Revision, Snapshot};

/// The first bytes of every backup, before the format version.
const MAGIC: &[u8] = b"watchkeeper backup ";
const FORMAT: &[u8] = b"1\n";
/// The size at which a piece of the stream is sent.
const PIECE_BYTES: usize = 64 << 10;
/// The number of keys visited for one piece.
const PIECE_KEYS: usize = 512;
/// Longer rows are damaged. No value that a server stores comes near.
const MAX_ROW_BYTES: u32 = 64 << 20;

/// The error of making, reading or restoring a backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The file does not start like a backup.
    #[error("{} is not a backup", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was modified or truncated.
    #[error("{} is damaged: {detail}; use another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage found.
        detail: String,
    },
    /// The file exists. Nothing is overwritten.
    #[error("{} exists; name another place, or move it away", path.display())]
    Exists {
        /// The existing file.
        path: PathBuf,
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
    /// A value could not be encrypted.
    #[error("cannot encrypt a value: {0}")]
    Transform(#[from] TransformError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
}

impl BackupError {
    fn damaged(path: &Path, detail: impl ToString) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            detail: detail.to_string(),
        }
    }

    pub(crate) fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { step, path, source }
    }
}

/// The content of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The revision at which everything was read.
    pub revision: Revision,
    /// The number of keys.
    pub keys: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The bytes of a backup, piece by piece.
#[derive(Debug)]
pub struct Backup {
    mvcc: Mvcc,
    values: Values,
    next: Next,
    keys: u64,
    checksum: crc32fast::Hasher,
}

/// The content of the next piece.
#[derive(Debug)]
enum Next {
    Beginning,
    After(Bound<Key>),
    End,
    Nothing,
}

impl Backup {
    /// A backup of a snapshot, with values in their stored form.
    pub(crate) fn of(snapshot: &Snapshot, values: Values) -> Self {
        Self {
            mvcc: snapshot.0.clone(),
            values,
            next: Next::Beginning,
            keys: 0,
            checksum: crc32fast::Hasher::new(),
        }
    }

    /// The revision at which everything is read.
    pub fn revision(&self) -> Revision {
        self.mvcc.current()
    }

    /// Appends some keys, and returns what follows them.
    fn keys_after(&mut self, after: &Bound<Key>, piece: &mut Vec<u8>) -> Result<Next, TransformError> {
        let (mvcc, values, mut position) = (&self.mvcc, &self.values, after.clone());
        while piece.len() < PIECE_BYTES {
            let from = position.as_ref().map(|key| &**key);
            let (mut count, mut failure) = (0, None);
            let last = mvcc.walk(
                (from, Bound::Unbounded),
                mvcc.current(),
                PIECE_KEYS,
                |key, version| {
                    let record = Record {
                        revision: version.mod_revision,
                        key: key.clone(),
                        value: version.value.clone(),
                        create_revision: version.create_revision,
                        written_at: 0,
                        expires_at: mvcc.expires_at(key),
                        seal: Seal::Current,
                    };
                    let record = match mvcc.seals().why_locked(key, version.mod_revision) {
                        Some(_) => Ok(record),
                        None => values.sealed(record),
                    };
                    match record {
                        Ok(record) => append(&record, piece),
                        Err(error) => failure = Some(error),
                    }
                    count += 1;
                },
            );
            failure.map_or(Ok(()), Err)?;
            self.keys += count;
            match last {
                Some(last) => position = Bound::Excluded(last),
                None => return Ok(Next::End),
            }
        }
        Ok(Next::After(position))
    }
}

impl Iterator for Backup {
    type Item = Result<Bytes, TransformError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = Vec::new();
        let (is_end, next) = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Nothing => return None,
            Next::Beginning => {
                piece.extend_from_slice(&[MAGIC, FORMAT].concat());
                piece.extend_from_slice(&self.revision().get().to_le_bytes());
                (false, Next::After(Bound::Unbounded))
            }
            Next::After(key) => match self.keys_after(&key, &mut piece) {
                Ok(next) => (false, next),
                Err(error) => return Some(Err(error)),
            },
            Next::End => {
                piece.extend_from_slice(&0u64.to_le_bytes());
                piece.extend_from_slice(&self.keys.to_le_bytes());
                (true, Next::Nothing)
            }
        };
        self.next = next;
        self.checksum.update(&piece);
        if is_end {
            let checksum = self.checksum.clone().finalize();
            piece.extend_from_slice(&checksum.to_le_bytes());
        }
        Some(Ok(piece.into()))
    }
}

fn append(record: &Record, piece: &mut Vec<u8>) {
    let len = row::len(record);
    piece.extend_from_slice(&record.revision.get().to_le_bytes());
    piece.extend_from_slice(&(len as u32).to_le_bytes());
    let start = piece.len();
    piece.resize(start + len, 0);
    row::write(record, &mut piece[start..]);
}

/// A backup that is being read. Its records can be trusted only after the end was reached without an error.
#[derive(Debug)]
pub(crate) struct BackupReader<R> {
    input: R,
    path: PathBuf,
    summary: BackupSummary,
    checksum: crc32fast::Hasher,
    is_at_end: bool,
}

impl BackupReader<BufReader<File>> {
    /// Starts to read a file.
    pub(crate) fn open(path: &Path) -> Result<Self, BackupError> {
        let file = File::open(path).map_err(BackupError::io("open the backup", path))?;
        Self::new(BufReader::with_capacity(PIECE_BYTES, file), path)
    }
}

impl<R: Read> BackupReader<R> {
    /// Starts to read; the path is for errors.
    pub(crate) fn new(input: R, path: &Path) -> Result<Self, BackupError> {
        let summary = BackupSummary {
            revision: Revision::ZERO,
            keys: 0,
            bytes: 0,
        };
        let mut reader = Self {
            input,
            path: path.to_owned(),
            summary,
            checksum: crc32fast::Hasher::new(),
            is_at_end: false,
        };
        let mut start = vec![0; MAGIC.len() + FORMAT.len()];
        let foreign = || BackupError::Foreign {
            path: path.to_owned(),
        };
        reader.read(&mut start).map_err(|error| match error {
            BackupError::Damaged { .. } => foreign(),
            error => error,
        })?;
        match start.strip_prefix(MAGIC) {
            None => return Err(foreign()),
            Some(FORMAT) => {}
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                return Err(reader.damaged(format!("format {:?} is not known", other.trim_end())));
            }
        }
        reader.summary.revision = Revision::new(reader.number()?);
        Ok(reader)
    }

    /// The summary of the part that was read; complete at the end.
    pub(crate) fn summary(&self) -> BackupSummary {
        self.summary
    }

    /// The next record; `None` at the end of a complete backup.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, BackupError> {
        if self.is_at_end {
            return Ok(None);
        }
        let revision = Revision::new(self.number()?);
        if revision == Revision::ZERO {
            self.end()?;
            return Ok(None);
        }
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > MAX_ROW_BYTES {
            return Err(self.damaged(format!("a row of {length} bytes")));
        }
        let mut row = Vec::new();
        // Grows with the data read, not with a possibly damaged length.
        let read = (&mut self.input).take(length.into()).read_to_end(&mut row);
        read.map_err(BackupError::io("read the backup", &self.path))?;
        self.note(&row);
        let record = row::read(revision, &row).map_err(|error| self.damaged(error))?;
        self.check(&record)?;
        self.summary.keys += 1;
        Ok(Some(record))
    }

    /// Rejects records that no store can have written.
    fn check(&self, record: &Record) -> Result<(), BackupError> {
        let newest = self.summary.revision;
        let is_sound = record.value.is_some()
            && (1..=MAX_KEY_BYTES).contains(&record.key.len())
            && record.revision <= newest
            && record.create_revision <= record.revision
            && record.revision > Revision::FIRST;
        match is_sound {
            true => Ok(()),
            false => Err(self.damaged(format!("the row of revision {} makes no sense", record.revision))),
        }
    }

    fn end(&mut self) -> Result<(), BackupError> {
        let keys = self.number()?;
        let expected = self.checksum.clone().finalize();
        let mut checksum = [0; 4];
        self.read(&mut checksum)?;
        if u32::from_le_bytes(checksum) != expected {
            return Err(self.damaged("its checksum is wrong"));
        }
        if keys != self.summary.keys {
            let found = self.summary.keys;
            return Err(self.damaged(format!("{found} of {keys} keys were found")));
        }
        let more = self.input.read(&mut [0]);
        if more.map_err(BackupError::io("read the backup", &self.path))? > 0 {
            return Err(self.damaged("something follows its end"));
        }
        self.is_at_end = true;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, BackupError> {
        let mut number = [0; 8];
        self.read(&mut number)?;
        Ok(u64::from_le_bytes(number))
    }

    fn read(&mut self, out: &mut [u8]) -> Result<(), BackupError> {
        let read = self.input.read_exact(out);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("its end is missing"),
            _ => BackupError::io("read the backup", &self.path)(error),
        })?;
        self.note(out);
        Ok(())
    }

    fn note(&mut self, bytes: &[u8]) {
        self.checksum.update(bytes);
        self.summary.bytes += bytes.len() as u64;
    }

    fn damaged(&self, detail: impl ToString) -> BackupError {
        BackupError::damaged(&self.path, detail)
    }
}

impl BackupSummary {
    /// Reads a backup to its end and checks all of it.
    pub fn verify(path: impl AsRef<Path>) -> Result<Self, BackupError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(BackupError::io("open the backup", path))?;
        Self::read(BufReader::with_capacity(PIECE_BYTES, file), path)
    }

    /// Like [`verify`](Self::verify), for any input. The path is for errors.
    pub fn read(input: impl Read, path: &Path) -> Result<Self, BackupError> {
        let mut reader = BackupReader::new(input, path)?;
        while reader.next()?.is_some() {}
        Ok(reader.summary())
    }
}

/// A file that a backup is written to. It gets its name after all of it is on disk and was read back. Until then, and
/// if anything fails, there is only a file with the suffix `.partial`, which is removed with this value.
#[derive(Debug)]
pub struct BackupFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<File>,
}

impl BackupFile {
    /// Creates a new file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, BackupError> {
        let path = path.into();
        if fs::symlink_metadata(&path).is_ok() {
            return Err(BackupError::Exists { path });
        }
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // Values may be secrets.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(&partial)
            .map_err(BackupError::io("create", &partial))?;
        Ok(Self {
            path,
            partial,
            file: Some(file),
        })
    }

    /// Appends a piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), BackupError> {
        let written = match &mut self.file {
            Some(file) => file.write_all(piece),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(BackupError::io("write", &self.partial))
    }

    /// Syncs the file, reads it back, and renames it.
    pub fn finish(mut self) -> Result<BackupSummary, BackupError> {
        if let Some(file) = self.file.take() {
            file.sync_all()
                .map_err(BackupError::io("synchronise", &self.partial))?;
        }
        let summary = BackupSummary::verify(&self.partial)?;
        // Not `rename`, which would replace a file created in the meantime.
        match fs::hard_link(&self.partial, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(BackupError::Exists {
                    path: self.path.clone(),
                });
            }
            Err(_) => {
                fs::rename(&self.partial, &self.path).map_err(BackupError::io("name", &self.partial))?
            }
            Ok(()) => {}
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        if cfg!(unix) {
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(BackupError::io("synchronise", parent))?;
        }
        Ok(summary)
    }
}

impl Drop for BackupFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.partial);
    }
}
