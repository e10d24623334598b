//! Watchkeeper beside its peers.
//!
//! ```text
//! cargo build --release -p watchkeeper-bench-server             # the server they ask
//! cargo run --release -p watchkeeper-bench -- client           # the client beside its peers, over TLS
//! cargo run --release -p watchkeeper-bench -- runtime 30000 5  # informers, stores and queues beside theirs
//! cargo run --release -p watchkeeper-bench -- runtime 3000 9 latency awake  # … on processors that do not sleep
//! cargo run --release -p watchkeeper-bench -- operators 10000  # the same operator with this library and with kube
//! ```
//!
//! The codecs have a program of their own, `watchkeeper-bench-codec`, which links neither kube nor the server.

// This is a program whose output is the point.
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

/// Rounds unless told otherwise: the least that gives a median worth its name.
const ROUNDS: usize = 5;

/// Pods unless told otherwise: a large cluster.
const PODS: usize = 30_000;

fn main() -> Result<()> {
    // As in a program that has decided what to log. Without this, kube's wish to log through another crate as well makes
    // every span of HTTP/2 prepare a line that nobody reads.
    tracing::subscriber::set_global_default(NoSubscriber::default())?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, what, kubeconfig] = &arguments[..]
        && first == client::ASK
    {
        return client::run_asking(what, kubeconfig.as_ref());
    }
    let Some((subject, arguments)) = arguments.split_first() else {
        bail!("client, runtime or operators?");
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
        Some(other) => bail!("{other:?}: only \"awake\" can be asked for besides"),
    };
    match subject.as_str() {
        "client" => client::compare(pods, rounds, &only, client_go.as_ref()),
        "runtime" => runtime::compare(pods, rounds, &only, client_go.as_ref()),
        other => bail!("{other:?} is neither client nor runtime nor operators"),
    }
}
