//! Glue: the process's own words, streams and logging, given to [`watchkeeper_cli::run`].

use std::process::ExitCode;

use watchkeeper_cli::Session;

#[tokio::main]
async fn main() -> ExitCode {
    watchkeeper_cli::run(std::env::args_os(), &mut Session::of_process()).await
}
