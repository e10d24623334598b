//! Labels and annotations of existing objects: `app=web`, and `app-` to remove.

use std::borrow::Cow;
use std::io::Write as _;

use clap::Args;
use serde_json::{Map, Value, json};
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{PatchKind, PatchOptions};
use watchkeeper_wire::Object;

use crate::cluster::Cluster;
use crate::dry_run::DryRun;
use crate::failure::Failure;
use crate::printing::{Printing, Written};
use crate::session::Session;
use crate::targets::{KindAlone, Target, Targets};

/// The objects and the changes.
#[derive(Debug, Args)]
pub(crate) struct MarkArguments {
    /// Objects, then KEY=VALUE to set and KEY- to remove
    #[arg(value_name = "RESOURCE… KEY=VALUE")]
    words: Vec<String>,

    #[command(flatten)]
    targets: Targets,

    /// Overwrite existing values
    #[arg(long)]
    overwrite: bool,

    /// List what the objects have instead of changing it
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    dry_run: DryRun,

    #[command(flatten)]
    printing: Printing,
}

/// Labels or annotations, with the words for results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkKind {
    pub(crate) field: &'static str,
    /// The singular: `label`.
    pub(crate) one: &'static str,
    pub(crate) done: &'static str,
    /// The words for "nothing changed" and "only removed".
    pub(crate) not_done: &'static str,
    pub(crate) undone: &'static str,
}

/// Changes each object; failures are reported last.
pub(crate) async fn run(
    arguments: MarkArguments,
    kind: MarkKind,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    let is_change = |word: &&String| word.contains('=') || word.ends_with('-');
    let words: Vec<String> = arguments
        .words
        .iter()
        .filter(|word| !is_change(word))
        .cloned()
        .collect();
    let changes: Map<String, Value> = arguments
        .words
        .iter()
        .filter(is_change)
        .map(|word| change(word))
        .collect();
    arguments.dry_run.refuse_client()?;
    if changes.is_empty() && !arguments.list {
        return Err(Failure::text(format!(
            "at least one {} update is required: KEY=VALUE, or KEY- to remove; --list shows what is there",
            kind.one
        )));
    }
    let printer = arguments.printing.printer()?;
    let mut failures = Vec::new();
    let targets = arguments
        .targets
        .find(&words, KindAlone::Refused, cluster, session);
    let targets = targets.await?;
    if targets.is_empty() {
        session.err.line(arguments.targets.nothing(cluster));
    }
    for Target { api, name, .. } in targets {
        match arguments.one(&api, &name, kind, &changes).await {
            Ok(lines) => {
                for missing in lines.missing {
                    writeln!(session.out, "{} {missing:?} not found.", kind.one)?;
                }
                if arguments.list {
                    let mut list = lines.list.iter();
                    list.try_for_each(|line| writeln!(session.out, "{line}"))?;
                    continue;
                }
                let resource = api.resource().clone();
                let (name, note) = (resource.display_name(&name), arguments.dry_run.note());
                let written = Written {
                    line: format!("{name} {}{note}", lines.done),
                    object: lines.object.to_value().map_err(Failure::other)?,
                    resource,
                };
                printer.show(written, session)?;
            }
            Err(failure) => failures.push(failure),
        }
    }
    Failure::all(failures)
}

fn change(word: &str) -> (String, Value) {
    match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.into()),
        None => (word.trim_end_matches('-').to_owned(), Value::Null),
    }
}

impl MarkArguments {
    async fn one(
        &self,
        api: &DynamicApi,
        name: &str,
        kind: MarkKind,
        changes: &Map<String, Value>,
    ) -> Result<Marked, Failure> {
        let before = api.clone().metadata_only().get(name).await?;
        if !self.overwrite {
            refuse_overwrite(&before, kind, changes)?;
        }
        let patch = json!({"metadata": {kind.field: changes}});
        let options = PatchOptions {
            dry_run: self.dry_run.is_server(),
            ..Default::default()
        };
        let after = match changes.is_empty() {
            true => before.clone(),
            false => api.patch(name, PatchKind::Merge, &patch).with(&options).await?,
        };
        let removes = |value: &Value| value.is_null();
        let missing = changes
            .iter()
            .filter(|(key, value)| removes(value) && kind.on(&before, key).is_none());
        Ok(Marked {
            missing: missing.map(|(key, _)| key.clone()).collect(),
            list: kind.pairs(&after),
            object: after.clone(),
            // A dry run keeps the version.
            done: match before.is_same_version(&after) && kind.pairs(&before) == kind.pairs(&after) {
                true => kind.not_done,
                false if changes.values().all(removes) => kind.undone,
                false => kind.done,
            },
        })
    }
}

/// The result for one object.
struct Marked {
    /// Keys to remove that did not exist.
    missing: Vec<String>,
    /// The keys and values afterwards.
    list: Vec<String>,
    /// The object afterwards.
    object: Object,
    done: &'static str,
}

impl MarkKind {
    fn pairs(self, object: &Object) -> Vec<String> {
        let pairs = match self.field {
            "labels" => object.labels(),
            _ => object.annotations(),
        };
        pairs
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    fn on<'o>(self, object: &'o Object, key: &str) -> Option<Cow<'o, str>> {
        match self.field {
            "labels" => object.label(key),
            _ => object.annotation(key),
        }
    }
}

fn refuse_overwrite(before: &Object, kind: MarkKind, changes: &Map<String, Value>) -> Result<(), Failure> {
    for (key, value) in changes {
        if let (Some(present), Value::String(value)) = (kind.on(before, key), value)
            && present != *value
        {
            return Err(Failure::text(format!(
                "'{key}' already has a value ({present}), and --overwrite is false"
            )));
        }
    }
    Ok(())
}
