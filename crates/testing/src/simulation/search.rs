//! Searches for a failing seed, and shrinks its faults.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::description::{Beginning, Parts};
use super::plan::Plan;
use super::report::Finding;
use super::shrink::shrink;
use super::world;

/// Runs seeds on all CPUs, and returns the first failing one, shrunk.
pub(super) fn search(parts: &Arc<Parts>, beginning: &Beginning, seeds: Range<u64>) -> Option<Finding> {
    let processes: Vec<&str> = parts.controllers.iter().map(|it| &*it.name).collect();
    let plan = |seed| Plan::draw(seed, &processes, parts.faults);
    let failing = first_failing(&seeds, |seed| {
        world::run(parts, beginning, &plan(seed)).failure.is_some()
    })?;
    // On its own thread: the caller may be within a runtime.
    alone(|| {
        let run = world::run(parts, beginning, &plan(failing));
        let planned = run.plan.faults.len();
        let run = shrink(run, |plan| world::run(parts, beginning, plan));
        Some(Finding { run, planned })
    })
}

/// Runs a function on its own thread.
pub(super) fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The smallest failing seed. Seeds are taken in order, and none is started after a failing one.
fn first_failing(seeds: &Range<u64>, fails: impl Fn(u64) -> bool + Sync) -> Option<u64> {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) || seed > failed.load(Ordering::Relaxed) {
                return;
            }
            if fails(seed) {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    (failed != u64::MAX).then_some(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_failing_seed_is_found() {
        assert_eq!(first_failing(&(0..100), |seed| seed >= 40), Some(40));
        assert_eq!(first_failing(&(0..100), |_| false), None);
    }
}
