//! klog's flags on a command line, and its four severities. `klog_flags -h` lists them; `klog_flags
//! --log-backtrace-at=klog_flags.rs:10` shows how the program came to that line.

use clap::Parser as _;
use watchkeeper_logging::{InitError, Options, fatal, init};

fn main() -> Result<(), InitError> {
    init(&Options::parse())?;
    tracing::info!("Info");
    tracing::warn!("Warning");
    tracing::error!("Error");
    fatal!("Fatal"); // ends the program with code 255
}
