//! `watch`: several kinds and namespaces in one stream that recovers from failures and survives restarts.

mod diffs;
mod json_lines;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use watchkeeper_meta::{FieldSelector, Resource};
use watchkeeper_recording::Stream;
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::follow::{Follow, FollowEvent, Followed};
use watchkeeper_runtime::position::Position;
use watchkeeper_runtime::watcher::Config;

use self::diffs::Diffs;
use self::json_lines::JsonLines;
use crate::cluster::{Cluster, is_namespaced};
use crate::duration;
use crate::failure::Failure;
use crate::live_view::LiveView;
use crate::selection::{Selectors, select};
use crate::session::Session;
use crate::stop;

/// Watch objects across broken connections and restarts
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper watch pods
  watchkeeper watch pods,deployments -n shop,web
  watchkeeper watch pods -A --position pods.position     go on after a restart, deletes included
  watchkeeper watch pods -A --output json | jq .object.metadata.name
  watchkeeper watch deployments,pods --diff              which fields change, and who changes them

After a restart with --position you are told exactly what was added, modified and deleted while
nobody watched, however long that was. What the server no longer has is found by comparing a
fresh list with what was there before: a line RESTARTED says so, and a DELETED found that way has
no final state.

JSON lines have type, apiVersion, kind, namespace, name, uid, resourceVersion and object. Besides
ADDED, MODIFIED and DELETED there are SYNCED (all that was there has been told), RESTARTED (from,
to, reason) and, with --bookmarks, BOOKMARK; a DELETED found by comparison says inferred.")]
pub(crate) struct Watch {
    /// Objects: kinds, or kind/name …
    #[arg(value_name = "RESOURCE", required = true)]
    words: Vec<String>,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Keep the position of the stream in this file, and resume from it
    #[arg(long, value_name = "FILE")]
    position: Option<PathBuf>,

    /// Output format: a line or a JSON document per event
    #[arg(short, long, value_name = "FORMAT", default_value = "line")]
    output: Format,

    /// Omit the header
    #[arg(long)]
    no_headers: bool,

    /// Also print BOOKMARK lines, in JSON: the version up to which nothing else happened
    #[arg(long)]
    bookmarks: bool,

    /// Print which fields each event changes, old → new, and who changed them
    #[arg(long)]
    diff: bool,

    /// With --diff: versions, managed fields and heartbeats as well
    #[arg(long, requires = "diff")]
    all_fields: bool,

    /// Exit after this many events, but not within a list
    #[arg(long, value_name = "EVENTS")]
    count: Option<usize>,

    /// Exit after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Line,
    Json,
}

/// Watches until the user, `--count`, `--for` or `--request-timeout` ends it; the position is saved in any case.
pub(crate) async fn run(watch: Watch, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let mut following = Following {
        follow: match &watch.position {
            Some(path) => Follow::from_position(position_in(cluster, path).await?),
            None => Follow::new(),
        },
        selections: HashMap::new(),
        view: LiveView::new(!watch.no_headers),
        format: watch.output,
        bookmarks: watch.bookmarks,
        diffs: watch.diff.then(|| Diffs::new(watch.all_fields)),
    };
    watch.add_streams(&mut following, cluster).await?;
    let result = tokio::select! {
        result = following.run(watch.count, session) => result,
        () = stop::requested() => Ok(()),
        () = sleep(watch.duration) => Ok(()),
        () = cluster.watch_timeout() => Ok(()),
    };
    result.and(following.follow.finish().map_err(Failure::other))
}

/// Opens a position, which must belong to this cluster: versions of another cluster have no meaning here.
async fn position_in(cluster: &Cluster, path: &Path) -> Result<Position, Failure> {
    // Requested first: a server that does not answer leaves no empty file behind.
    let here = cluster.client.cluster_id().await?;
    let mut position = Position::open(path).map_err(Failure::other)?;
    if let Some(here) = here {
        position.bind_to(&here).map_err(Failure::other)?;
    }
    Ok(position)
}

