//! Counts the instructions of a loop, which do not depend on the load of the machine.
//!
//! The program runs itself under `valgrind --tool=callgrind` for each case, and counts only the loop. Counts are
//! reproducible, except for a little randomness in hash tables. They change with the compiler, its flags and the
//! standard library, so compare only within one build.

// Printing results is the purpose.
#![allow(clippy::print_stdout)]

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The first argument of a child.
const CHILD: &str = "--child";

/// The pattern by which callgrind finds [`counted`].
const COUNTED: &str = "*callgrind::counted*";

/// Prints the cost per iteration of each case, or of those whose name contains the first argument. A child runs the
/// case it is given.
pub fn print(unit: &str, cases: &[&str], times: usize, play: impl Fn(&str) -> Result<()>) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, case] = &arguments[..]
        && first == CHILD
    {
        return play(case);
    }
    let only = arguments.first().cloned().unwrap_or_default();
    println!("{:<52}{unit:>16}", "");
    for case in cases.iter().filter(|case| case.contains(&only)) {
        println!("{case:<52}{:>16}", count(case)? / times as u64);
    }
    Ok(())
}

/// Runs a loop once to warm up and once to count. The loop returns the number of its iterations.
pub fn play(work: &mut dyn FnMut() -> Result<usize>, times: usize) -> Result<()> {
    work()?;
    let done = counted(work)?;
    ensure!(done == times, "{done} instead of {times}");
    Ok(())
}

/// Runs one case under callgrind and reads its instruction count.
fn count(case: &str) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(format!("--toggle-collect={COUNTED}"));
    valgrind.arg(std::env::current_exe()?).args([CHILD, case]);
    let output = valgrind.output().context("cannot run valgrind")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case}: {log}");
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = collected.with_context(|| format!("no count in {log}"))?;
    Ok(count.trim().parse()?)
}

/// The function that callgrind counts.
#[inline(never)]
fn counted(work: &mut dyn FnMut() -> Result<usize>) -> Result<usize> {
    work()
}
