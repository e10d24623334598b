//! Runs cases in turns and computes medians.

use std::time::Duration;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// The selection of cases, and the number of rounds.
pub(crate) struct Turns<'a> {
    pub(crate) rounds: usize,
    /// Only cases whose name contains this.
    pub(crate) only: &'a str,
}

/// A timed operation.
pub(crate) struct Case<'a> {
    name: &'static str,
    /// The bytes it reads, for the throughput.
    bytes: usize,
    run: Box<dyn FnMut() -> Result<usize> + 'a>,
    times: Vec<Duration>,
}

impl<'a> Case<'a> {
    /// `run` returns the number of objects seen, which is checked, so that the work cannot be optimised away.
    pub(crate) fn new(name: &'static str, bytes: usize, run: impl FnMut() -> Result<usize> + 'a) -> Self {
        Self {
            name,
            bytes,
            run: Box::new(run),
            times: Vec::new(),
        }
    }

    fn measure(&mut self, expected: usize) -> Result<()> {
        let start = cpu_time();
        let seen = (self.run)()?;
        self.times.push(cpu_time() - start);
        anyhow::ensure!(
            seen == expected,
            "{}: {seen} objects instead of {expected}",
            self.name
        );
        Ok(())
    }

    fn median(&mut self) -> Duration {
        self.times.sort();
        self.times[self.times.len() / 2]
    }
}

/// Runs the cases in turns for that many rounds, after an uncounted one, and prints medians. Ratios are to the last
/// case, the peer.
pub(crate) fn compare(
    title: &str,
    objects: usize,
    turns: &Turns<'_>,
    mut cases: Vec<Case<'_>>,
) -> Result<()> {
    cases.retain(|case| case.name.contains(turns.only));
    if cases.is_empty() {
        return Ok(());
    }
    for round in 0..=turns.rounds {
        for case in &mut cases {
            case.measure(objects)?;
            if round == 0 {
                case.times.clear();
            }
        }
    }
    let peer = cases.last_mut().map(Case::median).unwrap_or_default();
    println!(
        "\n{title}\n{:<52}{:>10}{:>10}{:>12}{:>9}",
        "", "median ms", "GB/s", "µs/object", "× peer"
    );
    for case in &mut cases {
        let seconds = case.median().as_secs_f64();
        println!(
            "{:<52}{:>10.1}{:>10.2}{:>12.2}{:>9.2}",
            case.name,
            seconds * 1e3,
            case.bytes as f64 / seconds / 1e9,
            seconds * 1e6 / objects as f64,
            seconds / peer.as_secs_f64(),
        );
    }
    Ok(())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
