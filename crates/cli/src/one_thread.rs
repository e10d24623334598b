//! Current-thread runtimes, for the commands that need one.

use std::io;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Runs a future on a current-thread runtime: only its time can be moved. The calling thread blocks.
pub(crate) fn on_one_thread<F>(serving: impl FnOnce() -> F + Send) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    block_on(Builder::new_current_thread().enable_all().build(), serving)
}

/// Runs a future on a current-thread runtime that pauses whenever it is idle, before it waits for the next event.
/// Events that arrive meanwhile are handled together: at a thousand a second, waking up for each costs more than
/// handling it. An idle runtime wakes up no more often than any other.
pub(crate) fn on_one_pausing_thread<F>(
    pause: Duration,
    serving: impl FnOnce() -> F + Send,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let mut builder = Builder::new_current_thread();
    let builder = builder
        .enable_all()
        .on_thread_park(move || std::thread::sleep(pause));
    block_on(builder.build(), serving)
}

fn block_on<F>(runtime: io::Result<Runtime>, serving: impl FnOnce() -> F + Send) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let runtime = runtime
        .context("cannot run on one thread")
        .map_err(Failure::Other)?;
    std::thread::scope(|scope| {
        let served = scope.spawn(move || runtime.block_on(serving())).join();
        served.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
