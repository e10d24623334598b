//! The directory of a durable store: who may use it, and how its file comes to be.
//!
//! ```text
//! lock             locked by the process that uses the directory
//! store.redb       the data
//! store.redb.new   data being set up; a crash leaves it, the next start removes it
//! ```
//!
//! The data file gets its name only when it is complete and on the disk, so a file of that name is whole or damaged,
//! never unfinished.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::OpenError;

const LOCK: &str = "lock";
const DATA: &str = "store.redb";
const UNFINISHED: &str = "store.redb.new";
/// What every redb file begins with.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";

/// A directory that belongs to this process as long as this value lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    lock: File,
}

impl Drop for DataDir {
    /// Gives the directory back at once. To close the file would not: a process that is being started elsewhere in this one
    /// holds it open until it runs a program of its own.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl DataDir {
    /// Makes the directory if need be, and locks it.
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

    /// As [`acquire`](Self::acquire), of a directory that must have a store already.
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

    /// Where the data is.
    pub(crate) fn data(&self) -> PathBuf {
        data_in(&self.path)
    }

    /// The data file of a store that is there.
    pub(crate) fn open_data(&self) -> Result<File, OpenError> {
        let path = self.data();
        let mut file = private()
            .open(&path)
            .map_err(io_error("open the data file", &path))?;
        check_magic(&mut file, &path)?;
        Ok(file)
    }

    /// The data file, first set up by `init` if there is none.
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

    /// Sets up a data file, which gets its name when `init` is done with it.
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

/// Where the data of a directory is.
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

/// Values may be secrets: files are for their owner only.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory with its parents, and makes their names last.
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

/// Without this, a file's name may be gone after a power cut although its data was synchronised.
fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}
