//! `__complete`: completions of a command line, for the scripts of [`super::completion`].
//!
//! The input is the words typed so far, the last one unfinished and maybe empty. The output is one candidate per
//! line, with a description after a tab, then a line that says whether files are candidates too. The format is
//! cobra's, so shells treat it as kubectl's. It asks the cluster, but not for long, and prints no errors.

mod candidates;
mod line;

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, CommandFactory as _, FromArgMatches as _};

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::cluster_arguments::ClusterArguments;
use crate::failure::Failure;
use crate::session::Session;
use candidates::Candidates;
use line::Line;

/// The time limit of a completion.
const PATIENCE: Duration = Duration::from_secs(3);

/// Cobra's code for "no files".
const NO_FILES: u8 = 4;

/// Print what may come next
#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// The words typed so far, the last one unfinished
    #[arg(last = true)]
    words: Vec<String>,
}

/// Prints candidates.
pub(crate) async fn run(complete: Complete, session: &mut Session) -> Result<(), Failure> {
    let program = Arguments::command();
    let line = Line::read(&program, &complete.words);
    let cluster = cluster_arguments(&program, &complete.words);
    let finding = Candidates {
        cluster: Cluster::new(&cluster, 0, session).ok(),
        arguments: cluster,
        environment: session.environment.clone(),
    };
    let found = tokio::time::timeout(PATIENCE, finding.find(&line)).await;
    for candidate in found.unwrap_or_default() {
        match candidate.description.lines().next() {
            Some(description) => writeln!(session.out, "{}\t{description}", candidate.word)?,
            None => writeln!(session.out, "{}", candidate.word)?,
        }
    }
    let directive = if line.wants_file() { 0 } else { NO_FILES };
    Ok(writeln!(session.out, ":{directive}")?)
}

/// The cluster arguments typed so far.
fn cluster_arguments(program: &clap::Command, words: &[String]) -> ClusterArguments {
    let finished = &words[..words.len().saturating_sub(1)];
    let words = std::iter::once("watchkeeper").chain(finished.iter().map(String::as_str));
    let matches = program.clone().ignore_errors(true).try_get_matches_from(words);
    matches
        .ok()
        .and_then(|matches| ClusterArguments::from_arg_matches(&matches).ok())
        .unwrap_or_default()
}
