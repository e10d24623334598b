//! `diff`: what differs between two moments of a recording, two versions of a cluster, or the cluster and manifests
//! (`-f`).

use std::io::Write as _;

use clap::Args;
use watchkeeper_meta::{ApplyOptions, GroupResource};
use watchkeeper_recording::{Moment, ObjectDiff, Recording, RecordingError};

use super::history::Lines;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::live_past::LivePast;
use crate::manifests::{Filenames, Manifest};
use crate::recorded::{RecordedObject, moment, warn_of_end};
use crate::session::Session;
use crate::update_lines::UpdateLines;

/// Show what applying manifests would change, or what differs between two moments of a recording or of the cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper diff -f web.yaml
  watchkeeper diff incident.rec                                         from its start to its end
  watchkeeper diff incident.rec --from 2026-01-31T12:00:00Z --to 2026-01-31T12:05:00Z
  watchkeeper diff incident.rec deployments -n shop --from 1200 --to 1300
  watchkeeper diff --live deployments -n shop --from 1200               the cluster then and now

A moment is a time, a version of the cluster, or end. With -f the server makes the result, and
stores nothing; the exit code is 0 if nothing would change, 1 if something would, and 2 after an
error.")]
pub(crate) struct Diff {
    /// The recording, and perhaps a kind; with --live a kind, or a kind and a name
    #[arg(value_name = "RECORDING|KIND", num_args = 0..=2, conflicts_with = "filename")]
    words: Vec<String>,

    /// Compare versions in the recent history of the cluster
    #[arg(long)]
    live: bool,

    #[command(flatten)]
    files: Filenames,

    /// Take fields from other managers on conflict, as the apply would
    #[arg(long, requires = "filename")]
    force_conflicts: bool,

    /// Field manager of the apply
    #[arg(long, value_name = "NAME", default_value = "watchkeeper")]
    field_manager: String,

    /// The first moment; by default the start of the recording, or of what the cluster remembers
    #[arg(long, value_name = "MOMENT", value_parser = moment, conflicts_with = "filename")]
    from: Option<Moment>,

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

/// Prints the objects of a recording that differ, and how.
pub(crate) fn run_recorded(
    diff: &Diff,
    namespace: Option<&str>,
    session: &mut Session,
) -> Result<(), Failure> {
    let [file, kinds @ ..] = diff.words.as_slice() else {
        return Err(Failure::text(
            "name what to compare: manifests with -f FILE, a recording, or kinds of the cluster with --live",
        ));
    };
    let recording = Recording::open(file).map_err(|error| match error {
        RecordingError::Foreign { .. } => {
            Failure::text(format!("{error}; manifests are compared with -f {file}"))
        }
        error => Failure::other(error),
    })?;
    let kind = match kinds {
        [] => None,
        [kind, ..] => {
            let found = RecordedObject::find(&recording, std::slice::from_ref(kind), namespace)?;
            Some(found.resource.group_resource())
        }
    };
    let span = recording.span().map_err(Failure::other)?;
    let Some(start) = span.complete_from else {
        return Err(Failure::text(format!(
            "{file} ends before its first list is complete"
        )));
    };
    let (from, to) = (diff.from.unwrap_or(Moment::Revision(start)), diff.to);
    for moment in [&from, &to] {
        span.check(moment).map_err(Failure::other)?;
    }
    // Both would warn of the same end.
    warn_of_end(&span, if span.ends_before(&to) { &to } else { &from }, session);
    let found = recording.diff(&from, &to).map_err(Failure::other)?;
    let is_asked = |found: &ObjectDiff| {
        let is_kind = |kind: &GroupResource| *kind == found.resource.group_resource();
        kind.as_ref().is_none_or(is_kind) && namespace.is_none_or(|name| name == found.key.namespace())
    };
    diff.print_all(found.into_iter().filter(is_asked), session)
}

/// Prints the objects of the cluster that differ between two versions of its recent history.
pub(crate) async fn run_live(diff: &Diff, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let past = LivePast::find(cluster, &diff.words).await?;
    let to = version(diff.to)?;
    let from = match diff.from.map(version).transpose()? {
        Some(Some(from)) => from,
        Some(None) => {
            return Err(Failure::text(
                "--from needs a version: what is to be compared with now?",
            ));
        }
        None => past.start(session).await?,
    };
    let found = past.objects().diff(from, to).await.map_err(Failure::other)?;
    diff.print_all(found.into_iter(), session)
}

impl Diff {
    /// True if the objects come from the cluster, not from a recording.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    fn print_all(
        &self,
        found: impl Iterator<Item = ObjectDiff>,
        session: &mut Session,
    ) -> Result<(), Failure> {
        for found in found {
            let (old, new) = (found.old.as_ref(), found.new.as_ref());
            let lines = UpdateLines::of_difference(&found.resource, old, new);
            self.print(lines.map_err(Failure::other)?, session)?;
        }
        Ok(())
    }
}

