//! The wire beside its peers: time and memory.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench-codec                     # 30,000 pods, five rounds
//! cargo run --release -p watchkeeper-bench-codec -- 100000 9 headers # 100,000 pods, nine rounds, cases about headers
//! ```
//!
//! Ours and the peers take turns in one process; medians of the CPU time are printed, because other work on the
//! machine lengthens wall time and not that. Peak memory is `VmHWM` of a fresh process per case. The pods are made up,
//! but shaped like those of a real cluster: about 4 kB of JSON or 3 kB of protobuf, most of it `managedFields`.

// This is a program whose output is the point.
#![allow(clippy::print_stdout)]

mod measure;
mod memory;
mod watch;
mod wire;

use anyhow::{Context, Result};
use watchkeeper_bench_codec::pods::Bodies;

use self::measure::Turns;

/// Rounds unless told otherwise: the least that gives a median worth its name.
const ROUNDS: usize = 5;

/// Pods unless told otherwise: a large cluster.
const PODS: usize = 30_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, case, body] = &arguments[..]
        && first == memory::CHILD
    {
        return memory::run_child(case, body.as_ref());
    }
    let number = |at: usize, default| match arguments.get(at) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number")),
        None => Ok(default),
    };
    let (pods, rounds) = (number(0, PODS)?, number(1, ROUNDS)?);
    let only = arguments.get(2).cloned().unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{pods} pods, {rounds} rounds, load at the start {}", load.trim());
    let bodies = Bodies::generate(pods)?;
    println!("{bodies}");
    let turns = Turns { rounds, only: &only };
    wire::time(&bodies, &turns)?;
    watch::time(&bodies, &turns)?;
    memory::compare(&bodies, &only)
}
