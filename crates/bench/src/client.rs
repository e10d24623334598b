//! The client beside kube: lists, watches and single requests over TLS against one server in a process of its own.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench -- client             # 30,000 objects of a kind, five rounds
//! cargo run --release -p watchkeeper-bench -- client 10000 9 list
//! ```
//!
//! Each measurement is a fresh process that does one thing, so that its CPU time and its peak memory are those of the
//! client alone, connection and TLS handshake included. Ours and kube take turns; the medians are printed.

mod cases;
mod fill;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

pub(crate) use self::cases::Figures;
use self::cases::{CASES, Case};
pub(crate) use self::fill::{client as connect, core};

/// The first argument of the process that serves, and of those that ask.
pub(crate) const SERVE: &str = "--serve";
pub(crate) const ASK: &str = "--ask";

/// Runs every case whose name has `only` in it, `rounds` times.
pub(crate) fn compare(objects: usize, rounds: usize, only: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let server = Server::start(objects, &kubeconfig)?;
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.title().contains(only)).collect();
    let mut measured = vec![Vec::new(); cases.len()];
    // The first round warms the server's caches and does not count.
    for round in 0..=rounds {
        for (case, figures) in cases.iter().zip(&mut measured) {
            let asked = ask(case, &kubeconfig)?;
            if round > 0 {
                figures.push(asked);
            }
        }
    }
    let medians: Vec<Figures> = measured.into_iter().map(Figures::median).collect();
    print(&cases, &medians);
    server.stop()
}

/// One case in a process of its own.
fn ask(case: &Case, kubeconfig: &Path) -> Result<Figures> {
    let mut child = Command::new(std::env::current_exe()?);
    let output = child.arg(ASK).arg(case.title()).arg(kubeconfig).output()?;
    if !output.status.success() {
        bail!("{}: {}", case.title(), String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).with_context(|| case.title())
}

/// Asks as a child does, and prints what it took.
pub(crate) fn run_asking(title: &str, kubeconfig: &Path) -> Result<()> {
    let case = CASES
        .iter()
        .find(|case| case.title() == title)
        .context("no such case")?;
    println!("{}", serde_json::to_string(&cases::measure(case, kubeconfig)?)?);
    Ok(())
}

/// Serves as a child does, until its input ends.
pub(crate) fn run_serving(objects: &str, kubeconfig: &Path) -> Result<()> {
    fill::serve(objects.parse()?, kubeconfig)
}

/// Cases of one subject stand together, kube's last; ratios are to it.
fn print(cases: &[&Case], medians: &[Figures]) {
    for subject in cases.chunk_by(|a, b| a.subject == b.subject) {
        let medians = cases
            .iter()
            .zip(medians)
            .filter(|(case, _)| case.subject == subject[0].subject);
        let medians: Vec<_> = medians.collect();
        let Some((_, kube)) = medians.last() else { continue };
        println!(
            "\n{:<44}{:>10}{:>10}{:>10}{:>9}{:>9}{:>8}",
            subject[0].subject, "wall ms", "CPU ms", "peak MB", "CPU ×", "peak ×", "sockets"
        );
        for (case, figures) in &medians {
            println!(
                "{:<44}{:>10.1}{:>10.1}{:>10.1}{:>9.2}{:>9.2}{:>8}",
                case.name,
                figures.wall_ms,
                figures.cpu_ms,
                figures.peak_mb,
                figures.cpu_ms / kube.cpu_ms,
                figures.peak_mb / kube.peak_mb,
                figures.sockets,
            );
        }
    }
}

/// The process that serves.
struct Server(Child);

impl Server {
    /// Starts it and waits until it is full.
    fn start(objects: usize, kubeconfig: &Path) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?);
        child.arg(SERVE).arg(objects.to_string()).arg(kubeconfig);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("the server has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            bail!("the server did not start: {}", child.wait()?);
        }
        print!("{line}");
        Ok(Self(child))
    }

    /// Ends its input, and so the process.
    fn stop(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        self.0.wait()?;
        Ok(())
    }
}
