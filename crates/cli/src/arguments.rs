//! The arguments of all commands.

use clap::Parser;

use crate::cluster_arguments::ClusterArguments;
use crate::commands::Command;

/// A local Kubernetes cluster in one program, and commands for any cluster.
#[derive(Debug, Parser)]
#[command(name = "watchkeeper", bin_name = "watchkeeper", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    #[command(flatten, next_help_heading = "Logging")]
    pub(crate) logging: watchkeeper_logging::Options,
}

const EXAMPLES: &str = "Examples:
  watchkeeper demo                      a live cluster, with nothing installed
  watchkeeper up                        a local API server for kubectl and any client
  watchkeeper get pods -A               list objects
  watchkeeper watch pods deployments    watch events";
