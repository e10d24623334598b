//! `rollout`: the revisions of a deployment, daemon set or stateful set: status, history, undo, restart.

mod history;
mod status;

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::PatchKind;

use crate::age;
use crate::cluster::Cluster;
use crate::dry_run::DryRun;
use crate::duration;
use crate::failure::Failure;
use crate::session::Session;
use crate::targets::{KindAlone, Target, Targets};

/// Follow, list, undo or restart the rollout of a workload
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper rollout status deployment/web --timeout 2m
  watchkeeper rollout history deployment/web --revision 2
  watchkeeper rollout undo deployment/web
  watchkeeper rollout restart deployment web")]
pub(crate) struct Rollout {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Wait until a rollout has finished
    #[command(after_help = "Examples:\n  watchkeeper rollout status deployment/web --timeout 2m")]
    Status {
        #[command(flatten)]
        workloads: Workloads,

        /// Wait for the end; with false, say how it stands
        #[arg(short, long, value_name = "BOOL", default_value_t = true, require_equals = true, num_args = 0..=1,
            default_missing_value = "true", action = clap::ArgAction::Set)]
        watch: bool,

        /// How long to wait; 0 is no limit
        #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse)]
        timeout: Duration,
    },
    /// List the revisions, or show the template of one
    #[command(after_help = "Examples:\n  watchkeeper rollout history deployment/web --revision 2")]
    History {
        #[command(flatten)]
        workloads: Workloads,

        /// Show this one
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        revision: i64,
    },
    /// Go back to the previous revision, or to one by number
    #[command(after_help = "Examples:\n  watchkeeper rollout undo deployment/web --to-revision 3")]
    Undo {
        #[command(flatten)]
        workloads: Workloads,

        /// The revision; 0 is the previous one
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        to_revision: i64,

        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Replace all pods, a few at a time
    #[command(after_help = "Examples:\n  watchkeeper rollout restart deployment/web daemonset/agent")]
    Restart {
        #[command(flatten)]
        workloads: Workloads,
    },
}

#[derive(Debug, Args)]
struct Workloads {
    /// Workloads: deployment/web …, a kind and names, or a kind for all of it
    #[arg(value_name = "RESOURCE", required_unless_present_any = ["filename", "kustomize"])]
    words: Vec<String>,

    #[command(flatten)]
    targets: Targets,
}

/// One workload.
struct Workload {
    api: DynamicApi,
    kind: Kind,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Deployment,
    DaemonSet,
    StatefulSet,
}

/// Does it for each workload; failures are reported last.
pub(crate) async fn run(rollout: Rollout, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let (Verb::Status { workloads, .. }
    | Verb::History { workloads, .. }
    | Verb::Undo { workloads, .. }
    | Verb::Restart { workloads }) = &rollout.verb;
    let mut failures = Vec::new();
    let found = workloads.find(cluster, session).await?;
    if found.is_empty() {
        session.err.line(workloads.targets.nothing(cluster));
    }
    for workload in found {
        let done = match &rollout.verb {
            Verb::Status { watch, timeout, .. } => status::show(&workload, *watch, *timeout, session).await,
            Verb::History { revision, .. } => history::show(&workload, *revision, cluster, session).await,
            Verb::Undo {
                to_revision, dry_run, ..
            } => history::undo(&workload, *to_revision, dry_run, cluster, session).await,
            Verb::Restart { .. } => restart(&workload, session).await,
        };
        failures.extend(done.err());
    }
    Failure::all(failures)
}

impl Workloads {
    async fn find(&self, cluster: &Cluster, session: &mut Session) -> Result<Vec<Workload>, Failure> {
        let targets = self.targets.find(&self.words, KindAlone::All, cluster, session);
        targets.await?.into_iter().map(Workload::of).collect()
    }
}

impl Workload {
    fn of(target: Target) -> Result<Self, Failure> {
        let resource = &target.resource.resource;
        let kind = match (&*resource.group, &*resource.kind) {
            ("apps", "Deployment") => Kind::Deployment,
            ("apps", "DaemonSet") => Kind::DaemonSet,
            ("apps", "StatefulSet") => Kind::StatefulSet,
            _ => {
                return Err(Failure::text(format!(
                    "{} have no rollouts: name a deployment, daemonset or statefulset",
                    resource.group_resource()
                )));
            }
        };
        Ok(Self {
            api: target.api.json_only(),
            kind,
            name: target.name,
        })
    }

    async fn object(&self) -> Result<Value, Failure> {
        self.api.get(&self.name).await?.to_value().map_err(Failure::other)
    }

    /// `deployment.apps/web`.
    fn display_name(&self) -> String {
        self.api.resource().display_name(&self.name)
    }
}

/// kubectl's annotation of the template; changing it replaces all pods.
async fn restart(workload: &Workload, session: &mut Session) -> Result<(), Failure> {
    let object = workload.object().await?;
    if object["spec"]["paused"] == true {
        return Err(Failure::text(format!(
            "{} is paused: set spec.paused to false before it is restarted",
            workload.display_name()
        )));
    }
    let annotation = json!({"kubectl.kubernetes.io/restartedAt": age::now().to_string()});
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotation}}}});
    workload
        .api
        .patch(&workload.name, PatchKind::Merge, &patch)
        .await?;
    Ok(writeln!(session.out, "{} restarted", workload.display_name())?)
}
