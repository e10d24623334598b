//! The durable engine: a log of records in one redb file, one row per revision.
//!
//! Two tables. `log` maps a revision to its record; rows are appended, and removed once compaction has made them
//! obsolete. `meta` holds the format version and the compacted revision. The store's current revision is that of the
//! last row, or the compacted one if there are no later rows.
//!
//! A commit is one redb transaction with one fsync. redb is read only during recovery; a running store serves all reads
//! from memory.
//!
//! After an I/O error, such as a full disk, redb must be reopened. The next commit does that. If the failed commit
//! reached the disk after all, its rows are removed, because its writers were told that it failed. After a failed fsync
//! there is no next commit: see [`disk`].

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use redb::backends::FileBackend;
use redb::{
    AccessGuard, Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata,
};
use redb::{StorageBackend, StorageError, TableDefinition, TableError, WriteTransaction};

mod data_dir;
mod disk;
#[cfg(test)]
mod faults_test;
mod format;
pub(crate) mod inspect;
mod panics;
#[cfg(test)]
mod power_cut_test;
pub(crate) mod restore;
pub(crate) mod row;
mod verify;

use data_dir::DataDir;
use disk::{Disk, SyncFailure};
use format::{FORMAT, Format};
use panics::caught;
use verify::Closed;

use super::{Commit, Engine};
use crate::model::{Record, UnixMillis};
use crate::mvcc::SharedPart;
use crate::recovery::{Recovered, Recovery};
use crate::transform::{TransformError, Values};
use crate::{EngineError, OpenError, Revision};

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("watchkeeper log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("watchkeeper meta");
const COMPACTED: &str = "compacted";
/// redb's page cache. It is small, because pages are read again only when rows next to them are appended or removed.
const CACHE_BYTES: usize = 16 << 20;

/// Rows are decoded in batches of at least this size, beside the thread that reads them.
const BATCH_BYTES: usize = 256 << 10;
/// The reading thread waits if this many batches were not decoded yet.
const MAX_BATCHES: usize = 4;

/// The time commits are refused after one found the disk full, if it still is. Each attempt repairs the whole file, but
/// one is made from time to time, because a commit may fit into free pages of the file.
const RETRY_WHEN_FULL: Duration = Duration::from_secs(5);

/// The error of writes after a failed fsync.
const SYNC_FAILED: &str = "an earlier sync of the data file failed, so the content of the disk is unknown; no write \
                           is accepted until the store is reopened";

/// Opens the backend of a file. Tests inject faults here.
type OpenFile = Box<dyn Fn(File) -> Result<Box<dyn StorageBackend>, DatabaseError> + Send>;

/// The engine of one data directory.
pub(crate) struct Redb {
    open_file: OpenFile,
    values: Values,
    sync_failure: SyncFailure,
    /// `None` after an error, until the next commit.
    database: Option<Database>,
    /// The newest committed revision.
    current: Revision,
    compacted: Revision,
    /// Bytes of all rows.
    used: u64,
    /// A commit that failed would have removed rows, and may have.
    may_have_removed: bool,
    /// When the disk had no room for the last commit.
    full_at: Option<Instant>,
    /// For questions about the disk.
    file: File,
    /// Last, so that the lock on the directory is released after the database is closed.
    dir: DataDir,
}

/// Opens or creates the store in a directory and reads everything back.
pub(crate) fn open(
    path: &Path,
    now: UnixMillis,
    values: Values,
    shared_part: Option<SharedPart>,
) -> Result<(Redb, Recovered), OpenError> {
    let open_file: OpenFile = Box::new(|file| Ok(Box::new(FileBackend::new(file)?)));
    let opened = caught(|| open_with(path, now, values, shared_part, open_file));
    opened.unwrap_or_else(|panic| Err(unreadable_page(path, &panic)))
}

/// The error for a file that made redb panic.
fn unreadable_page(dir: &Path, panic: &str) -> OpenError {
    OpenError::damaged(
        &data_dir::data_in(dir),
        format!("a page makes no sense ({panic})"),
    )
}

fn open_with(
    path: &Path,
    now: UnixMillis,
    values: Values,
    shared_part: Option<SharedPart>,
    open_file: OpenFile,
) -> Result<(Redb, Recovered), OpenError> {
    let dir = DataDir::acquire(path)?;
    let data = dir.data();
    let file = dir.open_or_init(|file| init(file).map_err(|error| open_error(&data, error)))?;
    let copy = file
        .try_clone()
        .map_err(data_dir::io_error("use the data file", &data))?;
    if verify::verify(copy).map_err(|error| open_error(&data, error))? == Closed::Abruptly {
        disk::read_again(&file);
    }
    let probe = file
        .try_clone()
        .map_err(data_dir::io_error("use the data file", &data))?;
    let sync_failure = SyncFailure::default();
    let database =
        open_database(&open_file, file, &sync_failure).map_err(|error| open_error(&data, error.into()))?;
    let Contents {
        format,
        used,
        recovered,
        ..
    } = recover(&database, &data, now, &values, shared_part)?;
    if format < Format::CURRENT {
        format::upgrade(&database).map_err(|error| open_error(&data, error))?;
    }
    let redb = Redb {
        open_file,
        values,
        sync_failure,
        database: Some(database),
        current: recovered.mvcc.current(),
        compacted: recovered.mvcc.compacted(),
        used,
        may_have_removed: false,
        full_at: None,
        file: probe,
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

/// Creates an empty store.
fn init(file: File) -> Result<(), redb::Error> {
    init_tables(&builder().create_file(file)?, Revision::ZERO)
}

/// Creates the tables of a store without records whose history starts at a revision.
fn init_tables(database: &Database, compacted: Revision) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(LOG)?;
    let mut meta = transaction.open_table(META)?;
    meta.insert(FORMAT, Format::CURRENT.number())?;
    meta.insert(COMPACTED, compacted.get())?;
    drop(meta);
    transaction.commit()?;
    Ok(())
}

/// The content of a file.
struct Contents {
    format: Format,
    /// The number of rows and their bytes.
    rows: u64,
    used: u64,
    recovered: Recovered,
}

fn recover(
    database: &Database,
    path: &Path,
    now: UnixMillis,
    values: &Values,
    shared_part: Option<SharedPart>,
) -> Result<Contents, OpenError> {
    let fail = |error: redb::Error| open_error(path, error);
    let transaction = database.begin_read().map_err(|error| fail(error.into()))?;
    let (format, compacted) = format::read_meta(&transaction, path)?;
    let log = transaction
        .open_table(LOG)
        .map_err(|error| table_error(path, error))?;
    let entries = log.iter().map_err(|error| fail(error.into()))?;
    let recovery = Recovery::begin(compacted, now, shared_part);
    let Replayed {
        rows,
        used,
        recovered,
    } = replay(entries, recovery, values, path)?;
    // redb keeps its own row count. A difference means that a branch of the tree is lost.
    let expected = log.len().map_err(|error| fail(error.into()))?;
    if rows != expected {
        let detail = format!("{rows} of {expected} rows were found");
        return Err(OpenError::damaged(path, detail));
    }
    Ok(Contents {
        format,
        rows,
        used,
        recovered,
    })
}

/// The result of replaying the log.
struct Replayed {
    rows: u64,
    used: u64,
    recovered: Recovered,
}

/// Rows on their way from the thread that reads pages to the one that decodes them.
type Batch<'log> = Vec<(u64, AccessGuard<'log, &'static [u8]>)>;

/// Replays all rows. One thread reads pages, another one verifies, copies and indexes their rows: each takes about half of
/// the time.
fn replay(
    entries: redb::Range<'_, u64, &'static [u8]>,
    recovery: Recovery,
    values: &Values,
    path: &Path,
) -> Result<Replayed, OpenError> {
    thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(MAX_BATCHES);
        let replaying = scope.spawn(|| replay_batches(batches, recovery, values, path));
        let read = read_rows(entries, &sender).map_err(|error| open_error(path, error.into()));
        drop(sender);
        let replayed = replaying.join().unwrap_or_else(|panic| resume_unwind(panic));
        read.and(replayed)
    })
}

