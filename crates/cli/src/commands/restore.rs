//! `restore`: creates a data directory from a backup.

use std::path::PathBuf;

use clap::Args;
use watchkeeper_storage::{RestoreOptions, restore_directory};

use crate::failure::Failure;
use crate::maintenance::no_backup;
use crate::session::Session;

/// Create a data directory from a backup
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper restore monday.backup --data-dir ./restored
  watchkeeper up --data-dir ./restored

Objects keep their versions and uids, and the server its certificates and tokens. A directory that
has a store is left alone. If clients have seen what was written after the backup, add
--bump-revision 1000000000: they then list anew, instead of going on from versions that come to
mean something else.")]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Directory to create; it must not contain a store
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// Increase the revision by this
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    bump_revision: u64,
}

pub(crate) fn run(restore: &Restore, session: &mut Session) -> Result<(), Failure> {
    let options = RestoreOptions {
        bump_revision: restore.bump_revision,
    };
    let summary = restore_directory(&restore.file, &restore.data_dir, &options).map_err(no_backup)?;
    session.out.line(format!(
        "{}: {} keys at revision {}; start it with: watchkeeper up --data-dir {}",
        restore.data_dir.display(),
        summary.keys,
        summary.revision.get() + restore.bump_revision,
        restore.data_dir.display()
    ));
    Ok(())
}
