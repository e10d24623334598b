//! `delete`: deletes objects by manifest, name or selector, and waits until they are gone.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{DeleteOptions, PropagationPolicy};

use crate::cluster::Cluster;
use crate::dry_run::DryRun;
use crate::duration;
use crate::failure::Failure;
use crate::manifests::{Filenames, Manifest};
use crate::selection::{Selectors, select};
use crate::session::Session;
use crate::waiting::until;

/// Delete objects by file, name or label
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper delete -f demo.yaml
  watchkeeper delete pod/web service/web
  watchkeeper delete pods -l app=web
  watchkeeper delete configmaps --all -n shop --wait=false")]
pub(crate) struct Delete {
    /// Objects to delete: kind/name …, or a kind and names
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,

    #[command(flatten)]
    files: Filenames,

    #[command(flatten)]
    selectors: Selectors,

    /// All objects of the kinds
    #[arg(long)]
    all: bool,

    /// Ignore objects that do not exist
    #[arg(long)]
    ignore_not_found: bool,

    /// Grace period of pods, in seconds
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<i64>,

    /// Delete pods with a grace period of one second
    #[arg(long, conflicts_with_all = ["grace_period", "force"])]
    now: bool,

    /// Delete pods without waiting: their containers may keep running for a while
    #[arg(long, conflicts_with = "grace_period")]
    force: bool,

    /// Treatment of dependents
    #[arg(long, default_value = "background")]
    cascade: Cascade,

    #[command(flatten)]
    dry_run: DryRun,

    /// Wait until the objects are gone
    #[arg(long, value_name = "BOOL", default_value_t = true, require_equals = true, num_args = 0..=1,
        default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,

