//! The arguments that select the kinds and objects of `view` and `ui`.

use clap::Args;
use watchkeeper_view::feed::FeedOptions;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::selection::{Selectors, select};

/// The kinds and objects to watch.
#[derive(Debug, Args)]
pub(crate) struct Watched {
    /// The kinds to watch; all if none is named
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,

    #[command(flatten)]
    selectors: Selectors,

    /// Also watch Secrets, where all kinds are watched
    #[arg(long)]
    secrets: bool,
}

impl Watched {
    /// True if no kind was named.
    pub(crate) fn is_everything(&self) -> bool {
        self.words.is_empty()
    }

    /// Asks the cluster which kinds the words mean.
    pub(crate) async fn options(&self, cluster: &Cluster) -> Result<FeedOptions, Failure> {
        let kinds = match self.words.is_empty() {
            true => Vec::new(),
            false => select(cluster, &[self.words.join(",")]).await?,
        };
        Ok(FeedOptions {
            kinds: kinds.into_iter().map(|kind| kind.resource.resource).collect(),
            namespace: cluster.namespace_typed.then(|| cluster.namespace.clone()),
            labels: self.selectors.labels()?,
            fields: self.selectors.fields()?,
            secrets: self.secrets,
        })
    }
}
