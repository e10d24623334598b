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
use crate::manifests::Manifest;
use crate::session::Session;
use crate::targets::{KindAlone, Target, Targets};
use crate::waiting::until;

/// Delete objects by file, name or label
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper delete -f demo.yaml
  watchkeeper delete pod/web service/web
  watchkeeper delete pods -l app=web
  watchkeeper delete configmaps --all -n shop --wait=false
  watchkeeper delete pods -A --field-selector status.phase=Failed")]
pub(crate) struct Delete {
    /// Objects to delete: kind/name …, or a kind and names
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,

    #[command(flatten)]
    targets: Targets,

    /// Ignore objects that do not exist
    #[arg(long)]
    ignore_not_found: bool,

    /// Grace period of pods, in seconds; 0 needs --force
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    grace_period: Option<i64>,

    /// Delete pods with a grace period of one second
    #[arg(long, conflicts_with_all = ["grace_period", "force"])]
    now: bool,

    /// Delete pods without waiting: their containers may keep running for a while
    #[arg(long)]
    force: bool,

    /// Treatment of dependents
    #[arg(long, default_value = "background")]
    cascade: Cascade,

    #[command(flatten)]
    dry_run: DryRun,

    /// Print only kind/name
    #[arg(short, long, value_name = "name", value_parser = ["name"])]
    output: Option<String>,

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

/// kubectl's words.
const IMMEDIATELY: &str = "Warning: Immediate deletion does not wait for confirmation that the running resource has been \
                           terminated. The resource may continue to run on the cluster indefinitely.";

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
    if delete.force && !doomed.is_empty() {
        session.err.line(IMMEDIATELY);
    }
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
                writeln!(session.out, "{}", delete.line(&gone))?;
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
    fn line(&self, gone: &Leaving) -> String {
        let name = gone.api.resource().display_name(&gone.name);
        let how = if self.force { "force deleted" } else { "deleted" };
        match self.output {
            Some(_) => name,
            None => format!("{name} {how}{}", self.dry_run.note()),
        }
    }

    /// Checks that need no cluster.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.force && self.grace_period.is_some_and(|seconds| seconds > 0) {
            return Err(Failure::text(
                "--force and --grace-period greater than 0 cannot be specified together",
            ));
        }
        match (self.words.is_empty(), self.targets.files.is_empty()) {
            (true, true) => Err(Failure::text(
                "name what to delete: `watchkeeper delete pod/web`, `watchkeeper delete pods -l app=web` or \
                 `watchkeeper delete -f FILE`",
            )),
            (_, false) => self.targets.files.check(),
            (false, true) => Ok(()),
        }
    }

    /// The grace period. As in kubectl, none at all needs `--force`, and a negative one is the object's own.
    fn seconds(&self) -> Option<i64> {
        match (self.now, self.force, self.grace_period) {
            (true, ..) => Some(1),
            (_, true, _) => Some(0),
            (_, false, Some(0)) => Some(1),
            (_, false, asked) => asked.filter(|seconds| *seconds > 0),
        }
    }

    async fn doomed(
        &self,
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<Vec<Result<Doomed, Failure>>, Failure> {
        match (self.words.is_empty(), self.targets.files.filename.is_empty()) {
            (true, false) => {
                let mut found = Vec::new();
                for manifest in self.targets.files.read(session)? {
                    found.push(match manifest {
                        Ok(manifest) => of_manifest(manifest, cluster).await,
                        Err(failure) => Err(failure),
                    });
                }
                Ok(found)
            }
            _ => self.selected(cluster, session).await,
        }
    }

    async fn selected(
        &self,
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<Vec<Result<Doomed, Failure>>, Failure> {
        let targets = self
            .targets
            .find(&self.words, KindAlone::Refused, cluster, session);
        let doomed = |target: Target| Doomed {
            api: target.api,
            name: target.name,
            source: None,
        };
        Ok(targets
            .await?
            .into_iter()
            .map(|target| Ok(doomed(target)))
            .collect())
    }

    async fn one(&self, doomed: Doomed) -> Result<Leaving, Failure> {
        let Doomed { api, name, source } = doomed;
        let options = DeleteOptions {
            grace_period_seconds: self.seconds(),
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
