//! The backend of the data file, which remembers whether an fsync failed.
//!
//! After a failed `fsync` the content of the disk is unknown: the system may have dropped the dirty pages and still
//! show them to readers of the file. Reading it back proves nothing, and another `fsync` succeeds without writing them.
//! So there is no retry: the store accepts no writes until it is reopened from what the disk really has
//! ([`drop_cached_pages`]).

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;

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

/// Asks the system to drop cached pages of a file, so that reads reach the disk. Dirty pages stay.
pub(crate) fn drop_cached_pages(file: &File) {
    #[cfg(target_os = "linux")]
    // This is a hint. If the system ignores it, reads may come from its cache.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
