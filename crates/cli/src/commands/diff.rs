//! `diff`: what differs between two moments of a recording.

use std::path::PathBuf;

use clap::Args;
use watchkeeper_recording::{Moment, Recording};

use super::history::Lines;
use crate::failure::Failure;
use crate::recorded::{RecordedObject, moment};
use crate::session::Session;
use crate::update_lines::UpdateLines;

/// Show what differs between two moments of a recording
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper diff incident.rec --from 2026-01-31T12:00:00Z --to 2026-01-31T12:05:00Z
  watchkeeper diff incident.rec deployments -n shop --from 1200 --to 1300

A moment is a time, a version of the cluster, or end.")]
pub(crate) struct Diff {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only this kind
    #[arg(value_name = "KIND")]
    kind: Option<String>,

    /// The first moment
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    from: Moment,

    /// The second moment
    #[arg(long, value_name = "MOMENT", value_parser = moment, default_value = "end")]
    to: Moment,

    /// Lines for people, or JSON documents
    #[arg(short, long, value_name = "FORMAT", default_value = "line")]
    output: Lines,

    /// Show versions, managed fields and heartbeats as well
    #[arg(long)]
    all_fields: bool,
}

/// Prints the objects that differ, and how.
pub(crate) fn run(diff: &Diff, namespace: Option<&str>, session: &mut Session) -> Result<(), Failure> {
    let recording = Recording::open(&diff.file).map_err(Failure::other)?;
    let kind = match &diff.kind {
        Some(kind) => {
            let found = RecordedObject::find(&recording, std::slice::from_ref(kind), namespace)?;
            Some(found.resource.group_resource())
        }
        None => None,
    };
    for found in recording.diff(&diff.from, &diff.to).map_err(Failure::other)? {
        let is_kind = kind
            .as_ref()
            .is_none_or(|kind| *kind == found.resource.group_resource());
        if !is_kind || namespace.is_some_and(|namespace| namespace != found.key.namespace()) {
            continue;
        }
        let (old, new) = (found.old.as_ref(), found.new.as_ref());
        let lines = UpdateLines::of_difference(&found.resource, old, new);
        let mut lines = lines.map_err(Failure::other)?;
        if diff.all_fields {
            lines.update.unfold();
        }
        lines.print_as(diff.output == Lines::Json, session.look, &mut session.out)?;
    }
    Ok(())
}
