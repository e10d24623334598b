//! Custom flags over klog's: one level for messages and requests, a format and a file.

use std::path::PathBuf;

use clap::Parser;
use watchkeeper::client::ClientOptions;
use watchkeeper_logging::{Format, LevelStyle, Options, init, vlog};
use watchkeeper_testing::Sandbox;

/// Asks a server for its version.
#[derive(Parser)]
struct Flags {
    /// Number for the log level verbosity
    #[arg(long, default_value_t = 2)]
    log_level: u8,
    /// Sets the log format
    #[arg(long, value_enum, default_value_t = Format::Console)]
    log_format: Format,
    /// If non-empty, use this log file
    #[arg(long)]
    log_file: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flags = Flags::parse();
    init(&Options {
        v: flags.log_level.into(),
        log_format: flags.log_format,
        logtostderr: flags.log_file.is_none(),
        alsologtostderr: true,
        log_file: flags.log_file,
        log_time_format: Some("%Y-%m-%d %H:%M:%S.%2f".to_owned()),
        log_level_style: LevelStyle::Upper,
        ..Default::default()
    })?;
    let sandbox = Sandbox::open(ClientOptions {
        verbosity: flags.log_level,
        ..Default::default()
    });
    let sandbox = sandbox.await?;
    let version = sandbox.client().server_version().await?;
    tracing::error!("error log test");
    vlog!(1, "V(1)");
    vlog!(2, version = %version.git_version, platform = %version.platform, "Kubernetes server info");
    vlog!(3, "V(3)");
    sandbox.close().await?;
    Ok(())
}
