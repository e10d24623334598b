//! Keeps the processors awake while others are measured.
//!
//! A processor with nothing to do sleeps, and to wake it takes longer than a small request does: tens of microseconds for
//! whoever wakes it, and as much again until it runs. A machine at rest therefore measures mostly itself. Here each
//! processor has a loop that gives way to anything else (`SCHED_IDLE`), as on a machine that has other work.

use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context, Result};

/// The argument of a loop.
pub(crate) const LOOP: &str = "--awake";

/// How often a loop turns between two looks at whether anybody needs it.
const TURNS: usize = 1 << 20;

/// A loop for each processor, until this is dropped.
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

/// Turns until the one who has started this is gone.
pub(crate) fn run() {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        (0..TURNS).for_each(|_| std::hint::spin_loop());
    }
}
