//! `watch`: several kinds and namespaces in one stream that heals itself and survives a restart.

mod json_lines;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use watchkeeper_meta::{FieldSelector, Resource};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::follow::{Follow, FollowEvent, Followed};
use watchkeeper_runtime::position::Position;
use watchkeeper_runtime::watcher::Config;

use self::json_lines::JsonLines;
use crate::cluster::{Cluster, is_namespaced};
use crate::duration;
use crate::failure::Failure;
use crate::live_view::LiveView;
use crate::selection::{Selectors, select};
use crate::session::Session;
use crate::stop;

/// Follow what happens to objects, across broken connections and restarts
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper watch pods
  watchkeeper watch pods,deployments -n shop,web
  watchkeeper watch pods -A --position pods.position     go on after a restart, deletes included
  watchkeeper watch pods -A --output json | jq .object.metadata.name

After a restart with --position you are told exactly what was added, modified and deleted while nobody watched, however
long that was. What the server no longer remembers is found by comparing a fresh list with what was there before: a line
RESTARTED says so, and a DELETED found that way has no final state.

JSON lines have type, apiVersion, kind, namespace, name, uid, resourceVersion and object. Besides ADDED, MODIFIED and
DELETED there are SYNCED (all that was there has been told), RESTARTED (from, to, reason) and, with --bookmarks,
BOOKMARK; a DELETED found by comparison says inferred.")]
pub(crate) struct Watch {
    /// What to follow: kinds, or kind/name …
    #[arg(value_name = "RESOURCE", required = true)]
    words: Vec<String>,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Keep in this file how far events were printed, and go on from there
    #[arg(long, value_name = "FILE")]
    position: Option<PathBuf>,

    /// How: a line or a JSON document per event
    #[arg(short, long, value_name = "FORMAT", default_value = "line")]
    output: Format,

    /// Leave the header out
    #[arg(long)]
    no_headers: bool,

    /// Also print BOOKMARK lines, in JSON: the version up to which nothing else happened
    #[arg(long)]
    bookmarks: bool,

    /// End after so many events, but not in the midst of a list
    #[arg(long, value_name = "EVENTS")]
    count: Option<usize>,

    /// End after so long
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Line,
    Json,
}

/// Follows until the user, `--count`, `--for` or `--request-timeout` ends it; the position is written down in any case.
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

/// Reads a position, which must be one in this cluster: versions of another one mean nothing here.
async fn position_in(cluster: &Cluster, path: &Path) -> Result<Position, Failure> {
    // Asked first: a server that does not answer leaves no empty file behind.
    let here = cluster.id().await?;
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
        let stream = stream_name(resource, namespace, &labels.to_string(), &fields.to_string());
        let api = cluster.client.dynamic(resource.clone()).namespace(namespace);
        let source = Arc::new(ApiSource::selected(api, labels, fields));
        following.follow.add(&stream, source, Config::default());
        let selection = (resource.clone(), namespace.to_owned());
        following.selections.insert(stream.into(), selection);
        Ok(())
    }

    /// All words are kinds here, so `pods services` means what `pods,services` means.
    fn kinds(&self) -> Vec<String> {
        match self.words.iter().any(|word| word.contains('/')) {
            true => self.words.clone(),
            false => vec![self.words.join(",")],
        }
    }

    /// One stream for all namespaces, or one for each that was named.
    fn namespaces(&self, resource: &Resource, cluster: &Cluster) -> Vec<String> {
        match self.all_namespaces || !is_namespaced(resource) {
            true => vec![String::new()],
            false => cluster.namespace.split(',').map(str::to_owned).collect(),
        }
    }
}

/// A stream's place in the position file: all that decides what it sees.
fn stream_name(resource: &Resource, namespace: &str, labels: &str, fields: &str) -> String {
    let mut name = resource.group_version_resource().group_resource().to_string();
    for (word, value) in [
        ("in", namespace),
        ("with labels", labels),
        ("with fields", fields),
    ] {
        if !value.is_empty() {
            name.push_str(&format!(" {word} {value}"));
        }
    }
    name
}

struct Following {
    follow: Follow,
    /// The resource and namespace of each stream.
    selections: HashMap<Arc<str>, (Resource, String)>,
    view: LiveView,
    format: Format,
    bookmarks: bool,
}

impl Following {
    async fn run(&mut self, count: Option<usize>, session: &mut Session) -> Result<(), Failure> {
        let mut last_failure = None;
        let mut left = count.unwrap_or(usize::MAX);
        // Who stops in the midst of a list is told of a restart the next time.
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

    fn show(&mut self, event: &FollowEvent, stream: &str, session: &mut Session) -> Result<(), Failure> {
        let (resource, namespace) = &self.selections[stream];
        let lines = JsonLines {
            resource,
            namespace,
            bookmarks: self.bookmarks,
        };
        match self.format {
            Format::Line => Ok(self.view.show(event, stream, resource, session)?),
            Format::Json => lines.print(event, session),
        }
    }
}
