//! The durable engine: a log of records in one redb file, one row per revision.
//!
//! Two tables. `log` maps a revision to its record; rows are appended, and removed once compaction has made them
//! superfluous. `meta` holds the format's version and the compacted revision. The store's current revision is that
//! of the last row, or the compacted one if nothing has been written since.
//!
//! A commit is one redb transaction with one fsync. redb itself is never asked for a value while the store runs: it
//! serves recovery, and everything else is served from memory.
//!
//! After an IO error, a full disk for instance, redb wants to be opened anew. The next commit does that; should the
//! failed commit have reached the disk after all, its rows are taken out again, because its writers were told that
//! it failed. If it was synchronising that failed, there is no next commit: see [`disk`].

use std::any::Any;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use redb::{ReadTransaction, StorageBackend, StorageError, TableDefinition, TableError, WriteTransaction};

mod data_dir;
mod disk;
#[cfg(test)]
mod faults_test;
#[cfg(test)]
mod power_cut_test;
mod row;
mod verify;

use data_dir::DataDir;
use disk::{Disk, SyncFailure};
use verify::Closed;

use super::{Commit, Engine};
use crate::model::UnixMillis;
use crate::recovery::{Recovered, Recovery};
use crate::{EngineError, OpenError, Revision};

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("watchkeeper log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("watchkeeper meta");
const FORMAT: &str = "format";
const COMPACTED: &str = "compacted";
/// The format that this code writes.
const FORMAT_VERSION: u64 = 1;
/// redb's page cache. Small, because pages are only read again when rows are appended or removed beside them.
const CACHE_BYTES: usize = 16 << 20;

/// Says why nothing is written any longer.
const SYNC_FAILED: &str = "synchronising the data file failed earlier, so what the disk has is not known; nothing is \
                           written until the store is opened anew";

/// How a file is read and written: where tests put their faults in.
type OpenFile = Box<dyn Fn(File) -> Result<Box<dyn StorageBackend>, DatabaseError> + Send>;

/// The engine of one data directory.
pub(crate) struct Redb {
    open_file: OpenFile,
    sync_failure: SyncFailure,
    /// `None` after an error, until the next commit.
    database: Option<Database>,
    /// The newest committed revision.
    current: Revision,
    compacted: Revision,
    /// Last, so that the directory is free only when the database is closed.
    dir: DataDir,
}

/// Opens or creates the store in a directory and reads everything back.
pub(crate) fn open(path: &Path, now: UnixMillis) -> Result<(Redb, Recovered), OpenError> {
    let open_file: OpenFile = Box::new(|file| Ok(Box::new(FileBackend::new(file)?)));
    // Before redb has checked a page it may have to follow it, and where that leads it astray, it panics.
    let opened = catch_unwind(AssertUnwindSafe(|| open_with(path, now, open_file)));
    opened.unwrap_or_else(|panic| {
        let detail = format!("a page makes no sense ({})", panic_message(&*panic));
        Err(OpenError::damaged(path, detail))
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn open_with(path: &Path, now: UnixMillis, open_file: OpenFile) -> Result<(Redb, Recovered), OpenError> {
    let dir = DataDir::acquire(path)?;
    let data = dir.data();
    let file = dir.open_or_init(|file| init(file).map_err(|error| open_error(&data, error)))?;
    let copy = file
        .try_clone()
        .map_err(data_dir::io_error("use the data file", &data))?;
    if verify::verify(copy).map_err(|error| open_error(&data, error))? == Closed::Abruptly {
        disk::forget_cached_pages(&file);
    }
    let sync_failure = SyncFailure::default();
    let database =
        open_database(&open_file, file, &sync_failure).map_err(|error| open_error(&data, error.into()))?;
    let recovered = recover(&database, &data, now)?;
    let redb = Redb {
        open_file,
        sync_failure,
        database: Some(database),
        current: recovered.mvcc.current(),
        compacted: recovered.mvcc.compacted(),
        dir,
    };
    Ok((redb, recovered))
}

fn open_database(
    open_file: &OpenFile,
    file: File,
    sync_failure: &SyncFailure,
) -> Result<Database, DatabaseError> {
    builder().create_with_backend(Disk {
        file: open_file(file)?,
        sync_failure: sync_failure.clone(),
    })
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Sets up an empty store.
fn init(file: File) -> Result<(), redb::Error> {
    let database = builder().create_file(file)?;
    let transaction = database.begin_write()?;
    transaction.open_table(LOG)?;
    let mut meta = transaction.open_table(META)?;
    meta.insert(FORMAT, FORMAT_VERSION)?;
    meta.insert(COMPACTED, Revision::ZERO.get())?;
    drop(meta);
    transaction.commit()?;
    Ok(())
}

fn recover(database: &Database, path: &Path, now: UnixMillis) -> Result<Recovered, OpenError> {
    let fail = |error: redb::Error| open_error(path, error);
    let transaction = database.begin_read().map_err(|error| fail(error.into()))?;
    let compacted = read_meta(&transaction, path)?;
    let mut recovery = Recovery::begin(compacted, now);
    let log = transaction
        .open_table(LOG)
        .map_err(|error| table_error(path, error))?;
    let mut count = 0;
    for entry in log.iter().map_err(|error| fail(error.into()))? {
        let (revision, bytes) = entry.map_err(|error| fail(error.into()))?;
        let record = row::read(Revision::new(revision.value()), bytes.value());
        let record = record.map_err(|error| OpenError::damaged(path, error))?;
        recovery
            .add(record)
            .map_err(|error| OpenError::damaged(path, error))?;
        count += 1;
    }
    // redb counts rows as well, and not where they are: a lost branch of the tree shows here.
    let expected = log.len().map_err(|error| fail(error.into()))?;
    if count != expected {
        let detail = format!("{count} of {expected} rows were found");
        return Err(OpenError::damaged(path, detail));
    }
    Ok(recovery.finish())
}

/// Checks the format and returns the compacted revision.
fn read_meta(transaction: &ReadTransaction, path: &Path) -> Result<Revision, OpenError> {
    let meta = transaction
        .open_table(META)
        .map_err(|error| table_error(path, error))?;
    let number = |name| match meta.get(name) {
        Ok(Some(found)) => Ok(found.value()),
        Ok(None) => Err(OpenError::damaged(path, format!("{name:?} is missing"))),
        Err(error) => Err(open_error(path, error.into())),
    };
    match number(FORMAT)? {
        FORMAT_VERSION => Ok(Revision::new(number(COMPACTED)?)),
        found if found > FORMAT_VERSION => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            supported: FORMAT_VERSION,
        }),
        found => Err(OpenError::damaged(path, format!("there is no format {found}"))),
    }
}

/// A redb file without our tables is somebody else's.
fn table_error(path: &Path, error: TableError) -> OpenError {
    match error {
        TableError::Storage(error) => open_error(path, error.into()),
        _ => OpenError::Foreign {
            path: path.to_owned(),
        },
    }
}

fn open_error(path: &Path, error: redb::Error) -> OpenError {
    match error {
        redb::Error::DatabaseAlreadyOpen => OpenError::InUse {
            path: path.to_owned(),
        },
        redb::Error::Io(source) => data_dir::io_error("use the data file", path)(source),
        error => OpenError::damaged(path, error),
    }
}

impl Engine for Redb {
    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), EngineError> {
        if self.sync_failure.happened() {
            return Err(EngineError::new(SYNC_FAILED));
        }
        // As in `open`: writers get an answer, whatever redb runs into.
        let result = catch_unwind(AssertUnwindSafe(|| self.try_commit(commit)));
        let result = match result {
            Ok(result) => result.map_err(EngineError::new),
            Err(panic) => Err(EngineError::new(format!(
                "the database panicked: {}",
                panic_message(&*panic)
            ))),
        };
        match result {
            Ok(()) => {
                self.current = commit.records.last().map_or(self.current, |last| last.revision);
                self.compacted = self.compacted.max(commit.compacted.unwrap_or_default());
            }
            Err(_) => drop(catch_unwind(AssertUnwindSafe(|| self.database = None))),
        }
        result
    }

    fn waits_for_disk(&self) -> bool {
        true
    }

    fn has_failed(&self) -> bool {
        self.sync_failure.happened()
    }
}

impl Redb {
    fn try_commit(&mut self, commit: &Commit<'_>) -> Result<(), redb::Error> {
        if self.database.is_none() {
            self.database = Some(self.reopen()?);
        }
        let database = self.database.as_ref().ok_or(StorageError::DatabaseClosed)?;
        let transaction = database.begin_write()?;
        write(&transaction, commit)?;
        transaction.commit()?;
        Ok(())
    }

    /// Opens the file after an error, and undoes what the failed commit may have left.
    fn reopen(&self) -> Result<Database, redb::Error> {
        let file = File::options().read(true).write(true).open(self.dir.data())?;
        let database = open_database(&self.open_file, file, &self.sync_failure)?;
        let transaction = database.begin_write()?;
        let failed = self.current.next().get()..;
        transaction.open_table(LOG)?.retain_in(failed, |_, _| false)?;
        transaction
            .open_table(META)?
            .insert(COMPACTED, self.compacted.get())?;
        transaction.commit()?;
        Ok(database)
    }
}

fn write(transaction: &WriteTransaction, commit: &Commit<'_>) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    for revision in commit.garbage {
        log.remove(revision.get())?;
    }
    for record in commit.records {
        let mut space = log.insert_reserve(record.revision.get(), row::len(record))?;
        row::write(record, space.as_mut());
    }
    if let Some(revision) = commit.compacted {
        transaction.open_table(META)?.insert(COMPACTED, revision.get())?;
    }
    Ok(())
}
