//! The directory of a durable store: its lock, and the creation of its data file.
//!
//! ```text
//! lock             locked by the process that uses the directory
//! store.redb       the data
//! store.redb.new   data being set up; a crash leaves it, the next start removes it
//! ```
//!
//! The data file gets its name only after it is complete and synced, so a file of that name is complete or damaged,
//! never unfinished.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::OpenError;

const LOCK: &str = "lock";
const DATA: &str = "store.redb";
const UNFINISHED: &str = "store.redb.new";
/// The first bytes of every redb file.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";

/// A directory that this process holds the lock of, as long as this value lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    lock: File,
}

impl Drop for DataDir {
    /// Releases the lock at once. Closing the file would not: a child process that is being spawned elsewhere in this
    /// process keeps a copy of the descriptor until it calls exec.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl DataDir {
    /// Creates the directory if necessary, and locks it.
    pub(crate) fn acquire(path: &Path) -> Result<Self, OpenError> {
        create_dir(path).map_err(io_error("create the directory", path))?;
        let lock_path = path.join(LOCK);
        let lock = private()
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(io_error("open the lock", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                lock,
            }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(io_error("take the lock", &lock_path)(source)),
        }
    }

    /// Like [`acquire`](Self::acquire), for a directory that must already contain a store.
    pub(crate) fn acquire_existing(path: &Path) -> Result<Self, OpenError> {
        let data = data_in(path);
        match data
            .try_exists()
            .map_err(io_error("look for the data file", &data))?
        {
            true => Self::acquire(path),
            false => Err(OpenError::Missing {
                path: path.to_owned(),
            }),
        }
    }

    /// The path of the data file.
    pub(crate) fn data(&self) -> PathBuf {
        data_in(&self.path)
    }

    /// Opens the data file of an existing store.
    pub(crate) fn open_data(&self) -> Result<File, OpenError> {
        let path = self.data();
        let mut file = private()
            .open(&path)
            .map_err(io_error("open the data file", &path))?;
        check_magic(&mut file, &path)?;
        Ok(file)
    }

    /// Opens the data file; creates it with `init` if there is none.
    pub(crate) fn open_or_init(
        &self,
        init: impl FnOnce(File) -> Result<(), OpenError>,
    ) -> Result<File, OpenError> {
        let path = self.data();
        if !path
            .try_exists()
            .map_err(io_error("look for the data file", &path))?
        {
            self.init(init)?;
        }
        self.open_data()
    }

    /// Creates a data file. It gets its final name after `init` returns.
    pub(crate) fn init(&self, init: impl FnOnce(File) -> Result<(), OpenError>) -> Result<(), OpenError> {
        let unfinished = self.path.join(UNFINISHED);
        let file = private()
            .create(true)
            .truncate(true)
            .open(&unfinished)
            .map_err(io_error("create the data file", &unfinished))?;
        init(file)?;
        fs::rename(&unfinished, self.data()).map_err(io_error("name the data file", &unfinished))?;
        sync_dir(&self.path).map_err(io_error("synchronise the directory", &self.path))
    }
}

/// The path of the data file in a directory.
pub(crate) fn data_in(path: &Path) -> PathBuf {
    path.join(DATA)
}

fn check_magic(file: &mut File, path: &Path) -> Result<(), OpenError> {
    let mut start = Vec::with_capacity(MAGIC.len());
    let read = file.take(MAGIC.len() as u64).read_to_end(&mut start);
    read.map_err(io_error("read the data file", path))?;
    if start == MAGIC {
        return Ok(());
    }
    if start.len() < MAGIC.len() {
        return Err(OpenError::damaged(path, "the file is too short"));
    }
    Err(OpenError::Foreign {
        path: path.to_owned(),
    })
}

/// Names the step and the file of an IO error.
pub(crate) fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { step, path, source }
}

/// Options for files that only their owner can read: values may be secrets.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory with its parents, and syncs their names.
fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    create_dir(parent)?;
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
        _ => sync_dir(parent),
    }
}

/// Syncs a directory. Otherwise the name of a synced file can be lost in a power cut.
fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}
