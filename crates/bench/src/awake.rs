//! Keeps the processors awake during measurements.
//!
//! An idle processor sleeps, and waking it takes longer than a small request: tens of microseconds for the waker, and
//! as long again until it runs. On an idle machine, latency benchmarks mostly measure that. So each processor runs a
//! loop at the lowest priority (`SCHED_IDLE`), as on a machine with other work.

use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context, Result};

/// The argument that starts a loop.
pub(crate) const LOOP: &str = "--awake";

/// The number of iterations between two checks whether the parent still runs.
const TURNS: usize = 1 << 20;

/// A loop on each processor, until this is dropped.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    pub(crate) fn keep() -> Result<Self> {
        let (program, processors) = (std::env::current_exe()?, available_parallelism()?.get());
        let mut awake = Self(Vec::new());
        for _ in 0..processors {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0"]).arg(&program).arg(LOOP);
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            awake
                .0
                .push(child.context("chrt, of util-linux, does not start")?);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Loops until the parent is gone.
pub(crate) fn run() {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        (0..TURNS).for_each(|_| std::hint::spin_loop());
    }
}
