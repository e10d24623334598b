//! The server of the benchmarks: a process of its own, with the same allocator as the `watchkeeper` program.
//!
//! It reads commands from stdin and prints an answer to each, until stdin ends:
//!
//! ```text
//!   (started with the path of the kubeconfig to write) ▶ ready
//!   load 30000   ▶ the revision reached: that many pods, and the objects of the latency benchmark, are created
//!   change 300   ▶ the revision reached: that many pods are changed
//!   relist 300   ▶ the revision reached: that many pods are changed while watches are stalled, all history is
//! compacted,
//!                  and the watches are cut
//! ```

// Printing answers is the purpose.
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
    // As in the program, which installs a subscriber. Without one, if kube is part of the build, every HTTP/2 span
    // would format a log line that nobody reads.
    tracing::subscriber::set_global_default(NoSubscriber::default())?;
    let kubeconfig = std::env::args_os()
        .nth(1)
        .context("usage: watchkeeper-bench-server KUBECONFIG")?;
    let address = "127.0.0.1:0".parse()?;
    let server = Server::builder().in_memory().listen(address).start().await?;
    server.write_kubeconfig(kubeconfig.as_ref())?;
    let mut pods = Pods::new(&server);
    println!("ready");
    while let Some(line) = next_line().await? {
        println!("{}", pods.run(&line).await?);
    }
    server.shutdown().await;
    Ok(())
}

async fn next_line() -> Result<Option<String>> {
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next());
    Ok(line.await?.transpose()?)
}
