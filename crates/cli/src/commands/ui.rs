//! `ui`: a cluster in the browser, live.

use clap::Args;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::page::OpenPage;
use crate::session::Session;
use crate::stop::Stop;
use crate::watched::Watched;

/// Look at a cluster in the browser, live
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper ui                          every kind that can be watched, but for Secrets
  watchkeeper ui pods,deployments -n shop
  watchkeeper ui --port 8080

The page shows objects with the server's columns, changes field by field with who made them, a
timeline and owner trees. It is read-only, is served on loopback only, and never sees the
credentials of the cluster.")]
pub(crate) struct Ui {
    #[command(flatten)]
    watched: Watched,

    /// The port on loopback; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// Serves the page until somebody ends it.
pub(crate) async fn run(ui: Ui, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let what = ui.watched.options(cluster).await?;
    let mut stop = Stop::listen();
    let title = cluster.client.server_url();
    let page = OpenPage::serve(cluster.client.clone(), what, ui.port, &title).await?;
    session.out.line(page.line());
    stop.requested().await;
    Ok(())
}
