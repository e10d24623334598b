//! `cargo xtask tidy`: code metrics with limits that may only fall. `cargo xtask sbom`: the software bill of materials
//! ([`sbom`]). `cargo xtask charts`: the tables of the benchmarks as pictures ([`charts`]).
//!
//! `tidy` reads the sources as text, without compiling. It reports
//!
//! - dependencies between crates that point upwards ([`crates`]),
//! - import cycles between the modules of a crate ([`modules`]),
//! - the longest functions and files ([`sizes`]),
//! - guarantees of `docs/security.md` without their test ([`promises`]),
//!
//! and fails if one of them exceeds its limit in [`limits`].

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod charts;
mod crates;
mod limits;
mod modules;
mod promises;
mod sbom;
mod sizes;
mod sources;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | sbom | charts";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("tidy"), None) => match tidy() {
            Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
            Ok(complaints) => {
                complaints
                    .iter()
                    .for_each(|complaint| eprintln!("error: {complaint}"));
                ExitCode::FAILURE
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        (Some("sbom"), None) => match sbom::document() {
            Ok(document) => {
                println!("{document}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        (Some("charts"), None) => match sources::root().and_then(|root| charts::write(&root)) {
            Ok(files) => {
                files.iter().for_each(|file| println!("{file}"));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Prints the report; returns the violations.
fn tidy() -> std::io::Result<Vec<String>> {
    let workspace = sources::read()?;
    let mut complaints = Vec::new();
    crates::report(&workspace, &mut complaints);
    modules::report(&workspace, &mut complaints);
    sizes::report(&workspace, &mut complaints);
    promises::report(&mut complaints)?;
    for chart in charts::stale(&sources::root()?)? {
        println!("note: {chart} is of an earlier table: run cargo xtask charts");
    }
    Ok(complaints)
}
