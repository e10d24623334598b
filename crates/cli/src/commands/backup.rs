//! `backup`: the content of a store at one revision, in one file.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use watchkeeper_storage::{BackupFile, BackupSummary, back_up_directory};

use crate::cluster::Cluster;
use crate::cluster_arguments::ClusterArguments;
use crate::failure::Failure;
use crate::maintenance::{no_backup, not_opened, send};
use crate::session::Session;

/// Save the content of a server's store to a file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper backup monday.backup                    of the server of the current context
  watchkeeper backup monday.backup --data-dir ./data  of a data directory that no server uses

The file holds every object, secrets included, at one revision, and the identity of the server. It
is read back before it gets its name, and an existing file is never overwritten. Restore it with:
watchkeeper restore FILE --data-dir DIR")]
pub(crate) struct Backup {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Read this data directory instead of asking a server
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(crate) async fn run(
    backup: Backup,
    typed: &ClusterArguments,
    verbosity: i32,
    session: &mut Session,
) -> Result<(), Failure> {
    let file = BackupFile::create(&backup.file).map_err(no_backup)?;
    let summary = match &backup.data_dir {
        Some(dir) => {
            let mut file = file;
            for piece in back_up_directory(dir).map_err(not_opened)? {
                let piece = piece.map_err(Failure::other)?;
                file.write(&piece).map_err(no_backup)?;
            }
            file.finish().map_err(no_backup)?
        }
        None => download(&Cluster::new(typed, verbosity, session)?, file).await?,
    };
    session.out.line(format!(
        "{}: {} keys at revision {}, {} bytes",
        backup.file.display(),
        summary.keys,
        summary.revision,
        summary.bytes
    ));
    Ok(())
}

async fn download(cluster: &Cluster, mut file: BackupFile) -> Result<BackupSummary, Failure> {
    let mut body = send(cluster, Method::GET, "backup").await?.into_body();
    while let Some(piece) = body.chunk().await {
        file.write(&piece.map_err(Failure::other)?).map_err(no_backup)?;
    }
    file.finish().map_err(no_backup)
}
