//! `scale`: sets the number of replicas.

use std::io::Write as _;

use clap::Args;
use serde_json::json;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{PatchKind, PatchOptions, Status};

use crate::cluster::Cluster;
use crate::dry_run::DryRun;
use crate::failure::Failure;
use crate::session::Session;
use crate::targets::{KindAlone, Target, Targets};

/// Set the number of replicas
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper scale deployment/web --replicas 5
  watchkeeper scale deployment/web --replicas 5 --current-replicas 3
  watchkeeper scale statefulset db --replicas 0
  watchkeeper scale deployments -l tier=front --replicas 0")]
pub(crate) struct Scale {
    /// Objects: kind/name …, or a kind and names
    #[arg(value_name = "RESOURCE", required_unless_present_any = ["filename", "kustomize"])]
    words: Vec<String>,

    #[command(flatten)]
    targets: Targets,

    /// Number of replicas
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = count)]
    replicas: u32,

    /// Scale only if there are this many now
    #[arg(long, value_name = "COUNT")]
    current_replicas: Option<u32>,

    #[command(flatten)]
    dry_run: DryRun,
}

fn count(text: &str) -> Result<u32, String> {
    let count = text.parse();
    count.map_err(|_| "the number of replicas must be 0 or greater".to_owned())
}

/// Scales each object.
pub(crate) async fn run(scale: Scale, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let mut failures = Vec::new();
    scale.dry_run.refuse_client()?;
    let targets = scale
        .targets
        .find(&scale.words, KindAlone::Refused, cluster, session);
    let targets = targets.await?;
    if targets.is_empty() {
        return Err(Failure::text("no objects passed to scale"));
    }
    for Target { resource, api, name } in targets {
        if resource.subresource("scale").is_none() {
            let group_resource = resource.resource.group_resource();
            return Err(Failure::text(format!(
                "{group_resource} cannot be scaled: they have no replicas"
            )));
        }
        match scale.one(&api.json_only(), &name).await {
            Ok(()) => {
                let name = resource.resource.display_name(&name);
                writeln!(session.out, "{name} scaled{}", scale.dry_run.note())?;
            }
            Err(failure) => failures.push(failure),
        }
    }
    Failure::all(failures)
}

impl Scale {
    /// If the server has no scale subresource, the object itself is patched. A precondition is checked by version: a
    /// write in between is a conflict.
    async fn one(&self, objects: &DynamicApi, name: &str) -> Result<(), Failure> {
        let mut patch = json!({"spec": {"replicas": self.replicas}});
        if let Some(expected) = self.current_replicas {
            let object = objects.get(name).await?;
            let found = object.to_value().map_err(Failure::other)?;
            let found = found["spec"]["replicas"].as_u64().unwrap_or(1);
            if found != u64::from(expected) {
                return Err(Failure::text(format!(
                    "expected {} to have {expected} replicas, and it has {found}",
                    objects.resource().display_name(name)
                )));
            }
            patch["metadata"] = json!({"resourceVersion": object.resource_version()});
        }
        let options = PatchOptions {
            dry_run: self.dry_run.is_server(),
            ..Default::default()
        };
        let scale = objects.clone().subresource("scale");
        match scale.patch(name, PatchKind::Merge, &patch).with(&options).await {
            Err(error) if error.status().is_some_and(Status::is_method_not_allowed) => {
                objects
                    .patch(name, PatchKind::Merge, &patch)
                    .with(&options)
                    .await?;
            }
            result => drop(result?),
        }
        Ok(())
    }
}
