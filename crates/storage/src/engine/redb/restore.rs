//! Restores a backup into a data directory.
//!
//! ```text
//! check the whole backup ▶ write a data file under a temporary name ▶ close it ▶ read it back ▶ rename it
//! ```
//!
//! A failure leaves no store behind, so the command can be repeated.

use std::fs::File;
use std::path::Path;

use redb::backends::FileBackend;

use super::data_dir::{DataDir, io_error};
use super::disk::SyncFailure;
use super::panics::caught;
use super::verify::{View, verify};
use super::{LOG, OpenFile, builder, init_tables, open_database, open_error, recover, row, unreadable_page};
use crate::backup::{BackupError, BackupReader};
use crate::transform::Values;
use crate::{BackupSummary, OpenError, Revision};

/// The size of a transaction in bytes.
const TRANSACTION_BYTES: usize = 8 << 20;

/// Options of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Added to the revision of the store. Clients that have seen writes made after the backup then find their resource
    /// versions expired, and list again. Without it, a version that they remember may get a new meaning.
    pub bump_revision: u64,
}

/// Creates a store from a backup, in a directory that has none.
pub fn restore_directory(
    backup: impl AsRef<Path>,
    dir: impl AsRef<Path>,
    options: &RestoreOptions,
) -> Result<BackupSummary, BackupError> {
    let open_file: OpenFile = Box::new(|file| Ok(Box::new(FileBackend::new(file)?)));
    let (backup, dir) = (backup.as_ref(), dir.as_ref());
    caught(|| restore_with(backup, dir, options, &open_file))
        .unwrap_or_else(|panic| Err(unreadable_page(dir, &panic).into()))
}

pub(super) fn restore_with(
    backup: &Path,
    dir: &Path,
    options: &RestoreOptions,
    open_file: &OpenFile,
) -> Result<BackupSummary, BackupError> {
    let summary = BackupSummary::verify(backup)?;
    let revision = summary.revision.get().checked_add(options.bump_revision);
    let revision = revision.map(Revision::new).ok_or_else(|| BackupError::Damaged {
        path: backup.to_owned(),
        detail: format!("revision {} cannot grow that much", summary.revision),
    })?;
    let dir = DataDir::acquire(dir)?;
    let data = dir.data();
    if data.try_exists().map_err(BackupError::io("look for", &data))? {
        return Err(BackupError::Exists { path: data });
    }
    let mut failure = None;
    let filled = dir.init(|file| {
        let copy = file.try_clone().map_err(io_error("use the data file", &data))?;
        fill(backup, &data, revision, copy, open_file).map_err(|error| match error {
            BackupError::Store(error) => error,
            error => {
                let detail = OpenError::damaged(backup, &error);
                failure = Some(error);
                detail
            }
        })?;
        read_back(&data, file, revision, &summary)
    });
    match (filled, failure) {
        (_, Some(error)) => Err(error),
        (filled, None) => filled.map(|()| summary).map_err(Into::into),
    }
}

/// Writes all rows of a backup into a new data file.
fn fill(
    backup: &Path,
    data: &Path,
    revision: Revision,
    file: File,
    open_file: &OpenFile,
) -> Result<(), BackupError> {
    let fail = |error: redb::Error| BackupError::from(open_error(data, error));
    let database =
        open_database(open_file, file, &SyncFailure::default()).map_err(|error| fail(error.into()))?;
    init_tables(&database, revision).map_err(fail)?;
    let mut reader = BackupReader::open(backup)?;
    loop {
        let mut bytes = 0;
        let transaction = database.begin_write().map_err(|error| fail(error.into()))?;
        let mut log = transaction.open_table(LOG).map_err(|error| fail(error.into()))?;
        while bytes < TRANSACTION_BYTES
            && let Some(record) = reader.next()?
        {
            let mut row = vec![0; row::len(&record)];
            row::write(&record, &mut row);
            bytes += row.len();
            let replaced = log.insert(record.revision.get(), row.as_slice());
            if replaced.map_err(|error| fail(error.into()))?.is_some() {
                return Err(BackupError::Damaged {
                    path: backup.to_owned(),
                    detail: format!(
                        "two keys have revision {}, which only etcd can hold",
                        record.revision
                    ),
                });
            }
        }
        drop(log);
        transaction.commit().map_err(|error| fail(error.into()))?;
        if bytes == 0 {
            return Ok(());
        }
    }
}

/// Checks that a data file has the expected content.
fn read_back(data: &Path, file: File, revision: Revision, summary: &BackupSummary) -> Result<(), OpenError> {
    let fail = |error: redb::Error| open_error(data, error);
    let copy = file.try_clone().map_err(io_error("use the data file", data))?;
    verify(copy).map_err(fail)?;
    let view = View::of(file).map_err(fail)?;
    let database = builder()
        .create_with_backend(view)
        .map_err(|error| fail(error.into()))?;
    let contents = recover(&database, data, 0, &Values::Raw, None)?;
    let mvcc = &contents.recovered.mvcc;
    let keys = mvcc.iter().count() as u64;
    if (mvcc.current(), keys) != (revision, summary.keys) {
        let detail = format!("{keys} of {} keys were written", summary.keys);
        return Err(OpenError::damaged(data, detail));
    }
    Ok(())
}
