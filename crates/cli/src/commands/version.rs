//! `version`: the versions of this program and of the server.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::json;
use watchkeeper_wire::yaml;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::session::Session;

/// The largest version document.
const MAX_VERSION: usize = 1 << 20;

/// Print the versions of this program and of the server
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper version
  watchkeeper version --client")]
pub(crate) struct Version {
    /// Do not contact the server
    #[arg(long)]
    client: bool,

    /// Output format: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

/// Prints the client version first: it is known even if no server answers.
pub(crate) async fn run(
    version: Version,
    cluster: Result<Cluster, Failure>,
    session: &mut Session,
) -> Result<(), Failure> {
    let ours = format!("v{}", env!("CARGO_PKG_VERSION"));
    let Some(format) = version.output else {
        writeln!(session.out, "Client Version: {ours}")?;
        if !version.client {
            session.out.flush()?;
            let server = cluster?.client.server_version().await?;
            writeln!(session.out, "Server Version: {}", server.git_version)?;
        }
        return Ok(());
    };
    let mut versions = json!({"clientVersion": {"gitVersion": ours}});
    if !version.client {
        let bytes = cluster?.client.get_raw("/version", MAX_VERSION).await?;
        versions["serverVersion"] = serde_json::from_slice(&bytes).map_err(Failure::other)?;
    }
    let text = match format {
        Format::Json => serde_json::to_string_pretty(&versions).map_err(Failure::other)? + "\n",
        Format::Yaml => yaml::to_string(&versions),
    };
    Ok(session.out.write_all(text.as_bytes())?)
}
