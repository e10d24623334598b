//! The outside world of one command: its streams, how they look, and a cluster if one is at hand.

use std::io::{BufWriter, IsTerminal as _, Read};
use std::time::Duration;

use watchkeeper_client::Client;
use watchkeeper_client::config::Environment;

use crate::output::Output;
use crate::progress::SHOW_AFTER;

/// What a command may touch besides its cluster.
pub struct Session {
    /// Where results go.
    pub out: Output,
    /// Where warnings and failures go.
    pub err: Output,
    /// What `-f -` reads.
    pub input: Box<dyn Read + Send>,
    /// How results look.
    pub look: Look,
    /// How long a list may take before its progress is shown on `err`; None if that is no terminal.
    pub progress_after: Option<Duration>,
    /// Variables and well-known places.
    pub environment: Environment,
    /// A cluster at hand, instead of the one the flags and files name.
    pub client: Option<Client>,
    /// Whether this process's log is ours to set up.
    pub logs: bool,
}

/// How results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Letters only: for files, pipes and whoever set `NO_COLOR`.
    Plain,
    /// With colours: for a terminal.
    Colour,
}

impl Session {
    /// The process's own streams.
    pub fn of_process() -> Self {
        let environment = Environment::default();
        let colour = std::io::stdout().is_terminal() && environment.get("NO_COLOR").is_none();
        Self {
            out: Output::new(BufWriter::new(std::io::stdout())),
            err: Output::new(std::io::stderr()),
            input: Box::new(std::io::stdin()),
            look: if colour { Look::Colour } else { Look::Plain },
            progress_after: std::io::stderr().is_terminal().then_some(SHOW_AFTER),
            environment,
            client: None,
            logs: true,
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("look", &self.look)
            .finish_non_exhaustive()
    }
}
