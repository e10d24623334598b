//! Add + take + done cycles of one thread per second: `cargo run --release -p watchkeeper-bench-parts --bin queue_cycles`. An argument sets
//! the number of cycles, for counting instructions.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use watchkeeper_runtime::queue::{AddOptions, Queue};

const CYCLES: u64 = 10_000_000;

fn main() {
    let cycles = std::env::args()
        .nth(1)
        .map_or(CYCLES, |count| count.parse().expect("a number"));
    for backlog in [0, 1_000, 100_000] {
        let queue = Queue::<u64>::new(Default::default());
        (0..backlog).for_each(|key| assert!(queue.add(key, AddOptions::default())));
        let start = Instant::now();
        for key in backlog..backlog + cycles {
            queue.add(key, AddOptions::default());
            drop(queue.try_next());
        }
        let per_second = cycles as f64 / start.elapsed().as_secs_f64();
        println!("backlog {backlog:>6}: {:.1} M cycles/s", per_second / 1e6);
    }
}
