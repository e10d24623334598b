//! The web page of a command: `ui`, `up --ui` and `demo --ui` open the same one.

use anyhow::Context as _;
use tokio::task::JoinSet;
use watchkeeper_client::Client;
use watchkeeper_view::feed::{Feed, FeedOptions};
use watchkeeper_view::web::Page;

use crate::failure::Failure;

/// A page that is being served. It ends when this is dropped.
pub(crate) struct OpenPage {
    /// Opens it, once.
    pub(crate) link: String,
    _tasks: JoinSet<()>,
}

impl OpenPage {
    /// Follows the cluster and serves a page about it on a port of loopback; 0 takes a free one.
    pub(crate) async fn serve(
        client: Client,
        what: FeedOptions,
        port: u16,
        title: &str,
    ) -> Result<Self, Failure> {
        let feed = Feed::new(client.clone(), what).await?;
        let page = Page::bind(client, feed.live().clone(), port, title).await;
        let page = page
            .with_context(|| format!("cannot listen on 127.0.0.1:{port}; --port 0 takes a free port"))
            .map_err(Failure::Other)?;
        let link = page.link().map_err(Failure::other)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(feed.run());
        tasks.spawn(page.serve());
        Ok(Self { link, _tasks: tasks })
    }

    /// The line that says how to open it.
    pub(crate) fn line(&self) -> String {
        format!(
            "open {} in a browser on this machine (the link works once)",
            self.link
        )
    }
}
