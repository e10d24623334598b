//! `ui`: a cluster in the browser, live, or a recording of one as of any moment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use watchkeeper_recording::Recording;
use watchkeeper_replay::{LoadOptions, Replay};
use watchkeeper_view::recorded::RecordedView;
use watchkeeper_view::web::{PageOptions, Subject};

use crate::cluster::{Cluster, client_options};
use crate::failure::Failure;
use crate::page::OpenPage;
use crate::session::Session;
use crate::stop::Stop;
use crate::watched::Watched;

/// Look at a cluster in the browser, live
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper ui                             every kind that can be watched, but for Secrets
  watchkeeper ui pods,deployments -n shop
  watchkeeper ui --recording incident.rec    a recording, as of any moment
  watchkeeper ui --allow-writes              delete, scale and edit objects on the page

The page shows objects with the server's columns, changes field by field with who made them, a
timeline and owner trees. It is served on loopback only, never sees the credentials of the
cluster, and is read-only without --allow-writes.")]
pub(crate) struct Ui {
    #[command(flatten)]
    watched: Watched,

    /// The port on loopback; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Look at this recording instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with = "allow_writes")]
    recording: Option<PathBuf>,

    /// Objects may be deleted, scaled and edited on the page, with your rights
    #[arg(long)]
    allow_writes: bool,
}

impl Ui {
    /// The recording to look at, if one was named.
    pub(crate) fn recording(&self) -> Option<PathBuf> {
        self.recording.clone()
    }

    /// True if every kind is read, and nothing is written.
    pub(crate) fn only_reads_all_kinds(&self) -> bool {
        self.watched.is_everything() && !self.allow_writes
    }

    fn options(&self, title: &str) -> PageOptions {
        PageOptions {
            port: self.port,
            title: title.to_owned(),
            allow_writes: self.allow_writes,
        }
    }
}

/// Serves the page of a cluster until somebody ends it.
pub(crate) async fn run(ui: Ui, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let what = ui.watched.options(cluster).await?;
    let mut stop = Stop::listen();
    let options = ui.options(&cluster.client.server_url());
    let page = OpenPage::serve(cluster.client.clone(), what, options).await?;
    session.out.line(page.line());
    stop.requested().await;
    Ok(())
}

/// Serves the page of a recording until somebody ends it. Tables come from a server whose past the recording is.
pub(crate) async fn run_recorded(ui: &Ui, file: &Path, session: &mut Session) -> Result<(), Failure> {
    let recording = Recording::open(file).map_err(Failure::other)?;
    let replay = Replay::load(&recording, &LoadOptions::default()).await;
    let replay = replay.map_err(Failure::other)?;
    let server = replay.server().start().await.map_err(Failure::other)?;
    let client = watchkeeper_testing::client_of(&server, client_options(0, session.err.clone()))?;
    let view = RecordedView::open(recording).map_err(Failure::other)?;
    let mut stop = Stop::listen();
    let title = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let page = OpenPage::of(client, Subject::Recorded(Arc::new(view)), ui.options(&title)).await?;
    session.out.line(page.line());
    stop.requested().await;
    drop(page);
    server.shutdown().await;
    Ok(())
}
