//! The process: passes its arguments, streams and logging to [`watchkeeper_cli::run`].

use std::process::ExitCode;

use mimalloc::MiMalloc;
use watchkeeper_cli::Session;

/// Writes make many small allocations: a quarter of their cost with the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    watchkeeper_cli::run(std::env::args_os(), &mut Session::of_process()).await
}
