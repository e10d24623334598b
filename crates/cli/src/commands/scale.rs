//! `scale`: sets the number of replicas.

use std::io::Write as _;

use clap::Args;
use serde_json::{Value, json};
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{PatchKind, Status};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::selection::select;
use crate::session::Session;

/// Set the number of replicas
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper scale deployment/web --replicas 5
  watchkeeper scale statefulset db --replicas 0")]
pub(crate) struct Scale {
    /// Objects: kind/name …, or a kind and names
    #[arg(value_name = "RESOURCE", required = true)]
    words: Vec<String>,

    /// Number of replicas
    #[arg(long, value_name = "COUNT")]
    replicas: u32,
}

/// Scales each object.
pub(crate) async fn run(scale: Scale, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let mut failures = Vec::new();
    let patch = json!({"spec": {"replicas": scale.replicas}});
    for selected in select(cluster, &scale.words).await? {
        let resource = &selected.resource;
        if resource.subresource("scale").is_none() {
            let group_resource = resource.resource.group_resource();
            return Err(Failure::text(format!(
                "{group_resource} cannot be scaled: it has no replicas"
            )));
        }
        if selected.names.is_empty() {
            return Err(Failure::text("name the objects to scale"));
        }
        let objects = cluster.objects(&resource.resource, false).json_only();
        for name in &selected.names {
            match set_replicas(&objects, name, &patch).await {
                Ok(()) => writeln!(session.out, "{} scaled", resource.resource.display_name(name))?,
                Err(failure) => failures.push(failure),
            }
        }
    }
    Failure::all(failures)
}

/// If the server has no scale subresource, the object itself is patched.
async fn set_replicas(objects: &DynamicApi, name: &str, patch: &Value) -> Result<(), Failure> {
    let scale = objects.clone().subresource("scale");
    match scale.patch(name, PatchKind::Merge, patch).await {
        Err(error) if error.status().is_some_and(Status::is_method_not_allowed) => {
            objects.patch(name, PatchKind::Merge, patch).await?;
        }
        result => drop(result?),
    }
    Ok(())
}
