//! Looking for a seed that fails, and for the fewest faults it fails with.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::description::{Beginning, Parts};
use super::plan::Plan;
use super::report::{Finding, Run};
use super::world;

/// Runs seeds on all processors, and returns the first that fails, shrunk.
pub(super) fn search(parts: &Arc<Parts>, beginning: &Beginning, seeds: Range<u64>) -> Option<Finding> {
    let processes: Vec<&str> = parts.controllers.iter().map(|it| &*it.name).collect();
    let plan = |seed| Plan::draw(seed, &processes, parts.faults);
    let failing = first_failing(&seeds, |seed| {
        world::run(parts, beginning, &plan(seed)).failure.is_some()
    })?;
    // In a thread of its own: the caller may be within a runtime.
    alone(|| {
        let run = world::run(parts, beginning, &plan(failing));
        let planned = run.plan.faults.len();
        let run = shrink(run, |plan| world::run(parts, beginning, plan));
        Some(Finding { run, planned })
    })
}

/// Does something on a thread of its own.
pub(super) fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The smallest seed that fails. Seeds are taken in order, and nobody begins one behind a failure.
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

/// Leaves out one fault after the other, for as long as the run fails in the same way.
fn shrink(mut failing: Run, run: impl Fn(&Plan) -> Run) -> Run {
    let mut index = 0;
    while index < failing.plan.faults.len() {
        let mut plan = failing.plan.clone();
        plan.faults.remove(index);
        let fewer = run(&plan);
        let is_same = matches!((&fewer.failure, &failing.failure), (Some(a), Some(b)) if a.is_like(b));
        (failing, index) = match is_same {
            // Faults before this one may have been needed only because of it.
            true => (fewer, 0),
            false => (failing, index + 1),
        };
    }
    failing
}

#[cfg(test)]
mod tests {
    use super::super::report::Failure;
    use super::*;

    #[test]
    fn the_first_seed_that_fails_is_found_whoever_is_faster() {
        assert_eq!(first_failing(&(0..100), |seed| seed >= 40), Some(40));
        assert_eq!(first_failing(&(0..100), |_| false), None);
    }

    #[test]
    fn a_failure_is_shrunk_to_the_faults_it_needs() {
        let plan: Plan = "1: crash a at write 1 for 0s; drop a at request 1; drop a at request 2; \
                          cut-watch a at event 1"
            .parse()
            .unwrap();
        // It takes the second and the last one.
        let run = |plan: &Plan| {
            let text = plan.to_string();
            let fails = text.contains("drop a at request 1") && text.contains("cut-watch");
            Run {
                plan: plan.clone(),
                trace: Default::default(),
                failure: fails.then_some(Failure::Restless),
            }
        };
        let shrunk = shrink(run(&plan), run);
        assert_eq!(
            shrunk.plan.to_string(),
            "1: drop a at request 1; cut-watch a at event 1"
        );
    }
}
