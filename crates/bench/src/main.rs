//! Watchkeeper beside its peers.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench                     # 30,000 pods, five rounds
//! cargo run --release -p watchkeeper-bench -- 100000 9 headers # 100,000 pods, nine rounds, cases about headers
//! cargo run --release -p watchkeeper-bench -- client           # the client beside kube, over TLS
//! cargo run --release -p watchkeeper-bench -- runtime 30000 5  # informers, stores and queues beside kube's
//! ```
//!
//! Ours and the peers take turns in one process; medians of the CPU time are printed, because other work on the
//! machine lengthens wall time and not that. Peak memory is `VmHWM` of a fresh process per case. The pods are made up,
//! but shaped like those of a real cluster: about 4 kB of JSON or 3 kB of protobuf, most of it `managedFields`.

// This is a program whose output is the point.
#![allow(clippy::print_stdout)]

mod client;
mod measure;
mod memory;
mod pods;
mod runtime;
mod watch;
mod wire;

use anyhow::{Context, Result};

use self::measure::Turns;

/// Rounds unless told otherwise: the least that gives a median worth its name.
const ROUNDS: usize = 5;

/// Pods unless told otherwise: a large cluster.
const PODS: usize = 30_000;

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, case, body] = &arguments[..]
        && first == memory::CHILD
    {
        return memory::run_child(case, body.as_ref());
    }
    if let [first, what, kubeconfig] = &arguments[..] {
        match first.as_str() {
            client::SERVE => return client::run_serving(what, kubeconfig.as_ref()),
            client::ASK => return client::run_asking(what, kubeconfig.as_ref()),
            _ => {}
        }
    }
    if let Some((first, rest)) = arguments.split_first()
        && first == runtime::CHILD
    {
        return runtime::run_child(rest);
    }
    let subject = arguments.first().cloned().unwrap_or_default();
    if ["client", "runtime"].contains(&&*subject) {
        arguments.remove(0);
    }
    let number = |at: usize, default| match arguments.get(at) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number")),
        None => Ok(default),
    };
    let (pods, rounds) = (number(0, PODS)?, number(1, ROUNDS)?);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{pods} pods, {rounds} rounds, load at the start {}", load.trim());
    let only = arguments.get(2).cloned().unwrap_or_default();
    match &*subject {
        "client" => return client::compare(pods, rounds, &only),
        "runtime" => return runtime::compare(pods, rounds, &only),
        _ => {}
    }
    let bodies = pods::Bodies::generate(pods)?;
    println!("{bodies}");
    let turns = Turns { rounds, only: &only };
    wire::time(&bodies, &turns)?;
    watch::time(&bodies, &turns)?;
    memory::compare(&bodies, &only)
}
