//! `explain`: the fields of a kind, from the server's own OpenAPI documents, in kubectl's layout.

mod schemas;
mod text;

use std::io::Write as _;

use clap::Args;
use watchkeeper_client::discovery::ApiResource;
use watchkeeper_meta::{GroupVersion, GroupVersionKind, Resource};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::session::Session;
use schemas::Schemas;
use text::Explanation;

/// The largest document of a real server has 6 MB.
const MAX_DOCUMENT: usize = 64 << 20;

/// Why there is no text, and how to get it.
const NO_DESCRIPTIONS: &str = "note: this server's documents have no descriptions; a watchkeeper built with `--features descriptions` has them";

/// Show the fields of a kind
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper explain pods
  watchkeeper explain pod.spec.containers
  watchkeeper explain deployment.spec --recursive
  watchkeeper explain hpa --api-version autoscaling/v1")]
pub(crate) struct Explain {
    /// A kind, or a field of it: pod.spec.containers
    #[arg(value_name = "KIND.FIELD")]
    word: Option<String>,

    /// Show nested fields too, without descriptions
    #[arg(long)]
    recursive: bool,

    /// Group and version: autoscaling/v1
    #[arg(long, value_name = "VERSION")]
    api_version: Option<String>,
}

/// Finds the field, then prints its description and its fields.
pub(crate) async fn run(explain: Explain, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let Some(word) = &explain.word else {
        return Err(Failure::text(
            "You must specify the type of resource to explain; `watchkeeper api-resources` lists them",
        ));
    };
    let (found, path) = resource_and_path(cluster, word).await?;
    let resource = match &explain.api_version {
        Some(version) => in_version(cluster, &found, version).await?,
        None => found.resource,
    };
    let kind = resource.group_version_kind();
    let schemas = fetch(cluster, &resource).await?;
    let root = schemas
        .of_kind(&kind)
        .ok_or_else(|| Failure::text(format!("the server's documents do not describe {kind}")))?;
    let schema = schemas
        .follow(root, &path)
        .map_err(|field| Failure::text(format!("field {field:?} does not exist")))?;
    let mut explanation = Explanation::new(&schemas, explain.recursive);
    explanation.heading(&kind);
    if let Some(field) = path.last() {
        explanation.field(field, schema);
    }
    explanation.body(schema);
    session.out.write_all(explanation.finish().as_bytes())?;
    if !schemas.have_descriptions() {
        session.out.flush()?;
        writeln!(session.err, "{NO_DESCRIPTIONS}")?;
    }
    Ok(())
}

/// The kind is the longest matching prefix, because groups have dots too: `ingresses.networking.k8s.io.spec`.
async fn resource_and_path<'w>(
    cluster: &Cluster,
    word: &'w str,
) -> Result<(ApiResource, Vec<&'w str>), Failure> {
    let discovery = cluster.discovery.get().await?;
    let dots = word.rmatch_indices('.').map(|(at, _)| at);
    for end in std::iter::once(word.len()).chain(dots) {
        if let Some(found) = discovery.resource(&word[..end]) {
            let path = word[end..].split('.').filter(|field| !field.is_empty());
            return Ok((found.clone(), path.collect()));
        }
    }
    let (kind, path) = word.split_once('.').unwrap_or((word, ""));
    let path = path.split('.').filter(|field| !field.is_empty());
    Ok((cluster.resource(kind).await?, path.collect()))
}

/// The same kind in another version, possibly of another group.
async fn in_version(cluster: &Cluster, found: &ApiResource, version: &str) -> Result<Resource, Failure> {
    let wanted: GroupVersion = version.parse().map_err(Failure::text)?;
    let kind = GroupVersionKind::new(wanted.group, wanted.version, found.resource.kind.clone());
    let discovery = cluster.discovery.get().await?;
    match discovery.resource_of_kind(&kind) {
        Some(other) => Ok(other.resource.clone()),
        None => Err(Failure::text(format!("couldn't find resource for {kind}"))),
    }
}

async fn fetch(cluster: &Cluster, resource: &Resource) -> Result<Schemas, Failure> {
    let path = match resource.group.is_empty() {
        true => format!("/openapi/v3/api/{}", resource.version),
        false => format!("/openapi/v3/apis/{}/{}", resource.group, resource.version),
    };
    let bytes = cluster.client.get_raw(&path, MAX_DOCUMENT).await?;
    Schemas::parse(&bytes).map_err(|error| Failure::text(format!("{path} cannot be read: {error}")))
}
