//! The data file as redb uses it, which remembers whether synchronising it ever failed.
//!
//! After a failed `fsync` nobody knows what is on the disk: the system may have thrown the changed pages away and still
//! show them to whoever reads the file. Reading it again proves nothing, and another `fsync` succeeds without having
//! written them. So there is no second try: the store takes no further write until it is opened anew, from what the
//! disk really has ([`forget_cached_pages`]).

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;

/// Whether synchronising has failed. Clones tell the same.
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

/// A file, and what became of it.
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

/// Makes the system read a file from the disk again, as far as it can be told to. Pages that are yet to be written stay.
pub(crate) fn forget_cached_pages(file: &File) {
    #[cfg(target_os = "linux")]
    // It is advice: where it is not taken, the file is read as the system remembers it.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
