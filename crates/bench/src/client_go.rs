//! The client-go peer, an optional separate program. Its source is in `client-go/`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process::Process;

/// The variable with the path of the program.
const VARIABLE: &str = "WATCHKEEPER_CLIENT_GO";

/// The default name, next to this program.
const PROGRAM: &str = "watchkeeper-client-go";

/// The program.
pub(crate) struct ClientGo(PathBuf);

impl ClientGo {
    /// `None`, with a message, if it has not been built.
    pub(crate) fn find() -> Result<Option<Self>> {
        let program = match std::env::var_os(VARIABLE) {
            Some(path) => path.into(),
            None => std::env::current_exe()?.with_file_name(PROGRAM),
        };
        if program.exists() {
            return Ok(Some(Self(program)));
        }
        println!(
            "without client-go: there is no {}, which crates/bench/client-go/build makes; {VARIABLE} may name another",
            program.display()
        );
        Ok(None)
    }

    /// Starts an informer, like those of other clients.
    pub(crate) fn informer(&self, arguments: &[&str]) -> Result<Process> {
        Process::start(self.command("informer").args(arguments))
    }

    /// A process that makes one request and prints its figures.
    pub(crate) fn asking(&self, what: &str) -> Command {
        let mut command = self.command("ask");
        command.arg(what);
        command
    }

    /// Starts a case without a server.
    pub(crate) fn local(&self, case: &str, argument: &str) -> Result<LocalCase> {
        let mut process = Process::start(self.command("local").args([case, argument]))?;
        ensure!(process.hear()? == "ready", "client-go cannot play {case}");
        Ok(LocalCase(process))
    }

    fn command(&self, part: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.arg(part);
        command
    }
}

/// A case of stores or queues that runs in turns.
pub(crate) struct LocalCase(Process);

impl LocalCase {
    /// The measurements of one turn.
    pub(crate) fn turn(&mut self) -> Result<Vec<f64>> {
        self.0.tell("again")?;
        self.0.hear_numbers()
    }
}
