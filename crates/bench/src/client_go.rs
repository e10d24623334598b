//! The peer that is not Rust: client-go, in a program of its own, which need not be there. `client-go/` has its source.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process::Process;

/// Says where the program is.
const VARIABLE: &str = "WATCHKEEPER_CLIENT_GO";

/// Its name beside this program, where it is looked for otherwise.
const PROGRAM: &str = "watchkeeper-client-go";

/// The program.
pub(crate) struct ClientGo(PathBuf);

impl ClientGo {
    /// `None` where it has not been built, which is said.
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

    /// An informer, as other clients are started.
    pub(crate) fn informer(&self, arguments: &[&str]) -> Result<Process> {
        Process::start(self.command("informer").args(arguments))
    }

    /// A process that asks one thing and prints what it took.
    pub(crate) fn asking(&self, what: &str) -> Command {
        let mut command = self.command("ask");
        command.arg(what);
        command
    }

    /// A case that needs no server.
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

/// A case of stores or queues that waits for its turns.
pub(crate) struct LocalCase(Process);

impl LocalCase {
    /// What one turn has measured.
    pub(crate) fn turn(&mut self) -> Result<Vec<f64>> {
        self.0.tell("again")?;
        self.0.hear_numbers()
    }
}
