//! `patch`: patches an object.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use watchkeeper_meta::{PatchKind, PatchOptions};
use watchkeeper_wire::yaml::{self, Mode};

use crate::cluster::Cluster;
use crate::dry_run::DryRun;
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
    #[arg(short, long, value_name = "PATCH", required_unless_present = "patch_file")]
    patch: Option<String>,

    /// The file with the patch, in JSON or YAML
    #[arg(long, value_name = "FILE", conflicts_with = "patch")]
    patch_file: Option<PathBuf>,

    /// Type of the patch
    #[arg(long = "type", default_value = "strategic")]
    kind: Kind,

    /// Subresource to patch: status, scale
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,

    #[command(flatten)]
    dry_run: DryRun,

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
    patch.dry_run.refuse_client()?;
    let text = patch.text()?;
    let document = yaml::first_document(text.as_bytes(), Mode::Strict)
        .map_err(|error| Failure::text(format!("unable to parse {text:?}: {error}")))?;
    let (found, name) = select_one(cluster, &patch.words).await?;
    let mut api = cluster.objects(&found.resource, false);
    let before = api.get(&name).await?;
    if let Some(subresource) = &patch.subresource {
        api = api.subresource(subresource);
    }
    let kind = match patch.kind {
        Kind::Strategic => PatchKind::Strategic,
        Kind::Merge => PatchKind::Merge,
        Kind::Json => PatchKind::Json,
    };
    let options = PatchOptions {
        dry_run: patch.dry_run.is_server(),
        ..Default::default()
    };
    let after = api.patch(&name, kind, &document.value).with(&options).await?;
    let object = after.to_value().map_err(Failure::other)?;
    // A dry run keeps the version.
    let is_same = before.is_same_version(&after)
        && (!patch.dry_run.is_server() || before.to_value().is_ok_and(|before| before == object));
    let note = if is_same { " (no change)" } else { "" };
    let resource = api.resource().clone();
    let line = format!(
        "{} patched{note}{}",
        resource.display_name(&name),
        patch.dry_run.note()
    );
    printer.show(
        Written {
            resource,
            object,
            line,
        },
        session,
    )
}

impl Patch {
    fn text(&self) -> Result<String, Failure> {
        let (patch, file) = (self.patch.clone(), self.patch_file.as_ref());
        match file {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| Failure::text(format!("error reading {}: {error}", file.display()))),
            None => Ok(patch.unwrap_or_default()),
        }
    }
}
