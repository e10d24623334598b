//! `version`: ours, and the server's.

use std::io::Write as _;

use clap::Args;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::session::Session;

/// Print the versions of this program and of the server
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper version
  watchkeeper version --client")]
pub(crate) struct Version {
    /// Do not ask the server
    #[arg(long)]
    client: bool,
}

/// Prints ours first: it is known even when no server answers.
pub(crate) async fn run(
    version: Version,
    cluster: Result<Cluster, Failure>,
    session: &mut Session,
) -> Result<(), Failure> {
    writeln!(session.out, "Client Version: v{}", env!("CARGO_PKG_VERSION"))?;
    if version.client {
        return Ok(());
    }
    session.out.flush()?;
    let server = cluster?.client.server_version().await?;
    writeln!(session.out, "Server Version: {}", server.git_version)?;
    Ok(())
}
