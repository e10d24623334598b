//! Objects of a recording, as they are typed: `--recording FILE`, a moment, a kind and a name.

use std::path::PathBuf;

use clap::Args;
use watchkeeper_meta::{ObjectKey, Resource, Scope};
use watchkeeper_recording::{Moment, Recording, Span};

use crate::failure::Failure;
use crate::session::Session;

/// The source of the past: a recording or a live cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordingFile {
    /// The recording to read; by default, the recent history of the cluster
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
}

impl RecordingFile {
    /// The recording, if one was named.
    pub(crate) fn open(&self) -> Result<Option<Recording>, Failure> {
        let recording = self.recording.as_ref().map(Recording::open);
        recording.transpose().map_err(Failure::other)
    }
}

/// Reads a moment: a time, a version or `end`.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    let parsed = text.parse::<Moment>();
    parsed.map_err(|_| {
        format!("{text:?} is no moment: type 2026-01-31T12:00:00Z, a version such as 1234, or end")
    })
}

/// Warns if a recording ended before the moment that was asked for: its end is shown then.
pub(crate) fn warn_of_end(span: &Span, asked: &Moment, session: &mut Session) {
    let (true, Some(version), Some(time)) = (span.ends_before(asked), span.latest, span.ended) else {
        return;
    };
    session.err.line(format!(
        "Warning: {asked} is after the end of the recording, version {version} at {time}; this is the end"
    ));
}

/// A kind, and perhaps an object of it.
#[derive(Clone, Debug)]
pub(crate) struct RecordedObject {
    pub(crate) resource: Resource,
    namespace: String,
    name: Option<String>,
}

impl RecordedObject {
    /// Finds out what the words mean in a recording: `deployment web` or `deployment/web`.
    pub(crate) fn find(
        recording: &Recording,
        words: &[String],
        namespace: Option<&str>,
    ) -> Result<Self, Failure> {
        let (kind, name) = match words {
            [word] => match word.split_once('/') {
                Some((kind, name)) => (kind, Some(name.to_owned())),
                None => (word.as_str(), None),
            },
            [kind, name] => (kind.as_str(), Some(name.clone())),
            _ => return Err(Failure::text("name one object: deployment/web or deployment web")),
        };
        let resource = recording.resource(kind).map_err(Failure::other)?;
        let Some(resource) = resource else {
            let recorded = recording.resources().map_err(Failure::other)?;
            if recorded.is_empty() {
                return Err(Failure::other(recording.empty()));
            }
            let recorded: Vec<_> = recorded
                .iter()
                .map(|found| found.group_resource().to_string())
                .collect();
            return Err(Failure::text(format!(
                "the recording has no {kind:?}; it has {}",
                recorded.join(", ")
            )));
        };
        let namespace = match resource.scope {
            Scope::Cluster => String::new(),
            Scope::Namespaced => namespace.unwrap_or("default").to_owned(),
        };
        Ok(Self {
            resource,
            namespace,
            name,
        })
    }

    /// The key of the one object that was named.
    pub(crate) fn key(&self) -> Result<ObjectKey, Failure> {
        self.key_if_named()
            .ok_or_else(|| Failure::text("name one object: deployment/web or deployment web"))
    }

    /// The key, if an object was named.
    pub(crate) fn key_if_named(&self) -> Option<ObjectKey> {
        let name = self.name.as_ref()?;
        Some(ObjectKey::new(&self.namespace, name))
    }
}
