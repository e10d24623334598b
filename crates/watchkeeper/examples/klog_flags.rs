//! klog's flags on a command line, and its four severities. `klog_flags -h` lists them; `klog_flags
//! --log-backtrace-at=klog_flags.rs:22` shows how the program came there.

use clap::Parser;
use watchkeeper_logging::{InitError, Options, fatal, init};

/// Logs once at each severity.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    logging: Options,
}

fn main() -> Result<(), InitError> {
    init(&Flags::parse().logging)?;
    log();
    Ok(())
}

fn log() {
    tracing::info!("Info");
    tracing::warn!("Warning");
    tracing::error!("Error");
    fatal!("Fatal"); // ends the program with code 255
}
