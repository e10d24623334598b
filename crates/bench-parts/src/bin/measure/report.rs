//! Lines of the report.

use std::io::Write as _;
use std::time::Duration;

/// The reference values of a measurement.
#[derive(Clone, Copy, Default)]
pub(crate) struct Yardstick {
    /// The goal.
    pub(crate) goal: &'static str,
    /// The value of kube-apiserver and etcd, on another machine.
    pub(crate) peer: &'static str,
}

/// Prints the load of the machine and the column titles.
pub(crate) fn head() -> std::io::Result<()> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    line(&format!("load of the machine: {}", load.trim()))?;
    let (what, ours) = ("", "ours");
    let (goal, peer) = ("must be", "kube-apiserver + etcd, other machine");
    line(&format!("{what:<52}{ours:>30}  {goal:<18}{peer}"))
}

pub(crate) fn figure(what: &str, ours: String, yardstick: Yardstick) -> std::io::Result<()> {
    let Yardstick { goal, peer } = yardstick;
    line(&format!("{what:<52}{ours:>30}  {goal:<18}{peer}"))
}

pub(crate) fn line(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{}", text.trim_end())
}

pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// A duration, and the server's processor time in it.
pub(crate) fn millis_of_work(time: Duration, work: Duration) -> String {
    format!("{} (CPU {})", millis(time), millis(work))
}

/// `p50 / p99` in milliseconds.
pub(crate) fn percentiles(times: &mut [Duration]) -> String {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    format!("{:.1} / {:.1} ms", at(50), at(99))
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