/// Sends all rows, in batches. Stops early if the receiver has found an error.
fn read_rows<'log>(
    entries: redb::Range<'log, u64, &'static [u8]>,
    sender: &SyncSender<Batch<'log>>,
) -> Result<(), StorageError> {
    let (mut batch, mut bytes) = (Batch::new(), 0);
    for entry in entries {
        let (revision, row) = entry?;
        bytes += row.value().len();
        batch.push((revision.value(), row));
        if bytes >= BATCH_BYTES {
            if sender.send(std::mem::take(&mut batch)).is_err() {
                return Ok(());
            }
            bytes = 0;
        }
    }
    // An error is the receiver's to tell.
    let _ = sender.send(batch);
    Ok(())
}

fn replay_batches(
    batches: Receiver<Batch<'_>>,
    mut recovery: Recovery,
    values: &Values,
    path: &Path,
) -> Result<Replayed, OpenError> {
    let (mut rows, mut used) = (0, 0);
    for (revision, row) in batches.into_iter().flatten() {
        let record = row::read(Revision::new(revision), row.value())
            .map_err(|error| OpenError::damaged(path, error))?;
        recovery
            .add(values.opened(record))
            .map_err(|error| OpenError::damaged(path, error))?;
        used += row.value().len() as u64;
        rows += 1;
    }
    Ok(Replayed {
        rows,
        used,
        recovered: recovery.finish(),
    })
}

