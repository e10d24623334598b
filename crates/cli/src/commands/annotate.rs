//! `annotate`: annotations on existing objects.

use clap::Args;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::marks::{self, MarkArguments, MarkKind};
use crate::session::Session;

/// Set or remove annotations of objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper annotate pod web note='seen by me'
  watchkeeper annotate pod/web note-")]
pub(crate) struct Annotate {
    #[command(flatten)]
    arguments: MarkArguments,
}

/// Annotates.
pub(crate) async fn run(annotate: Annotate, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let kind = MarkKind {
        field: "annotations",
        one: "annotation",
        // As in kubectl, which does not say whether annotating has changed anything.
        done: "annotated",
        not_done: "annotated",
        undone: "annotated",
    };
    marks::run(annotate.arguments, kind, cluster, session).await
}
