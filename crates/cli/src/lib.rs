//! The `watchkeeper` program: a local cluster, and commands for any cluster.
//!
//! ```text
//! command line (arguments) ▶ its meaning (cluster, selection, manifests) ▶ one file per command ▶ output
//! ```
//!
//! A command takes words and a [`Session`], the only part of the outside world it may touch besides its cluster, and
//! returns text and an exit code. Tests therefore run a command as a user does, in their own process and without a
//! port. Logic that fits a library is in a library; this crate has texts, order and exit codes.

mod age;
mod arguments;
mod audit_flags;
mod cluster;
mod cluster_arguments;
mod commands;
mod documents;
mod dry_run;
mod duration;
mod elected;
mod embedded;
mod etcd_flags;
mod event_lines;
mod failure;
mod field_validation;
mod format;
mod identity_flags;
mod json_path;
mod list_printer;
mod listen;
mod live_past;
mod live_view;
mod maintenance;
mod manifests;
mod marks;
mod object_state;
mod one_thread;
mod output;
mod owned;
mod page;
mod palette;
mod printing;
mod program;
mod progress;
mod recorded;
mod request_flags;
mod selection;
mod session;
mod sort_key;
mod stand_in;
mod stdin_end;
mod stop;
mod switches;
mod table;
mod targets;
mod update_lines;
mod usage;
mod waiting;
mod watched;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use arguments::Arguments;
use failure::Failure;
pub use output::Output;
pub use program::command_names;
pub use session::{Look, Session};
use stand_in::StandIn;

/// The exit code of programs ended by a closed pipe, as reported by shells.
const CLOSED_PIPE: u8 = 128 + 13;

/// Runs the program for these words, starting with the program's name.
pub async fn run(words: impl IntoIterator<Item = OsString>, session: &mut Session) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    if let Some(stand_in) = StandIn::called(words.first()) {
        return Box::pin(stand_in.run(&words, session)).await;
    }
    let program = program::program_for(session.look);
    let words = switches::plain(words, &program);
    let parsed = program.try_get_matches_from(&words);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return usage::report(&error, command_in(&words).as_deref(), session),
    };
    if session.logs
        && let Err(error) = watchkeeper_logging::init(&arguments.logging)
    {
        return finish(Err(Failure::other(error)), session);
    }
    let result = commands::run(arguments, session).await;
    finish(result, session)
}

/// The words that are commands, `rollout undo`, to name them in usage errors.
fn command_in(words: &[OsString]) -> Option<String> {
    let program = program::program();
    let (mut command, mut found) = (&program, Vec::new());
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(next) = command.find_subcommand(word) {
            found.push(next.get_name());
            command = next;
        }
    }
    (!found.is_empty()).then(|| found.join(" "))
}

/// Results were already printed, in order; failures come last.
fn finish(result: Result<(), Failure>, session: &mut Session) -> ExitCode {
    let flushed = session.out.flush().map_err(Failure::from);
    match result.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough: `watchkeeper get pods | head`.
        Err(failure) if failure.is_closed_pipe() => CLOSED_PIPE.into(),
        Err(Failure::Judged) => ExitCode::FAILURE,
        Err(failure) => {
            session.err.line(failure.to_string());
            failure.exit_code().into()
        }
    }
}
