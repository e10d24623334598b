//! The server that the benchmarks ask: a process of its own, with the allocator that the program has.
//!
//! Lines in, lines out, until the input ends:
//!
//! ```text
//!   (started with the path of the kubeconfig to write) ▶ ready
//!   load 30000   ▶ the version reached: so many pods, and what the writers of the latency benchmark write to
//!   change 300   ▶ the version reached: so many pods have changed
//!   relist 300   ▶ the version reached: so many pods have changed while watches were stalled, all history is forgotten
//!                  and the watches are cut
//! ```

// This is a program whose output is the point.
#![allow(clippy::print_stdout)]

mod pods;

use std::io::BufRead as _;

use anyhow::{Context, Result};
use mimalloc::MiMalloc;
use pods::Pods;
use tracing::subscriber::NoSubscriber;
use watchkeeper_server::Server;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    // As the program, which has decided what to log. Where kube is built as well, every span of HTTP/2 would otherwise
    // prepare a line that nobody reads.
    tracing::subscriber::set_global_default(NoSubscriber::default())?;
    let kubeconfig = std::env::args_os().nth(1).context("which kubeconfig?")?;
    let address = "127.0.0.1:0".parse()?;
    let server = Server::builder().in_memory().listen(address).start().await?;
    server.write_kubeconfig(kubeconfig.as_ref())?;
    let mut pods = Pods::new(&server);
    println!("ready");
    while let Some(line) = next_line().await? {
        println!("{}", pods.obey(&line).await?);
    }
    server.shutdown().await;
    Ok(())
}

async fn next_line() -> Result<Option<String>> {
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next());
    Ok(line.await?.transpose()?)
}
