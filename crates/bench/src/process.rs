//! The processes that a benchmark is made of.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::runtime::CHILD;

/// The server's program, which is beside this one.
const SERVER: &str = "watchkeeper-bench-server";

/// A child, with what it is told and what it says.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// A server that is ready. It is a program of its own, so that it has its own allocator and clients have no part
    /// of its code.
    pub(crate) fn serving(kubeconfig: &Path) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name(SERVER);
        ensure!(
            program.exists(),
            "there is no {}: build it with cargo build --release -p {SERVER}",
            program.display()
        );
        let mut server = Self::start(Command::new(program).arg(kubeconfig))?;
        ensure!(server.hear()? == "ready", "the server did not start");
        Ok(server)
    }

    /// This program in the part of a client.
    pub(crate) fn client(arguments: &[&str]) -> Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).arg(CHILD).args(arguments))
    }

    /// Any program that speaks in lines.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, input, output })
    }

    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}")?;
        Ok(())
    }

    pub(crate) fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "a child has ended early");
        Ok(line.trim_end().to_owned())
    }

    /// A line of numbers.
    pub(crate) fn hear_numbers(&mut self) -> Result<Vec<f64>> {
        let line = self.hear()?;
        let numbers = line.split(' ').map(|number| {
            number
                .parse::<f64>()
                .with_context(|| format!("numbers: {line:?}"))
        });
        numbers.collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
