//! Records a cluster: lists and watches many resources, and writes their events to a recording.
//!
//! The recording is also the position: a recorder that is restarted continues where the file ends. Events of the
//! meantime are recorded, or a [`Gap`](crate::Gap) is.
//!
//! ```no_run
//! use watchkeeper_recording::{RecordOptions, Recorder};
//!
//! # async fn run(client: watchkeeper_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let mut recorder = Recorder::start(&client, "incident.rec", RecordOptions::default()).await?;
//! tokio::select! {
//!     ended = recorder.run() => ended?,
//!     () = tokio::time::sleep(std::time::Duration::from_secs(600)) => {}
//! }
//! println!("{} events", recorder.finish()?.events);
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use watchkeeper_client::discovery::Discovery;
use watchkeeper_client::{Client, Error};
use watchkeeper_meta::{FieldSelector, LabelSelector, Resource, Scope, Time, error_chain};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::follow::{Follow, FollowEvent, Followed, Gone};
use watchkeeper_runtime::position::PositionError;
use watchkeeper_runtime::watcher::Config;

use crate::entry::{ClusterIdentity, Stream};
use crate::redact::Redaction;
use crate::writer::{Rotation, Writer};
use crate::{RecordingError, State};

/// The flush interval: the most that is lost after a crash, and the delay for readers.
pub const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// The delay between a change of a definition and the next discovery. A definition is served a moment after it was
/// created.
const DISCOVER_AFTER: Duration = Duration::from_secs(1);

/// The discovery interval, for users who may not watch definitions.
const DISCOVER_EVERY: Duration = Duration::from_secs(300);

/// The resources whose objects change discovery.
const DEFINITIONS: [&str; 2] = [
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
];

/// The options of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// The resources; `None` for all that can be listed and watched, including those added later.
    pub resources: Option<Vec<Resource>>,
    /// The namespaces; empty for all.
    pub namespaces: Vec<String>,
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector.
    pub fields: FieldSelector,
    /// Records Secrets as well. Otherwise they are left out, even if they are in `resources`.
    pub secrets: bool,
    /// The fields to mask.
    pub redaction: Redaction,
    /// The rotation of files.
    pub rotation: Rotation,
}

/// The error of a recorder.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Discovery failed.
    #[error("cannot discover what the server serves")]
    Discovery(#[source] Box<Error>),
    /// The position of the follower cannot be stored.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// No resource can be recorded.
    #[error("there is nothing to record{0}")]
    Nothing(String),
}

/// An entry that the recorder has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An event of a stream.
    Event(Arc<str>, FollowEvent),
    /// A stream fails, with the reason. Reported once, until it recovers or fails for another reason.
    Failed(Arc<str>, String),
    /// A stream was started.
    Began(Arc<str>),
    /// A stream was ended, with the reason.
    Ended(Arc<str>, String),
}

/// The statistics of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of object events written.
    pub events: u64,
    /// The number of streams.
    pub streams: usize,
    /// The number of existing objects.
    pub objects: usize,
}

/// A running recorder.
#[derive(Debug)]
pub struct Recorder {
    client: Client,
    options: RecordOptions,
    writer: Writer,
    follow: Follow,
    streams: BTreeMap<Arc<str>, Arc<Stream>>,
    /// The last failure of each failing stream.
    failing: HashMap<Arc<str>, String>,
    flush_at: Instant,
    discover_at: Instant,
    /// Entries written and not yet returned.
    pending: Vec<Recorded>,
}

impl Recorder {
    /// Starts a recording, or continues the one in the file.
    pub async fn start(
        client: &Client,
        path: impl Into<PathBuf>,
        options: RecordOptions,
    ) -> Result<Self, RecordError> {
        // First: a server that does not answer should not leave an empty file behind.
        let cluster = identity(client).await?;
        let discovery = client.discover().await.map_err(discovery_failed)?;
        let redacted = options.redaction.describe();
        let writer = Writer::open(path, &cluster, &redacted, options.rotation, now())?;
        let follow = Follow::from_position(writer.position());
        let started = Instant::now();
        let mut recorder = Self {
            client: client.clone(),
            options,
            writer,
            follow,
            streams: BTreeMap::new(),
            failing: HashMap::new(),
            flush_at: started + FLUSH_EVERY,
            discover_at: started + DISCOVER_EVERY,
            pending: Vec::new(),
        };
        recorder.settle(&discovery)?;
        if recorder.streams.is_empty() && recorder.options.resources.is_some() {
            return Err(RecordError::Nothing(
                ": Secrets are recorded only if asked for".to_owned(),
            ));
        }
        Ok(recorder)
    }

