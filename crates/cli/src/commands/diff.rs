//! `diff`: what differs between two moments of a recording, or between the cluster and manifests (`-f`).

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use watchkeeper_meta::ApplyOptions;
use watchkeeper_recording::{Moment, Recording};

use super::history::Lines;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::manifests::{Filenames, Manifest};
use crate::recorded::{RecordedObject, moment};
use crate::session::Session;
use crate::update_lines::UpdateLines;

/// Show what applying manifests would change, or what differs between two moments of a recording
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper diff -f web.yaml
  watchkeeper diff incident.rec --from 2026-01-31T12:00:00Z --to 2026-01-31T12:05:00Z
  watchkeeper diff incident.rec deployments -n shop --from 1200 --to 1300

A moment is a time, a version of the cluster, or end. With -f the server makes the result, and
stores nothing; the exit code is 0 if nothing would change, 1 if something would, and 2 after an
error.")]
pub(crate) struct Diff {
    /// The recording
    #[arg(value_name = "RECORDING", required_unless_present_any = ["filename", "kustomize"], conflicts_with = "filename")]
    file: Option<PathBuf>,

    /// Only this kind
    #[arg(value_name = "KIND")]
    kind: Option<String>,

    #[command(flatten)]
    files: Filenames,

    /// Take fields from other managers on conflict, as the apply would
    #[arg(long, requires = "filename")]
    force_conflicts: bool,

    /// Field manager of the apply
    #[arg(long, value_name = "NAME", default_value = "watchkeeper")]
    field_manager: String,

    /// The first moment
    #[arg(long, value_name = "MOMENT", value_parser = moment, required_unless_present_any = ["filename", "kustomize"])]
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

/// Prints the objects that differ, and how.
pub(crate) fn run(diff: &Diff, namespace: Option<&str>, session: &mut Session) -> Result<(), Failure> {
    let (Some(file), Some(from)) = (&diff.file, &diff.from) else {
        return Err(Failure::text("name a recording and --from, or manifests with -f"));
    };
    let recording = Recording::open(file).map_err(Failure::other)?;
    let kind = match &diff.kind {
        Some(kind) => {
            let found = RecordedObject::find(&recording, std::slice::from_ref(kind), namespace)?;
            Some(found.resource.group_resource())
        }
        None => None,
    };
    for found in recording.diff(from, &diff.to).map_err(Failure::other)? {
        let is_kind = kind
            .as_ref()
            .is_none_or(|kind| *kind == found.resource.group_resource());
        if !is_kind || namespace.is_some_and(|namespace| namespace != found.key.namespace()) {
            continue;
        }
        let (old, new) = (found.old.as_ref(), found.new.as_ref());
        let lines = UpdateLines::of_difference(&found.resource, old, new);
        diff.print(lines.map_err(Failure::other)?, session)?;
    }
    Ok(())
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
        (Err(failure), _) => Err(Failure::Usage(without_prefix(&failure))),
        (Ok(()), true) => Err(Failure::Judged),
        (Ok(()), false) => Ok(()),
    }
}

/// The text of a failure without the `error: ` that is printed before every one.
fn without_prefix(failure: &Failure) -> String {
    let text = failure.to_string();
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
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
