//! `verify`: checks the integrity of a data directory or a backup.

use std::path::PathBuf;

use clap::Args;
use watchkeeper_storage::{BackupSummary, verify_directory};

use crate::failure::Failure;
use crate::maintenance::{no_backup, not_opened};
use crate::session::Session;

/// Check a data directory or a backup without changing it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper verify ./data           a data directory that no server uses
  watchkeeper verify monday.backup    a backup")]
pub(crate) struct Verify {
    /// A data directory or a backup
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

pub(crate) fn run(verify: &Verify, session: &mut Session) -> Result<(), Failure> {
    let path = verify.path.display();
    let line = match verify.path.is_file() {
        true => {
            let found = BackupSummary::verify(&verify.path).map_err(no_backup)?;
            format!(
                "{path}: a whole backup of {} keys at revision {}, {} bytes",
                found.keys, found.revision, found.bytes
            )
        }
        false => {
            let found = verify_directory(&verify.path).map_err(not_opened)?;
            format!(
                "{path}: whole, format {}, {} keys at revision {}, {} records of {} bytes in a file of {} bytes",
                found.format, found.keys, found.revision, found.records, found.used_bytes, found.file_bytes
            )
        }
    };
    session.out.line(line);
    Ok(())
}
