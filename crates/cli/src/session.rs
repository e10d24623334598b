//! The environment of one command: its streams, their appearance, and optionally a cluster.

use std::io::{BufWriter, IsTerminal as _, Read};
use std::time::Duration;

use watchkeeper_client::Client;
use watchkeeper_client::config::Environment;

use crate::output::Output;
use crate::progress::SHOW_AFTER;

/// The environment a command may use besides its cluster.
pub struct Session {
    /// The stream of results.
    pub out: Output,
    /// The stream of warnings and failures.
    pub err: Output,
    /// The input of `-f -`.
    pub input: Box<dyn Read + Send>,
    /// The appearance of results.
    pub look: Look,
    /// The time after which the progress of a list is shown on `err`; `None` if that is not a terminal.
    pub progress_after: Option<Duration>,
    /// Variables and well-known paths.
    pub environment: Environment,
    /// A client to use instead of the one from flags and files.
    pub client: Option<Client>,
    /// True to set up this process's logging.
    pub logs: bool,
}

/// The appearance of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Plain text: for files, pipes and `NO_COLOR`.
    Plain,
    /// With colours: for a terminal.
    Colour,
}

impl Session {
    /// The streams of the process.
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
