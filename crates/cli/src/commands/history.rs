//! `history`: every version of an object in a recording, with time, who wrote it and what changed.

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::recorded::{RecordedObject, RecordingFile};
use crate::session::Session;
use crate::update_lines::UpdateLines;

/// Show every recorded version of an object: when, who, what changed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper history deployment web -n shop --recording incident.rec
  watchkeeper history node/worker-1 --recording incident.rec -o json

Who wrote is what managed fields tell: the manager, by default the beginning of its user agent,
and the operation.")]
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

/// How changes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    Line,
    Json,
}

/// Prints the versions.
pub(crate) fn run(history: &History, namespace: Option<&str>, session: &mut Session) -> Result<(), Failure> {
    let recording = history.file.open()?;
    let object = RecordedObject::find(&recording, &history.words, namespace)?;
    let key = object.key()?;
    let versions = recording
        .versions(&object.resource, &key)
        .map_err(Failure::other)?;
    if versions.is_empty() {
        let name = object.resource.display_name(key.name());
        return Err(Failure::text(format!("the recording has no {name}")));
    }
    for entry in &versions {
        let mut lines = UpdateLines::of_entry(entry).map_err(Failure::other)?;
        if history.all_fields {
            lines.update.unfold();
        }
        lines.print_as(history.output == Lines::Json, session.look, &mut session.out)?;
    }
    Ok(())
}
