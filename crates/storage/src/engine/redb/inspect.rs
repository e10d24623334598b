//! Read-only access to a data directory that no server uses.

use std::path::Path;

use redb::Database;

use super::data_dir::{DataDir, io_error};
use super::panics::caught;
use super::verify::View;
use super::{Contents, builder, open_error, recover, unreadable_page};
use crate::clock::Clock;
use crate::transform::Values;
use crate::{Backup, OpenError, Revision, Snapshot};

/// The content of a data directory, after a complete check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The format of its data file.
    pub format: u64,
    /// The revision of the last write.
    pub revision: Revision,
    /// The oldest revision that can still be read; zero if all can.
    pub compacted: Revision,
    /// The number of keys with a value.
    pub keys: u64,
    /// The number of records, history included.
    pub records: u64,
    /// Their bytes.
    pub used_bytes: u64,
    /// Bytes of the data file.
    pub file_bytes: u64,
}

/// Reads and checks a data directory: every page, every row, every revision. Nothing is changed, not even a file that
/// the next start would repair after a crash.
pub fn verify_directory(dir: impl AsRef<Path>) -> Result<Verified, OpenError> {
    let (contents, file_bytes) = read(dir.as_ref())?;
    let mvcc = &contents.recovered.mvcc;
    Ok(Verified {
        format: contents.format.number(),
        revision: mvcc.current(),
        compacted: mvcc.compacted(),
        keys: mvcc.iter().count() as u64,
        records: contents.rows,
        used_bytes: contents.used,
        file_bytes,
    })
}

/// Makes a backup of a data directory that no server uses, after a complete check.
pub fn back_up_directory(dir: impl AsRef<Path>) -> Result<Backup, OpenError> {
    let (contents, _) = read(dir.as_ref())?;
    Ok(Backup::of(&Snapshot(contents.recovered.mvcc), Values::Raw))
}

fn read(dir: &Path) -> Result<(Contents, u64), OpenError> {
    caught(|| read_checked(dir)).unwrap_or_else(|panic| Err(unreadable_page(dir, &panic)))
}

fn read_checked(dir: &Path) -> Result<(Contents, u64), OpenError> {
    let dir = DataDir::acquire_existing(dir)?;
    let (data, file) = (dir.data(), dir.open_data()?);
    let file_bytes = file
        .metadata()
        .map_err(io_error("look at the data file", &data))?
        .len();
    let database = open_view(file).map_err(|error| open_error(&data, error))?;
    let contents = recover(&database, &data, Clock::start().now(), &Values::Raw, None)?;
    Ok((contents, file_bytes))
}

/// Opens a file as the next start would, on a view that discards changes.
fn open_view(file: std::fs::File) -> Result<Database, redb::Error> {
    let copy = file.try_clone()?;
    super::verify::verify(copy)?;
    Ok(builder().create_with_backend(View::of(file)?)?)
}
