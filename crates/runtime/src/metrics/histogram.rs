//! How often something took how long, in Kubernetes' ten buckets: 10 ns, 100 ns … 10 s.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BUCKETS: usize = 10;
const FIRST_NANOS: u64 = 10;

/// The upper bounds as client-go prints them.
const BOUNDS: [&str; BUCKETS] = [
    "1e-8", "1e-7", "1e-6", "1e-5", "0.0001", "0.001", "0.01", "0.1", "1", "10",
];

/// Counts by duration. Recording is three atomic additions.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The last one counts what is longer than any bound.
    buckets: [AtomicU64; BUCKETS + 1],
    sum_nanos: AtomicU64,
}

impl Histogram {
    pub(super) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bounds = std::iter::successors(Some(FIRST_NANOS), |bound| Some(bound * 10));
        let bucket = bounds.take(BUCKETS).take_while(|bound| nanos > *bound).count();
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn render(&self, text: &mut String, name: &str, labels: &str) {
        let mut count = 0;
        let bounds = BOUNDS.iter().chain(["+Inf"].iter());
        for (bucket, bound) in self.buckets.iter().zip(bounds) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(
            text,
            "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}"
        );
    }
}
