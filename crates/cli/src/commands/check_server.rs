//! `check-server`: checks whether an API server, or a proxy in front of one, keeps the guarantees of list and watch.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use watchkeeper_client::DynamicApi;
use watchkeeper_conformance::{Check, CustomKind, Finding, Options, Outcome, Report};

use crate::cluster::Cluster;
use crate::duration;
use crate::failure::Failure;
use crate::output::Output;
use crate::palette::{GREEN, RED, YELLOW};
use crate::session::{Look, Session};
use crate::stop::Stop;

/// Check whether an API server, or a proxy in front of one, keeps the guarantees of list and watch
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper check-server                                  the cluster of the kubeconfig
  watchkeeper check-server --kubeconfig proxy.kubeconfig    a proxy in front of it
  watchkeeper check-server --list                           the checks and what they are about
  watchkeeper check-server gap-free pagination -n scratch   two of them, in a namespace that exists
  watchkeeper check-server -o json > report.json
  watchkeeper check-server --custom-kind                    how it serves a custom kind

It writes ConfigMaps (or objects of its custom kind) of its own, in a namespace that it creates
and deletes again unless -n names one, and touches nothing else. It exits with 0 if every promise
is kept, 1 if one is broken, 2 if the command makes no sense.")]
pub(crate) struct CheckServer {
    /// Only these checks
    #[arg(value_name = "CHECK", value_parser = check_name)]
    checks: Vec<Check>,

    /// Print the checks without running them
    #[arg(long)]
    list: bool,

    /// Seed of the random writes: equal seeds make equal writes
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Time to wait for an expected event
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    patience: Duration,

    /// Time limit of one check
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    limit: Duration,

    /// Judge how a custom kind is served: its definition is installed, and deleted again
    #[arg(long)]
    custom_kind: bool,

    /// Output format: json
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
}

fn check_name(word: &str) -> Result<Check, String> {
    let hint = "`watchkeeper check-server --list` prints them";
    word.parse().map_err(|error| format!("{error}; {hint}"))
}

impl CheckServer {
    /// True if no server is needed.
    pub(crate) fn lists(&self) -> bool {
        self.list
    }

    fn options(&self) -> Options {
        Options {
            checks: self.checks.clone(),
            seed: self.seed,
            patience: self.patience,
            limit: self.limit,
            ..Options::default()
        }
    }
}

/// Prints the checks.
pub(crate) fn list(session: &mut Session) -> Result<(), Failure> {
    for check in Check::ALL {
        writeln!(session.out, "{check:<22}{}", check.promise())?;
    }
    Ok(())
}

/// Checks the server, and fails if a guarantee is violated.
pub(crate) async fn run(check: CheckServer, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    // Before anything is written: from now on an interrupt waits for the clean-up.
    let mut stop = Stop::listen();
    let place = Place::of(cluster).await?;
    let mut options = check.options();
    let custom = match check.custom_kind {
        true => Some(CustomKind::install(&cluster.client).await?),
        false => None,
    };
    if let Some(custom) = &custom {
        options.kind = custom.kind().clone();
    }
    let (out, look, format) = (session.out.clone(), session.look, check.output);
    let told = move |finding: &Finding| {
        if format.is_none() {
            // A closed output is noticed with the last line.
            let _ = print(finding, look, &mut out.clone());
        }
    };
    let (client, namespace) = (&cluster.client, place.name());
    let mut report = watchkeeper_conformance::run(client, namespace, &options, stop.requested(), told).await;
    if let Some(custom) = custom {
        report.left_behind.extend(custom.remove().await);
    }
    report.left_behind.extend(place.clean_up().await);
    conclude(&report, format, session)?;
    // An interrupted run has found nothing wrong, but is incomplete.
    match report.passed() && !report.interrupted {
        true => Ok(()),
        false => Err(Failure::Judged),
    }
}

/// The namespace of the objects.
enum Place {
    Given(String),
    Created { name: String, namespaces: DynamicApi },
}

impl Place {
    async fn of(cluster: &Cluster) -> Result<Self, Failure> {
        if cluster.namespace_typed {
            return Ok(Self::Given(cluster.namespace.clone()));
        }
        let namespaces = cluster.resource("namespaces").await?.resource;
        let namespaces = cluster.client.dynamic(namespaces);
        let wanted = json!({"metadata": {"generateName": "watchkeeper-conformance-"}});
        let created = namespaces.create(&wanted).await;
        let created = created.map_err(|error| match error.is_forbidden() {
            true => Failure::text(format!("{error}; name a namespace to work in with -n")),
            false => error.into(),
        })?;
        let name = created.name().to_owned();
        Ok(Self::Created { name, namespaces })
    }

    fn name(&self) -> &str {
        match self {
            Self::Given(name) | Self::Created { name, .. } => name,
        }
    }

    /// Returns what could not be deleted.
    async fn clean_up(&self) -> Option<String> {
        let Self::Created { name, namespaces } = self else {
            return None;
        };
        let deleted = namespaces.delete(name).await;
        deleted.err().map(|error| format!("namespaces/{name}: {error}"))
    }
}

fn print(finding: &Finding, look: Look, out: &mut Output) -> std::io::Result<()> {
    let Finding {
        check,
        promise,
        outcome,
        ..
    } = finding;
    let colour = match outcome {
        Outcome::Passed => GREEN,
        Outcome::Failed { .. } => RED,
        Outcome::Skipped { .. } => YELLOW,
    };
    writeln!(out, "{check:<22}{}", look.paint(colour, outcome.name()))?;
    match outcome {
        Outcome::Passed => {}
        Outcome::Failed { seen } => writeln!(out, "    promised: {promise}\n    seen:     {seen}")?,
        Outcome::Skipped { reason } => writeln!(out, "    {reason}")?,
    }
    out.flush()
}

fn conclude(report: &Report, format: Option<Format>, session: &mut Session) -> Result<(), Failure> {
    if format == Some(Format::Json) {
        let mut text = serde_json::to_string_pretty(report).map_err(Failure::other)?;
        text.push('\n');
        return Ok(session.out.write_all(text.as_bytes())?);
    }
    for left in &report.left_behind {
        session.err.line(format!("Warning: left behind: {left}"));
    }
    let (failed, skipped) = (report.count("failed"), report.count("skipped"));
    writeln!(
        session.out,
        "\n{} passed, {failed} failed, {skipped} skipped (seed {})",
        report.count("passed"),
        report.seed
    )?;
    if let Some(first) = report.failed().next() {
        writeln!(
            session.out,
            "Again, that one alone: watchkeeper check-server {} --seed {}",
            first.check, report.seed
        )?;
    }
    Ok(())
}
