//! `history`: every version of an object, with who wrote it and what changed. In a recording all of them, with their
//! times; of a live cluster those in its recent history.

use clap::{Args, ValueEnum};
use watchkeeper_recording::Recording;
use watchkeeper_wire::WireError;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::live_past::LivePast;
use crate::recorded::{RecordedObject, RecordingFile};
use crate::session::Session;
use crate::update_lines::UpdateLines;

/// Show every version of an object: when, who, what changed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper history deployment web -n shop      the recent history of the cluster
  watchkeeper history deployment web -n shop --recording incident.rec
  watchkeeper history node/worker-1 --recording incident.rec -o json

The author comes from the managed fields: the manager, by default the start of its user agent, and
the operation. A cluster keeps a few minutes of history, without times; a recording keeps all of it,
with times.")]
pub(crate) struct History {
    /// Which object: kind/name, or a kind and a name
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    words: Vec<String>,

    #[command(flatten)]
    file: RecordingFile,

    /// Lines for people, or JSON documents
    #[arg(short, long, value_name = "FORMAT", default_value = "line")]
    output: Lines,

    /// Show versions, managed fields and heartbeats as well
    #[arg(long)]
    all_fields: bool,
}

/// The form in which changes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    Line,
    Json,
}

/// Prints the versions that a recording has.
pub(crate) fn run_recorded(
    history: &History,
    recording: &Recording,
    namespace: Option<&str>,
    session: &mut Session,
) -> Result<(), Failure> {
    let object = RecordedObject::find(recording, &history.words, namespace)?;
    let key = object.key()?;
    let versions = recording
        .versions(&object.resource, &key)
        .map_err(Failure::other)?;
    if versions.is_empty() {
        let name = object.resource.display_name(key.name());
        let elsewhere = recording.namespaces_of(&object.resource, key.name());
        let elsewhere = elsewhere.map_err(Failure::other)?;
        return Err(Failure::text(match (key.namespace(), elsewhere.as_slice()) {
            ("", _) => format!("the recording has no {name}"),
            (namespace, []) => format!("the recording has no {name} in {namespace}"),
            (namespace, [found, ..]) => format!(
                "the recording has no {name} in {namespace}; there is one in {}: -n {found}",
                elsewhere.join(", ")
            ),
        }));
    }
    for entry in &versions {
        history.print(UpdateLines::of_entry(entry), session)?;
    }
    Ok(())
}

/// Prints the versions in the recent history of the cluster.
pub(crate) async fn run_live(
    history: &History,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    let past = LivePast::find(cluster, &history.words).await?;
    let Some(name) = &past.name else {
        return Err(Failure::text("name one object: deployment/web or deployment web"));
    };
    let versions = past.entries(session).await?;
    if versions.is_empty() {
        let name = past.resource.display_name(name);
        return Err(Failure::text(format!(
            "the cluster's recent history has no {name}"
        )));
    }
    for entry in &versions {
        history.print(UpdateLines::of_remembered(entry), session)?;
    }
    Ok(())
}

impl History {
    /// The recording to read, if one was named.
    pub(crate) fn recording(&self) -> Result<Option<Recording>, Failure> {
        self.file.open()
    }

    fn print(&self, lines: Result<UpdateLines<'_>, WireError>, session: &mut Session) -> Result<(), Failure> {
        let mut lines = lines.map_err(Failure::other)?;
        if self.all_fields {
            lines.update.unfold();
        }
        Ok(lines.print_as(self.output == Lines::Json, session.look, &mut session.out)?)
    }
}
