//! `compact`: drops the history of a store.

use std::path::PathBuf;

use clap::Args;

use crate::cluster::Cluster;
use crate::cluster_arguments::ClusterArguments;
use crate::failure::Failure;
use crate::maintenance::{Status, open, post};
use crate::session::Session;

/// Drop the history of a store
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper compact                      of the running server of the current context
  watchkeeper compact --data-dir ./data    of a data directory that no server uses

A server does this by itself for what is older than five minutes. Watches that are behind are told
to list anew.")]
pub(crate) struct Compact {
    /// Work on this data directory instead of asking a server
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(crate) async fn run(
    compact: Compact,
    typed: &ClusterArguments,
    verbosity: i32,
    session: &mut Session,
) -> Result<(), Failure> {
    let status = match &compact.data_dir {
        Some(dir) => {
            let store = open(dir).await?;
            let current = store.current_revision();
            store.compact(current).await.map_err(Failure::other)?;
            let status = Status::of(&store);
            store.close().await;
            status
        }
        None => post(&Cluster::new(typed, verbosity, session)?, "compact").await?,
    };
    session
        .out
        .line(format!("compacted at revision {}", status.compacted_revision));
    Ok(())
}