    /// The streams being followed.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.streams.values()
    }

    /// The current state, according to the recording.
    pub fn state(&self) -> &State {
        self.writer.state()
    }

    /// True while initial lists are being received.
    pub fn is_listing(&self) -> bool {
        let mut streams = self.streams.keys();
        streams.any(|name| {
            let held = self.writer.state().stream(name);
            held.is_some_and(|held| held.is_listing) && !self.failing.contains_key(name)
        })
    }

    /// Records forever. It may be dropped at any await; then [`Recorder::finish`] writes the rest.
    pub async fn run(&mut self) -> Result<(), RecordError> {
        loop {
            self.next().await?;
        }
    }

    /// Records and returns the next entry. It may be dropped at any await without losing an event.
    pub async fn next(&mut self) -> Result<Recorded, RecordError> {
        loop {
            if let Some(pending) = self.pending.pop() {
                return Ok(pending);
            }
            // Boxed: discovery is rare and large.
            tokio::select! {
                biased;
                () = sleep_until(self.flush_at) => self.flush()?,
                () = sleep_until(self.discover_at) => Box::pin(self.discover()).await?,
                followed = next_of(&mut self.follow, !self.streams.is_empty()) => match followed? {
                    Some(followed) => self.write(followed)?,
                    None if self.options.resources.is_some() => return Err(self.all_ended()),
                    None => sleep_until(self.discover_at.min(self.flush_at)).await,
                },
            }
        }
    }

    /// Writes the rest and syncs the file.
    pub fn finish(mut self) -> Result<Summary, RecordError> {
        self.writer.sync()?;
        Ok(Summary {
            events: self.writer.count(),
            streams: self.streams.len(),
            objects: self.writer.state().len(),
        })
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.flush_at = Instant::now() + FLUSH_EVERY;
        Ok(self.writer.sync()?)
    }

    fn all_ended(&self) -> RecordError {
        let reasons = self.failing.iter();
        let reasons: Vec<_> = reasons
            .map(|(stream, reason)| format!("{stream}: {reason}"))
            .collect();
        RecordError::Nothing(format!(": {}", reasons.join("; ")))
    }

    fn write(&mut self, Followed { stream, what }: Followed) -> Result<(), RecordError> {
        let event = match what {
            Ok(event) => event,
            Err(failure) => {
                let reason = error_chain(&failure);
                let before = self.failing.insert(stream.clone(), reason.clone());
                if before.as_ref() != Some(&reason) {
                    self.writer.fail(now(), &stream, &reason)?;
                    self.pending.push(Recorded::Failed(stream, reason));
                }
                return Ok(());
            }
        };
        self.failing.remove(&stream);
        let event = self.redacted(&stream, event)?;
        self.writer.event(now(), &stream, &event)?;
        if event.key().is_some() && DEFINITIONS.iter().any(|name| stream.starts_with(name)) {
            self.discover_at = self.discover_at.min(Instant::now() + DISCOVER_AFTER);
        }
        self.pending.push(Recorded::Event(stream, event));
        Ok(())
    }

    fn redacted(&self, stream: &str, event: FollowEvent) -> Result<FollowEvent, RecordError> {
        let apply = |object| {
            let applied = self.options.redaction.apply(object);
            applied.map_err(|source| RecordingError::Object {
                resource: stream.to_owned(),
                source,
            })
        };
        Ok(match event {
            FollowEvent::Added(object) => FollowEvent::Added(apply(&object)?),
            FollowEvent::Modified(object) => FollowEvent::Modified(apply(&object)?),
            FollowEvent::Deleted(gone) => FollowEvent::Deleted(Gone {
                last: gone.last.as_ref().map(apply).transpose()?,
                ..gone
            }),
            other => other,
        })
    }

    /// Runs discovery. If it fails, it is repeated later.
    async fn discover(&mut self) -> Result<(), RecordError> {
        self.discover_at = Instant::now() + DISCOVER_EVERY;
        match self.client.discover().await {
            Ok(discovery) => self.settle(&discovery),
            Err(error) => {
                tracing::warn!(%error, "discovery failed");
                self.discover_at = Instant::now() + DISCOVER_EVERY / 10;
                Ok(())
            }
        }
    }

    /// Starts and ends streams to match discovery.
    fn settle(&mut self, discovery: &Discovery) -> Result<(), RecordError> {
        let served: Vec<Resource> = discovery
            .resources()
            .map(|found| found.resource.clone())
            .collect();
        let is_unknown = |resource: &Resource| {
            let version = resource.group_version_kind().group_version();
            discovery
                .failures
                .iter()
                .any(|failure| failure.group_version == version)
        };
        let gone: Vec<_> = self
            .streams
            .values()
            .filter(|stream| !served.contains(&stream.resource) && !is_unknown(&stream.resource))
            .map(|stream| stream.name.clone())
            .collect();
        for name in gone {
            self.end(&name, "the server does not serve it any more")?;
        }
        // Streams of an earlier run that are no longer selected.
        let wanted = self.wanted(discovery);
        let held = self.writer.state().streams();
        let stale: Vec<_> = held.map(|held| held.stream.name.clone()).collect();
        for name in stale {
            if !self.streams.contains_key(&name) && !wanted.iter().any(|stream| stream.name == name) {
                self.end(&name, "it is not recorded any more")?;
            }
        }
        for stream in wanted {
            if !self.streams.contains_key(&stream.name) {
                self.begin(stream)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, stream: Stream) -> Result<(), RecordError> {
        let stream = Arc::new(stream);
        let api = self.client.dynamic(stream.resource.clone());
        let api = api
            .json_only()
            .keep_managed_fields()
            .namespace(&*stream.namespace);
        let (labels, fields) = (self.options.labels.clone(), self.options.fields.clone());
        let source = Arc::new(ApiSource::selected(api, labels, fields));
        self.writer.begin(now(), &stream)?;
        self.follow.add(&stream.name, source, Config::default());
        self.pending.push(Recorded::Began(stream.name.clone()));
        self.streams.insert(stream.name.clone(), stream);
        Ok(())
    }

    fn end(&mut self, name: &Arc<str>, reason: &str) -> Result<(), RecordError> {
        self.writer.end(now(), name, reason)?;
        self.follow.remove(name);
        self.streams.remove(name);
        self.failing.remove(name);
        self.pending
            .push(Recorded::Ended(name.clone(), reason.to_owned()));
        Ok(())
    }

    fn wanted(&self, discovery: &Discovery) -> Vec<Stream> {
        let resources = match &self.options.resources {
            Some(resources) => resources.clone(),
            None => discovery.watchable_resources().cloned().collect(),
        };
        let resources = resources
            .into_iter()
            .filter(|resource| self.options.secrets || !is_secrets(resource));
        resources
            .flat_map(|resource| self.streams_of(&resource))
            .collect()
    }

    fn streams_of(&self, resource: &Resource) -> Vec<Stream> {
        let (labels, fields) = (self.options.labels.to_string(), self.options.fields.to_string());
        let stream = |namespace: &str| Stream::new(resource.clone(), namespace, &labels, &fields);
        match resource.scope == Scope::Cluster || self.options.namespaces.is_empty() {
            true => vec![stream("")],
            false => self.options.namespaces.iter().map(|name| stream(name)).collect(),
        }
    }
}

/// Pending forever if nothing is followed.
async fn next_of(follow: &mut Follow, is_following: bool) -> Result<Option<Followed>, PositionError> {
    match is_following {
        true => follow.next().await,
        false => std::future::pending().await,
    }
}

fn is_secrets(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "secrets"
}

/// The identity of the cluster, as far as it may be read.
async fn identity(client: &Client) -> Result<ClusterIdentity, RecordError> {
    let version = client.server_version().await.map_err(discovery_failed)?;
    let id = client.cluster_id().await.map_err(discovery_failed)?;
    Ok(ClusterIdentity {
        id,
        server_version: version.git_version,
    })
}

fn discovery_failed(error: Error) -> RecordError {
    RecordError::Discovery(Box::new(error))
}

fn now() -> Time {
    watchkeeper_clock::now().into()
}
