//! How many add + take + done cycles one thread does in a second: `cargo run --release --example queue_cycles`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use watchkeeper_runtime::queue::{AddOptions, Queue};

const CYCLES: u64 = 10_000_000;

fn main() {
    for backlog in [0, 1_000, 100_000] {
        let queue = Queue::<u64>::new(Default::default());
        (0..backlog).for_each(|key| assert!(queue.add(key, AddOptions::default())));
        let start = Instant::now();
        for key in backlog..backlog + CYCLES {
            queue.add(key, AddOptions::default());
            drop(queue.try_next());
        }
        let per_second = CYCLES as f64 / start.elapsed().as_secs_f64();
        println!("backlog {backlog:>6}: {:.1} M cycles/s", per_second / 1e6);
    }
}