async fn sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

impl Watch {
    async fn add_streams(&self, following: &mut Following, cluster: &Cluster) -> Result<(), Failure> {
        for selected in select(cluster, &self.kinds()).await? {
            let resource = &selected.resource.resource;
            let names = match selected.names.is_empty() {
                true => vec![None],
                false => selected.names.iter().map(Some).collect(),
            };
            for namespace in self.namespaces(resource, cluster) {
                for name in &names {
                    self.add_stream(following, cluster, resource, &namespace, *name)?;
                }
            }
        }
        Ok(())
    }

    fn add_stream(
        &self,
        following: &mut Following,
        cluster: &Cluster,
        resource: &Resource,
        namespace: &str,
        name: Option<&String>,
    ) -> Result<(), Failure> {
        let (labels, mut fields) = (self.selectors.labels()?, self.selectors.fields()?);
        if let Some(name) = name {
            fields = FieldSelector::name(name.clone());
        }
        let stream = Stream::new(
            resource.clone(),
            namespace,
            &labels.to_string(),
            &fields.to_string(),
        )
        .name;
        let mut api = cluster.client.dynamic(resource.clone()).namespace(namespace);
        if self.diff {
            api = api.keep_managed_fields();
        }
        let source = Arc::new(ApiSource::selected(api, labels, fields));
        following.follow.add(&stream, source, Config::default());
        let selection = (resource.clone(), namespace.to_owned());
        following.selections.insert(stream, selection);
        Ok(())
    }

    /// All words are kinds here, so `pods services` equals `pods,services`.
    fn kinds(&self) -> Vec<String> {
        match self.words.iter().any(|word| word.contains('/')) {
            true => self.words.clone(),
            false => vec![self.words.join(",")],
        }
    }

    /// One stream for all namespaces, or one for each named namespace.
    fn namespaces(&self, resource: &Resource, cluster: &Cluster) -> Vec<String> {
        match self.all_namespaces || !is_namespaced(resource) {
            true => vec![String::new()],
            false => cluster.namespace.split(',').map(str::to_owned).collect(),
        }
    }
}

struct Following {
    follow: Follow,
    /// The resource and namespace of each stream.
    selections: HashMap<Arc<str>, (Resource, String)>,
    view: LiveView,
    format: Format,
    bookmarks: bool,
    diffs: Option<Diffs>,
}

impl Following {
    async fn run(&mut self, count: Option<usize>, session: &mut Session) -> Result<(), Failure> {
        let mut last_failure = None;
        let mut left = count.unwrap_or(usize::MAX);
        // Stopping within a list causes a restart the next time.
        while left > 0 || self.follow.is_listing() {
            let Some(Followed { stream, what }) = self.follow.next().await.map_err(Failure::other)? else {
                return Err(last_failure.unwrap_or_else(|| Failure::text("the watch has ended")));
            };
            match what {
                Ok(event) => {
                    self.show(&event, &stream, session)?;
                    left = left.saturating_sub(usize::from(event.key().is_some()));
                }
                Err(failure) => {
                    let failure = format!("{stream}: {:#}", anyhow::Error::from(failure));
                    session.err.line(format!("Warning: {failure}"));
                    last_failure = Some(Failure::text(failure));
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, event: &FollowEvent, stream: &Arc<str>, session: &mut Session) -> Result<(), Failure> {
        let (resource, namespace) = &self.selections[stream];
        let lines = JsonLines {
            resource,
            namespace,
            bookmarks: self.bookmarks,
        };
        let diffs = self.diffs.as_mut();
        let update = diffs.map_or(Ok(None), |diffs| diffs.update(event, stream))?;
        match (self.format, &self.diffs) {
            (Format::Line, None) => Ok(self.view.show(event, stream, resource, session)?),
            (Format::Line, Some(diffs)) => diffs.print(event, update, resource, session),
            (Format::Json, _) => lines.print(event, update.as_ref(), session),
        }
    }
}
