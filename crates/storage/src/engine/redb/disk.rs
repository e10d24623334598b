//! The backend of the data file, which remembers whether an fsync failed.
//!
//! After a failed `fsync` the content of the disk is unknown: the system may have dropped the dirty pages and still
//! show them to readers of the file. Reading it back proves nothing, and another `fsync` succeeds without writing them.
//! So there is no retry: the store accepts no writes until it is reopened from what the disk really has
//! ([`read_again`]).

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redb::StorageBackend;

/// A file is read in pieces of this size.
const READ_BYTES: usize = 4 << 20;

/// A row is written with the page it is in; small ones share a page.
const PAGES_PER_ROW: u64 = 2;

/// The pages above the rows of a commit, and what redb writes of its own.
const SPARE_BYTES: u64 = 1 << 20;

/// True once an fsync has failed. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncFailure(Arc<AtomicBool>);

impl SyncFailure {
    pub(crate) fn happened(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn note(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A file that records a failed fsync.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) file: Box<dyn StorageBackend>,
    pub(crate) sync_failure: SyncFailure,
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data().inspect_err(|_| self.sync_failure.note())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// Asks the system to drop cached pages of a file, so that it is read from the disk again. Dirty pages stay.
///
/// The trees of the file are walked next, three times, in key order: with a cold cache a walk waits for the disk at
/// nearly every page. So a thread reads the file from beginning to end meanwhile. It ignores errors; the walk reports
/// them.
#[cfg(target_os = "linux")]
pub(crate) fn read_again(file: &File) {
    use std::os::unix::fs::FileExt as _;

    // This is a hint. If the system ignores it, reads may come from its cache.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    let Ok(file) = file.try_clone() else { return };
    thread::spawn(move || {
        let (mut buffer, mut offset) = (vec![0; READ_BYTES], 0);
        while let Ok(read @ 1..) = file.read_at(&mut buffer, offset) {
            offset += read as u64;
        }
    });
}

/// Other systems have no such hint; pages may come from their cache.
#[cfg(not(target_os = "linux"))]
pub(crate) fn read_again(_: &File) {}

/// True if the disk has no room for that many bytes and a reserve; false if its free space is unknown.
pub(crate) fn is_full(file: &File, bytes: u64) -> bool {
    #[cfg(unix)]
    // Blocks that are reserved for the superuser count as free: the system knows who may use them.
    let free = rustix::fs::fstatvfs(file).map(|found| found.f_bfree.saturating_mul(found.f_frsize));
    #[cfg(not(unix))]
    let free: Result<u64, io::Error> = {
        let _ = file;
        Err(io::ErrorKind::Unsupported.into())
    };
    free.is_ok_and(|free| free < bytes.saturating_mul(PAGES_PER_ROW) + SPARE_BYTES)
}
