//! Compares the client with its peers: lists, watches and single requests over TLS to a server in its own process.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench -- client             # 30,000 objects of a kind, five rounds
//! cargo run --release -p watchkeeper-bench -- client 10000 9 list
//! ```
//!
//! Each measurement is a new process that makes one request, so that CPU time and peak memory are those of the client
//! alone, including connection and TLS handshake. All take turns; medians are printed.

mod cases;
mod fill;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::cases::Figures;
use self::cases::{CASES, Case};
pub(crate) use self::fill::{client as connect, core};
use crate::client_go::ClientGo;
use crate::process::Process;

/// The first argument of the client processes.
pub(crate) const ASK: &str = "--ask";

/// Runs every case whose name contains `only`, `rounds` times.
pub(crate) fn compare(objects: usize, rounds: usize, only: &str, client_go: Option<&ClientGo>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let server = Process::serving(&kubeconfig)?;
    fill::write(objects, &kubeconfig)?;
    let played =
        |case: &&Case| case.title().contains(only) && (client_go.is_some() || case.by_client_go().is_none());
    let cases: Vec<&Case> = CASES.iter().filter(played).collect();
    let mut measured = vec![Vec::new(); cases.len()];
    // The first round warms the server's caches and is not counted.
    for round in 0..=rounds {
        for (case, figures) in cases.iter().zip(&mut measured) {
            let asked = ask(case, &kubeconfig, client_go)?;
            if round > 0 {
                figures.push(asked);
            }
        }
    }
    let medians: Vec<Figures> = measured.into_iter().map(Figures::median).collect();
    print(&cases, &medians);
    drop(server);
    Ok(())
}

/// Runs one case in its own process.
fn ask(case: &Case, kubeconfig: &Path, client_go: Option<&ClientGo>) -> Result<Figures> {
    let mut child = match (client_go, case.by_client_go()) {
        (Some(client_go), Some(question)) => client_go.asking(question),
        _ => {
            let mut child = Command::new(std::env::current_exe()?);
            child.arg(ASK).arg(case.title());
            child
        }
    };
    let output = child.arg(kubeconfig).output()?;
    if !output.status.success() {
        bail!("{}: {}", case.title(), String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).with_context(|| case.title())
}

/// Runs a case in a child, and prints its figures.
pub(crate) fn run_asking(title: &str, kubeconfig: &Path) -> Result<()> {
    let case = CASES
        .iter()
        .find(|case| case.title() == title)
        .context("no such case")?;
    println!("{}", serde_json::to_string(&cases::measure(case, kubeconfig)?)?);
    Ok(())
}

/// Prints the cases grouped by subject, with the peer last. Ratios are to it, and to client-go if it takes part.
fn print(cases: &[&Case], medians: &[Figures]) {
    for subject in cases.chunk_by(|a, b| a.subject == b.subject) {
        let medians = cases
            .iter()
            .zip(medians)
            .filter(|(case, _)| case.subject == subject[0].subject);
        let medians: Vec<_> = medians.collect();
        let Some((_, peer)) = medians.last() else { continue };
        let client_go = medians.iter().find(|(case, _)| case.by_client_go().is_some());
        let client_go = client_go.map_or(Figures::NONE, |(_, figures)| **figures);
        println!(
            "\n{:<44}{:>10}{:>10}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}",
            subject[0].subject,
            "wall ms",
            "CPU ms",
            "peak MB",
            "CPU ×",
            "peak ×",
            "wall ×go",
            "CPU ×go",
            "peak ×go",
            "sockets"
        );
        for (case, figures) in &medians {
            println!(
                "{:<44}{:>10.1}{:>10.1}{:>10.1}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}",
                case.name,
                figures.wall_ms,
                figures.cpu_ms,
                figures.peak_mb,
                ratio(figures.cpu_ms, peer.cpu_ms),
                ratio(figures.peak_mb, peer.peak_mb),
                ratio(figures.wall_ms, client_go.wall_ms),
                ratio(figures.cpu_ms, client_go.cpu_ms),
                ratio(figures.peak_mb, client_go.peak_mb),
                figures.sockets,
            );
        }
    }
}

/// A peer that does not take part has no number.
fn ratio(ours: f64, peer: f64) -> String {
    match ours / peer {
        ratio if ratio.is_finite() => format!("{ratio:.2}"),
        _ => "–".to_owned(),
    }
}
