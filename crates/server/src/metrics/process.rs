//! The process as Prometheus' clients describe theirs: `process_*`, read from `/proc`. Where there is no `/proc` there are
//! none.

use std::fs;

use watchkeeper_meta::{MetricKind, MetricsText};

/// The unit of times in `/proc`, for every program alike.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn write(text: &mut MetricsText) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut sample = |name: &str, help: &str, kind: MetricKind, value: Option<f64>| {
        if let Some(value) = value {
            text.family(name, help, kind);
            text.sample(name, &[], value);
        }
    };
    let (times, status) = (Times::read(&read("/proc/self/stat")), read("/proc/self/status"));
    let cpu = times.as_ref().map(|times| times.cpu / TICKS_PER_SECOND);
    sample(
        "process_cpu_seconds_total",
        "Time on a CPU.",
        MetricKind::Counter,
        cpu,
    );
    let booted = field(&read("/proc/stat"), "btime");
    let started = times
        .zip(booted)
        .map(|(times, booted)| booted + times.start / TICKS_PER_SECOND);
    sample(
        "process_start_time_seconds",
        "When the process started.",
        MetricKind::Gauge,
        started,
    );
    let kilobytes = |name: &str| field(&status, name).map(|kilobytes| kilobytes * 1024.0);
    sample(
        "process_resident_memory_bytes",
        "Memory in use.",
        MetricKind::Gauge,
        kilobytes("VmRSS:"),
    );
    sample(
        "process_virtual_memory_bytes",
        "Addresses in use.",
        MetricKind::Gauge,
        kilobytes("VmSize:"),
    );
    // The one that reads the list is on it.
    let open = fs::read_dir("/proc/self/fd").map(|open| open.count().saturating_sub(1) as f64);
    sample(
        "process_open_fds",
        "Open files and sockets.",
        MetricKind::Gauge,
        open.ok(),
    );
    let limit = field(&read("/proc/self/limits"), "Max open files");
    sample(
        "process_max_fds",
        "Files and sockets that may be open.",
        MetricKind::Gauge,
        limit,
    );
}

/// The number behind a name, in a file with a name in each line.
fn field(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Times of `/proc/self/stat`, in ticks.
#[derive(Debug, PartialEq)]
struct Times {
    cpu: f64,
    /// Since the machine started.
    start: f64,
}

impl Times {
    /// The second field is the program's name in brackets, which may hold anything, brackets included.
    fn read(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // proc(5) numbers fields from 1, and two are gone.
        let number = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu: number(14)? + number(15)?,
            start: number(22)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let text = "7 (a) (b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 1234 4096000 77 1844";
        let (cpu, start) = (300.0, 1234.0);
        assert_eq!(Times::read(text), Some(Times { cpu, start }));
        assert_eq!(Times::read("7 (a"), None);
        assert_eq!(
            field("cpu 1 2\nbtime 1700000000\n", "btime"),
            Some(1_700_000_000.0)
        );
        let limits = "Limit Soft Hard Units\nMax open files            1024    4096   files\n";
        assert_eq!(field(limits, "Max open files"), Some(1024.0));
    }
}
