//! The web page of a command: `ui`, `up --ui` and `demo --ui` open the same one. It ends when this is dropped.

use anyhow::Context as _;
use tokio::task::JoinSet;
use watchkeeper_client::Client;
use watchkeeper_view::feed::{Feed, FeedOptions};
use watchkeeper_view::web::{Page, PageOptions, Subject};

use crate::failure::Failure;

/// A page that is being served. It ends when this is dropped.
pub(crate) struct OpenPage {
    /// Opens it, once.
    pub(crate) link: String,
    tasks: JoinSet<()>,
}

impl OpenPage {
    /// Follows the cluster and serves a page about it.
    pub(crate) async fn serve(
        client: Client,
        what: FeedOptions,
        options: PageOptions,
    ) -> Result<Self, Failure> {
        let feed = Feed::new(client.clone(), what).await?;
        let mut page = Self::of(client, Subject::Live(feed.live().clone()), options).await?;
        page.tasks.spawn(feed.run());
        Ok(page)
    }

    /// Serves a page about a cluster or a recording.
    pub(crate) async fn of(client: Client, subject: Subject, options: PageOptions) -> Result<Self, Failure> {
        let port = options.port;
        let page = Page::bind(client, subject, options).await;
        let page = page
            .with_context(|| format!("cannot listen on 127.0.0.1:{port}; --port 0 takes a free port"))
            .map_err(Failure::Other)?;
        let link = page.link().map_err(Failure::other)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(page.serve());
        Ok(Self { link, tasks })
    }

    /// The line that says how to open it.
    pub(crate) fn line(&self) -> String {
        format!(
            "open {} in a browser on this machine (the link works once)",
            self.link
        )
    }
}
