//! The processes of a benchmark.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::runtime::CHILD;

/// The server's program, next to this one.
const SERVER: &str = "watchkeeper-bench-server";

/// A child with its input and output.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a server and waits until it is ready. It is a separate program, so that it has its own allocator and
    /// clients contain none of its code.
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

    /// Starts this program as a client.
    pub(crate) fn client(arguments: &[&str]) -> Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).arg(CHILD).args(arguments))
    }

    /// Starts any program that communicates in lines.
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