    /// How long to wait; 0 is no limit
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cascade {
    Background,
    Foreground,
    Orphan,
}

/// One object to delete.
struct Doomed {
    api: DynamicApi,
    name: String,
    /// The file that names it, if any.
    source: Option<String>,
}

/// An object that is being deleted.
struct Leaving {
    api: DynamicApi,
    name: String,
}

/// Deletes in order; waits for all at the end; failures are reported last.
pub(crate) async fn run(delete: Delete, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let (mut leaving, mut failures) = (Vec::new(), Vec::new());
    let doomed = delete.doomed(cluster, session).await?;
    if doomed.is_empty() {
        writeln!(session.out, "No resources found")?;
    }
    for doomed in doomed {
        let deleted = match doomed {
            Ok(doomed) => delete.one(doomed).await,
            Err(failure) => Err(failure),
        };
        match deleted {
            Ok(gone) => {
                let how = if delete.force { "force deleted" } else { "deleted" };
                writeln!(
                    session.out,
                    "{} {how}{}",
                    gone.api.resource().display_name(&gone.name),
                    delete.dry_run.note()
                )?;
                session.out.flush()?;
                leaving.push(gone);
            }
            Err(failure) if delete.ignore_not_found && failure.is_not_found() => {}
            Err(failure) => failures.push(failure),
        }
    }
    if delete.wait
        && delete.dry_run.note().is_empty()
        && let Err(failure) = delete.await_all(leaving).await
    {
        failures.push(failure);
    }
    Failure::all(failures)
}

impl Delete {
    /// Checks that need no cluster.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (self.words.is_empty(), self.files.is_empty()) {
            (true, true) => Err(Failure::text(
                "name what to delete: `watchkeeper delete pod/web`, `watchkeeper delete pods -l app=web` or \
                 `watchkeeper delete -f FILE`",
            )),
            (_, false) => self.files.check(),
            (false, true) => Ok(()),
        }
    }

    async fn doomed(
        &self,
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<Vec<Result<Doomed, Failure>>, Failure> {
        match (self.words.is_empty(), self.files.filename.is_empty()) {
            (false, false) => Err(Failure::text("name objects or files with -f, not both")),
            (true, _) => {
                let mut found = Vec::new();
                for manifest in self.files.read(session)? {
                    found.push(match manifest {
                        Ok(manifest) => of_manifest(manifest, cluster).await,
                        Err(failure) => Err(failure),
                    });
                }
                Ok(found)
            }
            (false, true) => self.selected(cluster).await,
        }
    }

    async fn selected(&self, cluster: &Cluster) -> Result<Vec<Result<Doomed, Failure>>, Failure> {
        let mut found = Vec::new();
        for selected in select(cluster, &self.words).await? {
            let api = cluster.objects(&selected.resource.resource, false);
            let names = match selected.names.is_empty() {
                false if self.all || !self.selectors.is_empty() => {
                    return Err(Failure::text("name objects or select them, not both"));
                }
                false => selected.names,
                true if self.all || !self.selectors.is_empty() => self.selectors.names(&api).await?,
                true => {
                    return Err(Failure::text(
                        "resource(s) were provided, but no name was specified; -l or --all selects several",
                    ));
                }
            };
            found.extend(names.into_iter().map(|name| {
                Ok(Doomed {
                    api: api.clone(),
                    name,
                    source: None,
                })
            }));
        }
        Ok(found)
    }

    async fn one(&self, doomed: Doomed) -> Result<Leaving, Failure> {
        let Doomed { api, name, source } = doomed;
        let options = DeleteOptions {
            grace_period_seconds: match (self.now, self.force) {
                (true, _) => Some(1),
                (_, true) => Some(0),
                _ => self.grace_period,
            },
            propagation_policy: Some(match self.cascade {
                Cascade::Background => PropagationPolicy::Background,
                Cascade::Foreground => PropagationPolicy::Foreground,
                Cascade::Orphan => PropagationPolicy::Orphan,
            }),
            dry_run: self.dry_run.is_server(),
            ..Default::default()
        };
        if self.dry_run.is_client() {
            let found = api.clone().metadata_only().get(&name).await;
            found.map_err(|error| of_source(error, source.as_deref()))?;
            return Ok(Leaving { api, name });
        }
        match api.delete(&name).with(&options).await {
            Ok(_) => Ok(Leaving { api, name }),
            Err(error) => Err(of_source(error, source.as_deref())),
        }
    }

    async fn await_all(&self, leaving: Vec<Leaving>) -> Result<(), Failure> {
        let all = async {
            for object in leaving {
                object.gone().await?;
            }
            Ok(())
        };
        if self.timeout.is_zero() {
            return all.await;
        }
        tokio::time::timeout(self.timeout, all).await.unwrap_or_else(|_| {
            Err(Failure::text(format!(
                "timed out after {:?} waiting for the objects to be gone; finalizers may hold them",
                self.timeout
            )))
        })
    }
}

fn of_source(error: watchkeeper_client::Error, source: Option<&str>) -> Failure {
    match source {
        Some(source) => Failure::from(error).doing("deleting", source),
        None => error.into(),
    }
}

async fn of_manifest(manifest: Manifest, cluster: &Cluster) -> Result<Doomed, Failure> {
    Ok(Doomed {
        api: manifest.target(cluster).await?,
        name: manifest.wanted.name,
        source: Some(manifest.source),
    })
}

impl Leaving {
    /// Completes when the object is gone, or another one has its name.
    async fn gone(self) -> Result<(), Failure> {
        let mut uid = Value::Null;
        let gone = until(&self.api, &self.name, |object| {
            let Some(object) = object else {
                return Ok(true);
            };
            let own = &object["metadata"]["uid"];
            if uid.is_null() {
                uid = own.clone();
            }
            Ok(uid != *own || object["metadata"]["deletionTimestamp"].is_null())
        })
        .await;
        match gone {
            // A user who may delete need not be allowed to read.
            Err(Failure::Cluster { error, .. }) if error.is_forbidden() => Ok(()),
            gone => gone,
        }
    }
}
