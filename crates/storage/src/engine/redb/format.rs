//! The formats that a data file has had, and the way from an older one to the current one.
//!
//! | format | difference |
//! |---|---|
//! | 1 | a log of records, and the compacted revision |
//! | 2 | values may be encrypted: they begin with `k8s:enc:`. A program that knows format 1 only would serve them as they are |
//!
//! A file is upgraded when a store is opened to be written to, in one transaction, after all of it was read. Whoever only
//! looks at a file (`verify`, `backup`) leaves its format as it is. There is no way back: a backup from before the upgrade
//! can be restored by the older program.

use std::path::Path;

use redb::{Database, ReadTransaction};

use super::{COMPACTED, META, open_error, table_error};
use crate::{OpenError, Revision};

/// The name of the format's number in the `meta` table.
pub(crate) const FORMAT: &str = "format";

/// The format of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Format {
    V1 = 1,
    V2 = 2,
}

impl Format {
    /// The format that this code writes.
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

/// The format of a file and the revision it was compacted at.
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

/// Brings a file that was read as a whole to the current format.
pub(crate) fn upgrade(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction
        .open_table(META)?
        .insert(FORMAT, Format::CURRENT.number())?;
    transaction.commit()?;
    Ok(())
}
