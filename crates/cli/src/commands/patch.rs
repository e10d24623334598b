//! `patch`: patches an object.

use clap::{Args, ValueEnum};
use watchkeeper_meta::PatchKind;
use watchkeeper_wire::yaml::{self, Mode};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::printing::{Printing, Written};
use crate::selection::select_one;
use crate::session::Session;

/// Patch an object
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper patch deployment web -p '{\"spec\":{\"replicas\":3}}'
  watchkeeper patch pod/web --type json -p '[{\"op\":\"remove\",\"path\":\"/metadata/labels/old\"}]'
  watchkeeper patch node/a --subresource status --type merge -p 'status: {phase: Running}'")]
pub(crate) struct Patch {
    /// Object: kind/name, or a kind and a name
    #[arg(value_name = "RESOURCE", required = true)]
    words: Vec<String>,

    /// The patch, in JSON or YAML
    #[arg(short, long, value_name = "PATCH")]
    patch: String,

    /// Type of the patch
    #[arg(long = "type", default_value = "strategic")]
    kind: Kind,

    /// Subresource to patch: status, scale
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,

    #[command(flatten)]
    printing: Printing,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// The changed fields; lists merge by the keys of their items
    Strategic,
    /// The changed fields; null removes (RFC 7386)
    Merge,
    /// A list of operations (RFC 6902)
    Json,
}

/// Patches, and prints whether that changed anything.
pub(crate) async fn run(patch: Patch, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let printer = patch.printing.printer()?;
    let document = yaml::first_document(patch.patch.as_bytes(), Mode::Strict)
        .map_err(|error| Failure::text(format!("unable to parse {:?}: {error}", patch.patch)))?;
    let (found, name) = select_one(cluster, &patch.words).await?;
    let mut api = cluster.objects(&found.resource, false);
    let before = api.get(&name).await?;
    if let Some(subresource) = patch.subresource {
        api = api.subresource(subresource);
    }
    let kind = match patch.kind {
        Kind::Strategic => PatchKind::Strategic,
        Kind::Merge => PatchKind::Merge,
        Kind::Json => PatchKind::Json,
    };
    let after = api.patch(&name, kind, &document.value).await?;
    let note = match before.is_same_version(&after) {
        true => " (no change)",
        false => "",
    };
    let line = format!("{} patched{note}", api.resource().display_name(&name));
    let object = after;
    printer.show(Written { api, object, line }, session)
}
