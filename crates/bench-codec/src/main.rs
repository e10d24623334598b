//! Compares the wire crate with its peers: time and memory.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench-codec                     # 30,000 pods, five rounds
//! cargo run --release -p watchkeeper-bench-codec -- 100000 9 headers # 100,000 pods, nine rounds, cases about headers
//! ```
//!
//! Ours and the peers take turns in one process. The program prints medians of CPU time, which other work on the
//! machine affects less than wall time. Peak memory is `VmHWM` of a new process per case. The pods are synthetic but
//! have the shape of real ones: about 4 kB of JSON or 3 kB of protobuf, most of it `managedFields`.

// Printing results is the purpose.
#![allow(clippy::print_stdout)]

mod measure;
mod memory;
mod watch;
mod wire;

use anyhow::{Context, Result};
use watchkeeper_bench_codec::pods::Bodies;

use self::measure::Turns;

/// The default number of rounds: the least for a useful median.
const ROUNDS: usize = 5;

/// The default number of pods: a large cluster.
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
