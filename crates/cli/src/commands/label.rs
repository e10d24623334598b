//! `label`: labels on existing objects.

use clap::Args;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::marks::{self, MarkArguments, MarkKind};
use crate::session::Session;

/// Set or remove labels of objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper label pod web tier=front
  watchkeeper label pods --all tier=front --overwrite
  watchkeeper label pod/web tier-")]
pub(crate) struct Label {
    #[command(flatten)]
    arguments: MarkArguments,
}

/// Labels.
pub(crate) async fn run(label: Label, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let kind = MarkKind {
        field: "labels",
        one: "label",
        done: "labeled",
        not_done: "not labeled",
        undone: "unlabeled",
    };
    marks::run(label.arguments, kind, cluster, session).await
}
