//! A current-thread runtime: only its time can be moved.

use anyhow::Context as _;

use crate::failure::Failure;

/// Runs a future on a current-thread runtime. The calling thread blocks.
pub(crate) fn on_one_thread<F>(serving: impl FnOnce() -> F + Send) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .context("cannot run on one thread")
        .map_err(Failure::Other)?;
    std::thread::scope(|scope| {
        let served = scope.spawn(move || runtime.block_on(serving())).join();
        served.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
