//! The encoding of a record: one row of the log, under its revision.
//!
//! ```text
//! 0   checksum         u32   CRC-32 of the revision and of everything after this field
//! 4   flags            u8    1: has a value, 2: expires
//! 5   create revision  u64
//! 13  written at       u64   milliseconds since 1970
//! 21  expires at       u64   0 unless flag 2 is set
//! 29  key length       u32
//! 33  key, then value
//! ```
//!
//! Numbers are little endian. The checksum covers the revision, so that a row found in the wrong place is noticed.

use bytes::Bytes;

use crate::model::Record;
use crate::transform::Seal;
use crate::{Key, Revision, Value};

const CHECKSUM: usize = 4;
const HEADER: usize = 33;
const HAS_VALUE: u8 = 1;
const EXPIRES: u8 = 2;

/// The errors of a row.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    #[error("the row of revision {0} is too short")]
    Truncated(Revision),
    #[error("the row of revision {0} has a wrong checksum")]
    Checksum(Revision),
    #[error("the row of revision {0} holds a key that is not text")]
    Key(Revision),
}

/// The encoded length of a record.
pub(crate) fn len(record: &Record) -> usize {
    HEADER + record.key.len() + record.value.as_ref().map_or(0, Value::len)
}

/// Writes a record into a buffer of exactly [`len`] bytes.
pub(crate) fn write(record: &Record, row: &mut [u8]) {
    let (header, rest) = row.split_at_mut(HEADER);
    let has_value = if record.value.is_some() { HAS_VALUE } else { 0 };
    let expires = if record.expires_at.is_some() { EXPIRES } else { 0 };
    header[4] = has_value | expires;
    header[5..13].copy_from_slice(&record.create_revision.get().to_le_bytes());
    header[13..21].copy_from_slice(&record.written_at.to_le_bytes());
    header[21..29].copy_from_slice(&record.expires_at.unwrap_or(0).to_le_bytes());
    header[29..33].copy_from_slice(&(record.key.len() as u32).to_le_bytes());
    let (key, value) = rest.split_at_mut(record.key.len());
    key.copy_from_slice(record.key.as_bytes());
    value.copy_from_slice(&record.value.as_ref().map(Value::bytes).unwrap_or_default());
    let checksum = checksum(record.revision, &row[CHECKSUM..]);
    row[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// Decodes a row. The value is copied into an allocation of its own size.
pub(crate) fn read(revision: Revision, row: &[u8]) -> Result<Record, RowError> {
    let (header, rest) = row
        .split_first_chunk::<HEADER>()
        .ok_or(RowError::Truncated(revision))?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| header[at + index]));
    let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| header[at + index]));
    if short(0) != checksum(revision, &row[CHECKSUM..]) {
        return Err(RowError::Checksum(revision));
    }
    let (key, value) = rest
        .split_at_checked(short(29) as usize)
        .ok_or(RowError::Truncated(revision))?;
    let flags = header[4];
    Ok(Record {
        revision,
        key: Key::from(std::str::from_utf8(key).map_err(|_| RowError::Key(revision))?),
        value: (flags & HAS_VALUE != 0).then(|| Bytes::copy_from_slice(value).into()),
        create_revision: Revision::new(number(5)),
        written_at: number(13),
        expires_at: (flags & EXPIRES != 0).then(|| number(21)),
        seal: Seal::Current,
    })
}

fn checksum(revision: Revision, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.get().to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: Option<&'static str>, expires_at: Option<u64>) -> Record {
        Record {
            revision: Revision::new(9),
            key: Key::from("/pods/a"),
            value: value.map(Into::into),
            create_revision: Revision::new(5),
            written_at: 1_700_000_000_000,
            expires_at,
            seal: Seal::Current,
        }
    }

    fn row(record: &Record) -> Vec<u8> {
        let mut row = vec![0; len(record)];
        write(record, &mut row);
        row
    }

    #[test]
    fn rows_are_read_back() {
        for record in [
            record(Some("value"), None),
            record(Some(""), Some(1)),
            record(None, None),
        ] {
            assert_eq!(read(record.revision, &row(&record)), Ok(record));
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let good = row(&record(Some("value"), Some(1)));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(Revision::new(9), &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn short_and_misplaced_rows_are_detected() {
        let good = row(&record(Some("value"), None));
        for length in 0..good.len() {
            assert!(read(Revision::new(9), &good[..length]).is_err(), "{length} bytes");
        }
        let misplaced = Revision::new(8);
        assert_eq!(read(misplaced, &good), Err(RowError::Checksum(misplaced)));
    }
}
