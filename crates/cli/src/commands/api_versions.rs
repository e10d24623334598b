//! `api-versions`: the groups and versions the server serves.

use std::io::Write as _;

use clap::Args;
use watchkeeper_meta::GroupVersion;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::session::Session;

/// Print the API versions of the server, as "group/version"
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper api-versions")]
pub(crate) struct ApiVersions {}

/// Prints them sorted.
pub(crate) async fn run(cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let discovery = cluster.discovery.get().await?;
    let mut names: Vec<_> = discovery
        .groups
        .iter()
        .flat_map(|group| {
            group
                .versions
                .iter()
                .map(|version| (&group.name, &version.version))
        })
        .map(|(group, version)| GroupVersion::new(group.clone(), version.clone()).to_string())
        .collect();
    names.sort();
    for name in names {
        writeln!(session.out, "{name}")?;
    }
    Ok(())
}
