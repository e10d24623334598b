//! An untrusted backup is read completely or rejected.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use watchkeeper_storage::BackupSummary;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(summary) = BackupSummary::read(bytes, Path::new("backup")) {
        assert_eq!(summary.bytes, bytes.len() as u64);
    }
});
