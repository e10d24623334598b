//! Benchmarks of Watchkeeper and its peers.
//!
//! ```text
//! cargo build --release -p watchkeeper-bench-server             # the server of the benchmarks
//! cargo run --release -p watchkeeper-bench -- client           # the client and its peers, over TLS
//! cargo run --release -p watchkeeper-bench -- runtime 30000 5  # informers, stores and queues
//! cargo run --release -p watchkeeper-bench -- runtime 3000 9 latency awake  # … on processors that do not sleep
//! cargo run --release -p watchkeeper-bench -- operators 10000  # the same operator with this library and with kube
//! ```
//!
//! Benchmarks of the codecs are in `watchkeeper-bench-codec`, which links neither kube nor the server.

// Printing results is the purpose.
#![allow(clippy::print_stdout)]

mod awake;
mod client;
mod client_go;
mod operators;
mod process;
mod runtime;

use anyhow::{Context, Result, bail};
use awake::Awake;
use client_go::ClientGo;
use tracing::subscriber::NoSubscriber;

/// The default number of rounds: the least for a useful median.
const ROUNDS: usize = 5;

/// The default number of pods: a large cluster.
const PODS: usize = 30_000;

fn main() -> Result<()> {
    // As in a program that installs a subscriber. Without one, kube's `log` feature makes every HTTP/2 span format a
    // log line that nobody reads.
    tracing::subscriber::set_global_default(NoSubscriber::default())?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, what, kubeconfig] = &arguments[..]
        && first == client::ASK
    {
        return client::run_asking(what, kubeconfig.as_ref());
    }
    let Some((subject, arguments)) = arguments.split_first() else {
        bail!("usage: watchkeeper-bench client|runtime|operators");
    };
    if subject == awake::LOOP {
        awake::run();
        return Ok(());
    }
    if subject == runtime::CHILD {
        return runtime::run_child(arguments);
    }
    let number = |at: usize, default| match arguments.get(at) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number")),
        None => Ok(default),
    };
    if subject == "operators" {
        return operators::compare(number(0, operators::WEBSITES)?);
    }
    let (pods, rounds) = (number(0, PODS)?, number(1, ROUNDS)?);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{pods} pods, {rounds} rounds, load at the start {}", load.trim());
    let only = arguments.get(2).cloned().unwrap_or_default();
    let client_go = ClientGo::find()?;
    let _awake = match arguments.get(3).map(String::as_str) {
        None => None,
        Some("awake") => Some(Awake::keep()?),
        Some(other) => bail!("unknown option {other:?}; the only one is \"awake\""),
    };
    match subject.as_str() {
        "client" => client::compare(pods, rounds, &only, client_go.as_ref()),
        "runtime" => runtime::compare(pods, rounds, &only, client_go.as_ref()),
        other => bail!("{other:?} is neither client nor runtime nor operators"),
    }
}
