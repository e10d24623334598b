//! Verifies that a file is as redb left it, before redb may write to it.
//!
//! redb trusts a file that was closed properly: it verifies neither checksums nor the list of free pages, and would
//! overwrite live data if that list were wrong. It can check everything on request, but then it also repairs, possibly
//! by rolling back to an older state. A store must not lose acknowledged writes silently. So the check runs on a view
//! of the file that discards changes, and a file that would need repair is rejected.
//!
//! A file that was *not* closed properly is verified by redb itself when it is opened. Rolling back is correct there if
//! the last commit was incomplete. Damage to exactly that commit's pages cannot be distinguished from an incomplete
//! commit.

use std::fs::File;
use std::io;

use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend, StorageError};

use super::builder;

/// The way a file was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The store was closed.
    Properly,
    /// The store crashed, or its disk failed.
    Abruptly,
}

/// Returns how a file was closed. Fails if it was closed properly and has changed since.
pub(crate) fn verify(file: File) -> Result<Closed, redb::Error> {
    let view = View::of(file)?;
    let mut builder = builder();
    builder.set_repair_callback(|session| session.abort());
    match builder.create_with_backend(view) {
        Ok(mut database) => match database.check_integrity()? {
            true => Ok(Closed::Properly),
            false => Err(StorageError::Corrupted("pages have changed since it was closed".to_owned()).into()),
        },
        // Not closed properly: opening it verifies it.
        Err(DatabaseError::RepairAborted) => Ok(Closed::Abruptly),
        Err(error) => Err(error.into()),
    }
}

/// A view of a file that discards changes.
#[derive(Debug)]
pub(crate) struct View {
    file: FileBackend,
    len: Mutex<u64>,
    /// The writes, oldest first. A check writes very little.
    changes: Mutex<Vec<(u64, Box<[u8]>)>>,
}

impl View {
    pub(crate) fn of(file: File) -> Result<Self, redb::Error> {
        Ok(Self {
            len: Mutex::new(file.metadata()?.len()),
            file: FileBackend::new(file)?,
            changes: Mutex::default(),
        })
    }
}

impl StorageBackend for View {
    fn len(&self) -> io::Result<u64> {
        Ok(*self.len.lock())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset + out.len() as u64;
        if end > *self.len.lock() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let in_file = self.file.len()?.clamp(offset, end) - offset;
        let (from_file, beyond) = out.split_at_mut(in_file as usize);
        self.file.read(offset, from_file)?;
        beyond.fill(0);
        for (start, data) in self.changes.lock().iter() {
            overlay(offset, out, *start, data);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        *self.len.lock() = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.changes.lock().push((offset, data.into()));
        Ok(())
    }
}

/// Copies the overlap of `data`, which starts at `start`, into `out`, which starts at `offset`.
fn overlay(offset: u64, out: &mut [u8], start: u64, data: &[u8]) {
    let from = offset.max(start);
    let to = (offset + out.len() as u64).min(start + data.len() as u64);
    if from < to {
        let shown = &data[(from - start) as usize..(to - start) as usize];
        out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_include_earlier_writes() {
        let check = |start, data: &str, shown: &str| {
            let mut out = *b"....";
            overlay(10, &mut out, start, data.as_bytes());
            assert_eq!(std::str::from_utf8(&out).unwrap(), shown, "{data:?} at {start}");
        };
        check(10, "abcd", "abcd");
        check(11, "ab", ".ab.");
        check(8, "abc", "c...");
        check(13, "abc", "...a");
        check(8, "abcdefgh", "cdef");
        check(14, "abc", "....");
        check(7, "abc", "....");
    }
}
