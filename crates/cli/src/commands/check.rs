//! `check`: validates manifests as an API server would, without one.
//!
//! This file has the texts and exit codes; [`judge`] asks the server.

mod assumed;
mod case;
mod expectation;
mod judge;
mod order;
mod problem;

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::failure::Failure;
use crate::manifests::{Filenames, Text};
use crate::palette::{BOLD, GREEN, RED, YELLOW};
use crate::session::{Look, Session};
use judge::Verdict;
use problem::{Problem, Severity};

/// Validate manifests, custom kinds and admission policies without a cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper check -f manifests/ -R
  kustomize build . | watchkeeper check -f -
  watchkeeper check -f crds/ -f policies/ -f app/ -o json

Manifests may be in any order and in any file. The CustomResourceDefinitions,
ValidatingAdmissionPolicies and bindings among them are in force for all the others. Namespaces
that are mentioned and not among them are assumed. Unknown fields are errors. Nothing is written
anywhere.

A manifest can be a test of the policies and rules beside it:
  metadata:
    annotations:
      watchkeeper.dev/expect: \"denied: must not run as root\"
The other expectations are allowed, denied and \"warned: TEXT\". Tests come last, in the order they
are written in; one that names an object that exists is an update of it.

It exits with 0 if nothing is wrong, 1 if something is, 2 if there is nothing to check.")]
pub(crate) struct Check {
    #[command(flatten)]
    files: Filenames,

    /// Output format: json
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
}

/// Checks all manifests, and fails if one is invalid.
pub(crate) async fn run(
    check: Check,
    namespace: Option<String>,
    verbosity: i32,
    session: &mut Session,
) -> Result<(), Failure> {
    check.files.check().map_err(Failure::into_usage)?;
    let texts: Result<Vec<Text>, Failure> = check.files.texts(session).into_iter().collect();
    let texts = texts.map_err(Failure::into_usage)?;
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    let verdict = judge::check(&texts, &namespace, verbosity, session).await?;
    if verdict.objects + verdict.tests() + verdict.problems.len() == 0 {
        return Err(Failure::Usage("no objects passed: the input is empty".to_owned()));
    }
    match check.output {
        Some(Format::Json) => print_json(&verdict, session)?,
        None => print(&verdict, &check.files, session)?,
    }
    match verdict.passed() {
        true => Ok(()),
        false => Err(Failure::Judged),
    }
}

fn print(verdict: &Verdict, files: &Filenames, session: &mut Session) -> Result<(), Failure> {
    for problem in &verdict.problems {
        writeln!(session.out, "{}", line(problem, session.look))?;
    }
    if !verdict.problems.is_empty() {
        writeln!(session.out)?;
    }
    if !verdict.assumed.is_empty() {
        writeln!(session.out, "Assumed to be there: {}", verdict.assumed.join(", "))?;
    }
    let (colour, word) = match verdict.passed() {
        true => (GREEN, "ok"),
        false => (RED, "failed"),
    };
    writeln!(
        session.out,
        "{}: {}",
        session.look.paint(colour, word),
        summary(verdict)
    )?;
    Ok(writeln!(session.out, "{}", next_step(verdict, files))?)
}

/// `web.yaml:7: error: deployment.apps/web: spec.replicas: …`, which editors and terminals can open.
fn line(problem: &Problem, look: Look) -> String {
    let (colour, word) = match problem.severity {
        Severity::Error => (RED, "error"),
        Severity::Warning => (YELLOW, "warning"),
    };
    let place = look.paint(BOLD, &format!("{}:{}", problem.file, problem.line));
    let object = match problem.object.is_empty() {
        true => String::new(),
        false => format!("{}: ", problem.object),
    };
    format!(
        "{place}: {}: {object}{}",
        look.paint(colour, word),
        problem.message
    )
}

fn summary(verdict: &Verdict) -> String {
    let mut text = format!(
        "{} in {}, {} valid",
        counted(verdict.objects, "object"),
        counted(verdict.files, "file"),
        verdict.valid
    );
    if verdict.tests() > 0 {
        text += &format!(
            "; {} passed, {} failed",
            counted(verdict.tests_passed, "test"),
            verdict.tests_failed
        );
    }
    let errors = verdict
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    let warnings = verdict.problems.len() - errors;
    if errors > 0 {
        text += &format!("; {}", counted(errors, "error"));
    }
    if warnings > 0 {
        text += &format!("; {}", counted(warnings, "warning"));
    }
    text
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// The suggested next step.
fn next_step(verdict: &Verdict, files: &Filenames) -> String {
    let is_error = |problem: &&Problem| problem.severity == Severity::Error;
    match verdict.problems.iter().find(is_error) {
        Some(Problem { file, line, .. }) => format!("Next: correct {file}:{line}, and check again."),
        None => {
            let names = files
                .filename
                .iter()
                .map(|name| format!(" -f {}", name.display()));
            let recursive = if files.recursive { " -R" } else { "" };
            format!("Next: watchkeeper apply{}{recursive}", names.collect::<String>())
        }
    }
}

fn print_json(verdict: &Verdict, session: &mut Session) -> Result<(), Failure> {
    let report = json!({
        "passed": verdict.passed(),
        "files": verdict.files,
        "objects": verdict.objects,
        "valid": verdict.valid,
        "tests": {"passed": verdict.tests_passed, "failed": verdict.tests_failed},
        "assumed": verdict.assumed,
        "problems": verdict.problems,
    });
    let mut text = serde_json::to_string_pretty(&report).map_err(Failure::other)?;
    text.push('\n');
    Ok(session.out.write_all(text.as_bytes())?)
}
