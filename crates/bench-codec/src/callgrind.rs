//! Counts the instructions of a loop, which do not depend on the machine's mood.
//!
//! Each case is run by the same program under `valgrind --tool=callgrind`; only what the loop itself executes is
//! counted. Counts are the same from run to run, but for a little chance in hash tables; they change with the compiler,
//! its flags and the standard library, so compare within one build.

// What is found out is printed: that is the point.
#![allow(clippy::print_stdout)]

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The first argument of a child.
const CHILD: &str = "--child";

/// The name under which callgrind finds [`counted`].
const COUNTED: &str = "*callgrind::counted*";

/// Prints what each case takes, `times` of which a loop does: all of them, or those with the first argument in their
/// name. A child plays the one it is told.
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

/// Runs a loop once to warm up and once to count. It says how many times it has done its work.
pub fn play(work: &mut dyn FnMut() -> Result<usize>, times: usize) -> Result<()> {
    work()?;
    let done = counted(work)?;
    ensure!(done == times, "{done} instead of {times}");
    Ok(())
}

/// Plays one case under callgrind and reads how many instructions it took.
fn count(case: &str) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(format!("--toggle-collect={COUNTED}"));
    valgrind.arg(std::env::current_exe()?).args([CHILD, case]);
    let output = valgrind.output().context("valgrind is needed to count")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case}: {log}");
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = collected.with_context(|| format!("no count in {log}"))?;
    Ok(count.trim().parse()?)
}

/// What callgrind counts.
#[inline(never)]
fn counted(work: &mut dyn FnMut() -> Result<usize>) -> Result<usize> {
    work()
}