/// A redb file without our tables belongs to another program.
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
        let sealed = self.sealed(commit).map_err(EngineError::new)?;
        let stored = Commit {
            records: sealed.as_deref().unwrap_or(commit.records),
            ..*commit
        };
        if self.is_still_full(&stored) {
            let full = io::Error::from(io::ErrorKind::StorageFull);
            return Err(EngineError::new(redb::Error::Io(full)));
        }
        let result = self.attempt(|this| this.try_commit(&stored));
        if let Err(error) = &result {
            self.full_at = error.is_no_space().then(Instant::now);
            self.may_have_removed |= !commit.garbage.is_empty();
        }
        match result {
            Ok(used) => {
                self.used = used;
                self.current = commit.records.last().map_or(self.current, |last| last.revision);
                self.compacted = self.compacted.max(commit.compacted.unwrap_or_default());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn waits_for_disk(&self) -> bool {
        true
    }

    fn has_failed(&self) -> bool {
        self.sync_failure.happened()
    }

    fn data_file(&self) -> Option<PathBuf> {
        Some(self.dir.data())
    }

    fn used_bytes(&self) -> u64 {
        self.used
    }

    fn defragment(&mut self) -> Result<(), EngineError> {
        if self.sync_failure.happened() {
            return Err(EngineError::new(SYNC_FAILED));
        }
        self.attempt(|this| {
            let database = this.opened()?;
            // Each call moves some pages, and returns true if another call may move more.
            while database.compact().map_err(redb::Error::from)? {}
            Ok(())
        })
    }
}

impl Redb {
    /// Runs a step on the database. A panic of redb becomes an error, so that writers always get an answer. After an
    /// error the file is reopened.
    fn attempt<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, redb::Error>,
    ) -> Result<T, EngineError> {
        let result = match caught(|| step(self)) {
            Ok(result) => result.map_err(EngineError::new),
            Err(panic) => Err(EngineError::new(format!("the database panicked: {panic}"))),
        };
        if result.is_err() {
            let _ = caught(|| self.database = None);
        }
        result
    }

    /// True if a recent commit found the disk full and there is still no room for this one.
    fn is_still_full(&self, commit: &Commit<'_>) -> bool {
        let is_recent = self.full_at.is_some_and(|at| at.elapsed() < RETRY_WHEN_FULL);
        let bytes = commit.records.iter().map(|record| row::len(record) as u64);
        is_recent && disk::is_full(&self.file, bytes.sum())
    }

    /// The records in the form in which they are stored; `None` if they are stored unchanged.
    fn sealed(&self, commit: &Commit<'_>) -> Result<Option<Vec<Record>>, TransformError> {
        match self.values {
            Values::Raw | Values::Plain => Ok(None),
            Values::Transformed(_) => {
                let records = commit.records.iter().cloned();
                records
                    .map(|record| self.values.sealed(record))
                    .collect::<Result<_, _>>()
                    .map(Some)
            }
        }
    }

    fn opened(&mut self) -> Result<&mut Database, redb::Error> {
        if self.database.is_none() {
            let (database, used) = self.reopen()?;
            self.database = Some(database);
            self.used = used;
            self.may_have_removed = false;
        }
        let database = self.database.as_mut();
        database.ok_or_else(|| StorageError::DatabaseClosed.into())
    }

    /// Returns the bytes of all rows afterwards.
    fn try_commit(&mut self, commit: &Commit<'_>) -> Result<u64, redb::Error> {
        let transaction = self.opened()?.begin_write()?;
        let (removed, added) = write(&transaction, commit)?;
        transaction.commit()?;
        Ok((self.used + added).saturating_sub(removed))
    }

    /// Reopens the file after an error, and removes the rows of the failed commit.
    fn reopen(&self) -> Result<(Database, u64), redb::Error> {
        let file = File::options().read(true).write(true).open(self.dir.data())?;
        let database = open_database(&self.open_file, file, &self.sync_failure)?;
        let transaction = database.begin_write()?;
        let failed = self.current.next().get()..;
        let mut log = transaction.open_table(LOG)?;
        let mut has_reached_disk = false;
        log.retain_in(failed, |_, _| {
            has_reached_disk = true;
            false
        })?;
        let mut used = self.used;
        // Rows are only counted if some may have gone with the failed commit.
        if has_reached_disk || self.may_have_removed {
            used = 0;
            for row in log.iter()? {
                used += row?.1.value().len() as u64;
            }
        }
        drop(log);
        transaction
            .open_table(META)?
            .insert(COMPACTED, self.compacted.get())?;
        transaction.commit()?;
        Ok((database, used))
    }
}

/// Returns the bytes of the rows removed and of the rows added.
fn write(transaction: &WriteTransaction, commit: &Commit<'_>) -> Result<(u64, u64), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    let (mut removed, mut added) = (0, 0);
    for revision in commit.garbage {
        let row = log.remove(revision.get())?;
        removed += row.map_or(0, |row| row.value().len() as u64);
    }
    for record in commit.records {
        let len = row::len(record);
        let mut space = log.insert_reserve(record.revision.get(), len)?;
        row::write(record, space.as_mut());
        added += len as u64;
    }
    if let Some(revision) = commit.compacted {
        transaction.open_table(META)?.insert(COMPACTED, revision.get())?;
    }
    Ok((removed, added))
}
