//! The formats of the data file, and the upgrade from older ones.
//!
//! | format | difference |
//! |---|---|
//! | 1 | a log of records, and the compacted revision |
//! | 2 | values may be encrypted: they start with `k8s:enc:`. A program that only knows format 1 would serve them
//! encrypted |
//!
//! Opening a store for writing upgrades the file, in one transaction, after all of it was read. Read-only commands
//! (`verify`, `backup`) leave the format alone. There is no downgrade; a backup from before the upgrade can be restored
//! by the older program.

use std::path::Path;

use redb::{Database, ReadTransaction};

use super::{COMPACTED, META, open_error, table_error};
use crate::{OpenError, Revision};

/// The key of the format version in the `meta` table.
pub(crate) const FORMAT: &str = "format";

/// The format of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Format {
    V1 = 1,
    V2 = 2,
}

impl Format {
    /// The format that this version writes.
    pub(crate) const CURRENT: Self = Self::V2;

    pub(crate) fn number(self) -> u64 {
        self as u64
    }

    fn of(number: u64) -> Option<Self> {
        [Self::V1, Self::V2]
            .into_iter()
            .find(|format| format.number() == number)
    }
}

/// The format of a file and its compacted revision.
pub(crate) fn read_meta(transaction: &ReadTransaction, path: &Path) -> Result<(Format, Revision), OpenError> {
    let meta = transaction
        .open_table(META)
        .map_err(|error| table_error(path, error))?;
    let number = |name| match meta.get(name) {
        Ok(Some(found)) => Ok(found.value()),
        Ok(None) => Err(OpenError::damaged(path, format!("{name:?} is missing"))),
        Err(error) => Err(open_error(path, error.into())),
    };
    let found = number(FORMAT)?;
    match Format::of(found) {
        Some(format) => Ok((format, Revision::new(number(COMPACTED)?))),
        None if found > Format::CURRENT.number() => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            supported: Format::CURRENT.number(),
        }),
        None => Err(OpenError::damaged(path, format!("there is no format {found}"))),
    }
}

/// Upgrades a file, which was read completely before, to the current format.
pub(crate) fn upgrade(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction
        .open_table(META)?
        .insert(FORMAT, Format::CURRENT.number())?;
    transaction.commit()?;
    Ok(())
}
