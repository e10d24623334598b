//! `create`: creates objects from manifests, or one object of a common kind from flags.

mod data;
mod generate;

use clap::Args;
use serde_json::Value;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::CreateOptions;

use crate::cluster::{Cluster, is_namespaced};
use crate::dry_run::DryRun;
use crate::failure::Failure;
use crate::field_validation::Validate;
use crate::manifests::{Filenames, Manifest};
use crate::printing::{Printing, Written};
use crate::session::Session;
use generate::Generator;

/// Create objects from manifests, or one from flags
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = false,
    after_help = "Examples:
  watchkeeper create -f pod.yaml
  cat pod.json | watchkeeper create -f -
  watchkeeper create deployment web --image web:1 --replicas 3
  watchkeeper create configmap settings --from-literal colour=blue --from-file app.conf
  watchkeeper create secret generic token --from-file ./token
  watchkeeper create job once --image busybox -- date
  watchkeeper create namespace shop --dry-run=client -o yaml"
)]
pub(crate) struct Create {
    #[command(subcommand)]
    generator: Option<Generator>,

    #[command(flatten)]
    files: Filenames,

    /// Field manager
    #[arg(
        long,
        value_name = "NAME",
        default_value = "watchkeeper-create",
        global = true
    )]
    field_manager: String,

    #[command(flatten)]
    validate: Validate,

    #[command(flatten)]
    dry_run: DryRun,

    #[command(flatten)]
    printing: Printing,
}

/// Creates all manifests in order, failures last; or the object of the flags. Without a server, the latter can still be
/// printed.
pub(crate) async fn run(
    create: Create,
    cluster: Result<Cluster, Failure>,
    session: &mut Session,
) -> Result<(), Failure> {
    let printer = create.printing.printer()?;
    if let Some(generator) = &create.generator {
        let written = create.generated(generator, cluster).await?;
        return printer.show(written, session);
    }
    let cluster = cluster?;
    let mut failures = Vec::new();
    for manifest in create.files.read(session)? {
        let created = match manifest {
            Ok(manifest) => create.one(manifest, &cluster).await,
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
        match (&self.generator, self.files.is_empty()) {
            (Some(_), true) => Ok(()),
            (Some(_), false) => Err(Failure::text(
                "name files with -f or one kind to create, not both",
            )),
            (None, true) => Err(Failure::text(
                "required flag(s) \"filename\" not set; or name a kind: `watchkeeper create deployment --help`",
            )),
            (None, false) => self.files.check(),
        }
    }

    async fn one(&self, manifest: Manifest, cluster: &Cluster) -> Result<Written, Failure> {
        let target = manifest.target(cluster).await?;
        let created = self.write(&target, manifest.wanted.object).await;
        created.map_err(|failure| failure.doing("creating", &manifest.source))
    }

    /// The object that flags describe. Its kind is known: only `--from` and the write itself need a cluster.
    async fn generated(
        &self,
        generator: &Generator,
        cluster: Result<Cluster, Failure>,
    ) -> Result<Written, Failure> {
        let mut object = generator.object(cluster.as_ref().ok()).await?;
        let resource = generator.resource();
        if let Ok(Cluster {
            namespace,
            namespace_typed: true,
            ..
        }) = &cluster
            && is_namespaced(&resource)
        {
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
        if self.dry_run.is_client() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return Ok(Written {
                line: format!("{} created{}", resource.display_name(name), self.dry_run.note()),
                resource,
                object,
            });
        }
        self.write(&cluster?.objects(&resource, false), object).await
    }

    async fn write(&self, target: &DynamicApi, object: Value) -> Result<Written, Failure> {
        let options = CreateOptions {
            field_manager: Some(self.field_manager.clone()),
            field_validation: self.validate.mode(),
            dry_run: self.dry_run.is_server(),
        };
        let object = match self.dry_run.is_client() {
            true => object,
            false => {
                let created = target.create(&object).with(&options).await?;
                created.to_value().map_err(Failure::other)?
            }
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Ok(Written {
            line: format!(
                "{} created{}",
                target.resource().display_name(name),
                self.dry_run.note()
            ),
            resource: target.resource().clone(),
            object,
        })
    }
}
