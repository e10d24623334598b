//! `create`: creates objects from manifests.

use clap::Args;
use watchkeeper_meta::{CreateOptions, FieldValidation};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::manifests::{Filenames, Manifest};
use crate::printing::{Printing, Written};
use crate::session::Session;

/// Create objects from manifests
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper create -f pod.yaml
  cat pod.json | watchkeeper create -f -")]
pub(crate) struct Create {
    #[command(flatten)]
    files: Filenames,

    /// Field manager
    #[arg(long, value_name = "NAME", default_value = "watchkeeper-create")]
    field_manager: String,

    #[command(flatten)]
    printing: Printing,
}

/// Creates all manifests in order; failures are reported last.
pub(crate) async fn run(create: Create, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let printer = create.printing.printer()?;
    let mut failures = Vec::new();
    for manifest in create.files.read(session)? {
        let created = match manifest {
            Ok(manifest) => create.one(manifest, cluster).await,
            Err(failure) => Err(failure),
        };
        match created {
            Ok(written) => printer.show(written, session)?,
            Err(failure) => failures.push(failure),
        }
    }
    Failure::all(failures)
}

impl Create {
    /// Checks that need no cluster.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.files.check()
    }

    async fn one(&self, manifest: Manifest, cluster: &Cluster) -> Result<Written, Failure> {
        let target = manifest.target(cluster).await?;
        let options = CreateOptions {
            field_manager: Some(self.field_manager.clone()),
            field_validation: Some(FieldValidation::Strict),
            ..Default::default()
        };
        let created = target
            .create(&manifest.wanted.object)
            .with(&options)
            .await
            .map_err(|error| Failure::from(error).doing("creating", &manifest.source))?;
        Ok(Written {
            line: format!("{} created", target.resource().display_name(created.name())),
            api: target,
            object: created,
        })
    }
}
