//! `defragment`: returns free space of a data file to the file system.

use std::path::PathBuf;

use clap::Args;

use crate::cluster::Cluster;
use crate::cluster_arguments::ClusterArguments;
use crate::failure::Failure;
use crate::maintenance::{Status, open, post};
use crate::session::Session;

/// Return free space of a data file to the file system
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper defragment                      of the server of the current context; writes wait
  watchkeeper defragment --data-dir ./data    of a data directory that no server uses

Run compact before it. The members of an etcd are defragmented with etcdctl.")]
pub(crate) struct Defragment {
    /// Work on this data directory instead of asking a server
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(crate) async fn run(
    defragment: Defragment,
    typed: &ClusterArguments,
    verbosity: i32,
    session: &mut Session,
) -> Result<(), Failure> {
    let status = match &defragment.data_dir {
        Some(dir) => {
            let store = open(dir).await?;
            store.defragment().await.map_err(Failure::other)?;
            let status = Status::of(&store);
            store.close().await;
            status
        }
        None => post(&Cluster::new(typed, verbosity, session)?, "defragment").await?,
    };
    session.out.line(format!(
        "{} bytes of records in a file of {} bytes",
        status.used_bytes, status.file_bytes
    ));
    Ok(())
}
