//! CPU time and memory of a child process, and its communication with the parent.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// The first argument of a child.
pub(crate) const CHILD: &str = "--runtime-child";

/// The timeout of a list.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Prints one line for the parent.
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Prints the measured numbers.
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

/// The peak memory of this process since its start or since [`forget_peak`], in MB.
pub(crate) fn peak_megabytes() -> Result<f64> {
    megabytes("VmHWM:")
}

/// The current memory of this process, in MB.
pub(crate) fn resident_megabytes() -> Result<f64> {
    megabytes("VmRSS:")
}

/// Resets the peak.
pub(crate) fn forget_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("the peak cannot be forgotten")
}

fn megabytes(name: &str) -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes.context("no such line in /proc")?.parse::<f64>()? * 1024.0 / 1e6)
}