/// The version of a moment; `None` is now.
fn version(moment: Moment) -> Result<Option<u64>, Failure> {
    match moment {
        Moment::Revision(version) => Ok(Some(version)),
        Moment::End => Ok(None),
        Moment::Time(_) => Err(Failure::text(
            "the history of a cluster has versions, not times: name a version, or a recording",
        )),
    }
}

/// Prints what applying the manifests would change; the exit code says whether something would.
pub(crate) async fn run_manifests(
    diff: Diff,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    let (mut differs, mut failures) = (false, Vec::new());
    let manifests = diff.files.read(session).map_err(Failure::into_usage)?;
    for manifest in manifests {
        let compared = match manifest {
            Ok(manifest) => diff.manifest(&manifest, cluster, session).await,
            Err(failure) => Err(failure),
        };
        match compared {
            Ok(changed) => differs |= changed,
            Err(failure) => failures.push(failure),
        }
    }
    session.out.flush()?;
    match (Failure::all(failures), differs) {
        (Err(failure), _) => Err(Failure::Unjudged(Box::new(failure))),
        (Ok(()), true) => Err(Failure::Judged),
        (Ok(()), false) => Ok(()),
    }
}

impl Diff {
    /// True if manifests are compared with a cluster.
    pub(crate) fn is_of_manifests(&self) -> bool {
        !self.files.is_empty()
    }

    fn print(&self, mut lines: UpdateLines<'_>, session: &mut Session) -> Result<(), Failure> {
        if self.all_fields {
            lines.update.unfold();
        }
        Ok(lines.print_as(self.output == Lines::Json, session.look, &mut session.out)?)
    }

    /// Compares the object with the answer of a dry-run apply; true if they differ.
    async fn manifest(
        &self,
        manifest: &Manifest,
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<bool, Failure> {
        let target = manifest.target(cluster).await?;
        let options = ApplyOptions {
            field_manager: self.field_manager.clone(),
            force: self.force_conflicts,
            dry_run: true,
            field_validation: None,
        };
        let before = target.find(&manifest.wanted.name).await?;
        let applied = manifest.wanted.apply(&target, &options).await;
        let applied = applied.map_err(|error| Failure::from(error).doing("comparing", &manifest.source))?;
        let lines = UpdateLines::of_difference(target.resource(), before.as_ref(), Some(&applied.object));
        let mut lines = lines.map_err(Failure::other)?;
        if before.is_some() && lines.update.changes.is_empty() {
            return Ok(false);
        }
        // Nothing is stored, so there is neither a version nor an author yet.
        lines.version.clear();
        lines.update.authors.clear();
        if target.resource().kind == "Secret" && target.resource().group.is_empty() {
            mask(&mut lines);
        }
        self.print(lines, session)?;
        Ok(true)
    }
}

/// The values of a secret are not shown, only that they change.
fn mask(lines: &mut UpdateLines<'_>) {
    for change in &mut lines.update.changes {
        if change.path.to_string().starts_with("data") {
            change.old = change.old.take().map(|_| "*** (before)".into());
            change.new = change.new.take().map(|_| "*** (after)".into());
        }
    }
}
