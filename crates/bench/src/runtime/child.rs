//! What a child process says about itself.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// The first argument of a child.
pub(crate) const CHILD: &str = "--runtime-child";

/// How long a list may take before a client is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Says one line to the parent.
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Says what was measured.
pub(crate) fn report(numbers: &[f64]) {
    let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
    say(&numbers.join(" "));
}

/// Waits for a line from the parent.
pub(crate) async fn hear() -> Result<String> {
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    let line = line.await?.context("the parent has gone")??;
    Ok(line)
}

/// The CPU time of all threads of this process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The most memory this process has had since its start or since [`forget_peak`], in MB.
pub(crate) fn peak_megabytes() -> Result<f64> {
    megabytes("VmHWM:")
}

/// The memory this process has now, in MB.
pub(crate) fn resident_megabytes() -> Result<f64> {
    megabytes("VmRSS:")
}

/// From now on the peak is that of the time to come.
pub(crate) fn forget_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("the peak cannot be forgotten")
}

fn megabytes(name: &str) -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes.context("no such line in /proc")?.parse::<f64>()? * 1024.0 / 1e6)
}
