//! A runtime of one thread: only the time of such a runtime can be moved.

use anyhow::Context as _;

use crate::failure::Failure;

/// Runs something on a runtime of one thread. Nothing else is to be done by the thread that waits for it.
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
