//! `apply`: server-side apply of manifests.

use clap::Args;
use watchkeeper_meta::ApplyOptions;

use crate::cluster::Cluster;
use crate::dry_run::DryRun;
use crate::failure::Failure;
use crate::field_validation::Validate;
use crate::manifests::{Filenames, Manifest};
use crate::printing::{Printing, Written};
use crate::session::Session;

/// Apply manifests: create missing objects and update the others
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper apply -f demo.yaml
  watchkeeper apply -f manifests/ -R
  cat demo.yaml | watchkeeper apply -f -")]
pub(crate) struct Apply {
    #[command(flatten)]
    files: Filenames,

    /// Field manager
    #[arg(long, value_name = "NAME", default_value = "watchkeeper")]
    field_manager: String,

    /// Take fields from other managers on conflict
    #[arg(long)]
    force_conflicts: bool,

    #[command(flatten)]
    validate: Validate,

    #[command(flatten)]
    dry_run: DryRun,

    #[command(flatten)]
    printing: Printing,

    /// Always on; accepted so that scripts for kubectl work
    #[arg(long, hide = true)]
    server_side: bool,
}

/// Applies all manifests in order; failures are reported last.
pub(crate) async fn run(apply: Apply, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let printer = apply.printing.printer()?;
    let mut failures = Vec::new();
    for manifest in apply.files.read(session)? {
        let applied = match manifest {
            Ok(manifest) => apply.one(manifest, cluster).await,
            Err(failure) => Err(failure),
        };
        match applied {
            Ok(written) => printer.show(written, session)?,
            Err(failure) => failures.push(failure),
        }
    }
    Failure::all(failures)
}

impl Apply {
    /// Checks that need no cluster.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.files.check()?;
        self.dry_run.refuse_client()
    }

    async fn one(&self, manifest: Manifest, cluster: &Cluster) -> Result<Written, Failure> {
        let target = manifest.target(cluster).await?;
        if manifest.wanted.name.is_empty() {
            return Err(Failure::text(format!(
                "error when applying {:?}: metadata.name is required; `watchkeeper create` takes generateName",
                manifest.source
            )));
        }
        let options = ApplyOptions {
            field_manager: self.field_manager.clone(),
            force: self.force_conflicts,
            dry_run: self.dry_run.is_server(),
            field_validation: self.validate.mode(),
        };
        let applied = manifest.wanted.apply(&target, &options).await;
        let applied = applied.map_err(|error| Failure::from(error).doing("applying", &manifest.source))?;
        Ok(Written {
            resource: target.resource().clone(),
            line: format!("{applied}{}", self.dry_run.note()),
            object: applied.object.to_value().map_err(Failure::other)?,
        })
    }
}
