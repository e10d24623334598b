//! Shrinks a failing plan as long as its run fails for the same reason.
//!
//! ```text
//! crash a at write 9 for 60s; drop a at request 4    fails
//! crash a at write 9 for 60s                         fails: the other fault is not needed
//! crash a at write 1 for 60s                         passes
//! crash a at write 4 for 60s                         fails: an earlier point suffices
//! crash a at write 4 for 0s                          fails: no downtime is needed
//! ```
//!
//! First faults are removed, then the remaining ones are simplified one step at a time, and again from the start. Every
//! step makes the plan smaller by count, point or span, so this ends.

use std::time::Duration;

use super::plan::{Plan, Trouble};
use super::report::Run;

/// The largest number of smaller plans tried.
const MAX_RUNS: usize = 500;

/// Returns the smallest run found that fails for the same reason.
pub(super) fn shrink(failing: Run, run: impl Fn(&Plan) -> Run) -> Run {
    let mut shrinking = Shrinking {
        failing,
        run,
        left: MAX_RUNS,
    };
    while shrinking.leaves_one_out() || shrinking.simplifies_one() {}
    shrinking.failing
}

struct Shrinking<F> {
    failing: Run,
    run: F,
    left: usize,
}

impl<F: Fn(&Plan) -> Run> Shrinking<F> {
    fn leaves_one_out(&mut self) -> bool {
        (0..self.failing.plan.faults.len()).any(|index| {
            let mut plan = self.failing.plan.clone();
            plan.faults.remove(index);
            self.still_fails(&plan)
        })
    }

    fn simplifies_one(&mut self) -> bool {
        (0..self.failing.plan.faults.len()).any(|index| {
            let simpler = self.failing.plan.faults[index].trouble.simpler();
            simpler.into_iter().any(|trouble| {
                let mut plan = self.failing.plan.clone();
                plan.faults[index].trouble = trouble;
                self.still_fails(&plan)
            })
        })
    }

    /// Runs a plan, and continues with it if it fails for the same reason.
    fn still_fails(&mut self, plan: &Plan) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        self.left = left;
        let run = (self.run)(plan);
        let fails = matches!((&run.failure, &self.failing.failure), (Some(a), Some(b)) if a.is_like(b));
        if fails {
            self.failing = run;
        }
        fails
    }
}

/// A number of a trouble, if it has that one.
type Number = fn(&mut Trouble) -> Option<&mut u64>;

/// A span of a trouble, if it has that one.
type Span = fn(&mut Trouble) -> Option<&mut Duration>;

impl Trouble {
    /// Faults that are simpler by one step: a simpler kind, an earlier point, a shorter span. The largest steps come
    /// first.
    fn simpler(&self) -> Vec<Self> {
        let mut simpler: Vec<Self> = self.plainer().into_iter().collect();
        let numbers: [Number; 2] = [Self::point, Self::depth];
        for number in numbers {
            let from = number(&mut self.clone()).map_or(0, |number| *number);
            simpler.extend(below(from, 1).map(|smaller| {
                let mut changed = self.clone();
                number(&mut changed).into_iter().for_each(|it| *it = smaller);
                changed
            }));
        }
        let spans: [(Span, u64); 2] = [(Self::start, 0), (Self::span, self.least_span())];
        for (span, least) in spans {
            let from = span(&mut self.clone()).map_or(0, |span| span.as_secs());
            simpler.extend(below(from, least).map(|smaller| {
                let mut changed = self.clone();
                let smaller = Duration::from_secs(smaller);
                span(&mut changed).into_iter().for_each(|it| *it = smaller);
                changed
            }));
        }
        simpler
    }

    /// The simpler kind of the same fault.
    fn plainer(&self) -> Option<Self> {
        match *self {
            Self::CrashStale { write, down, .. } => Some(Self::Crash { write, down }),
            Self::CutOff {
                at,
                lasts,
                compacts: true,
            } => Some(Self::CutOff {
                at,
                lasts,
                compacts: false,
            }),
            _ => None,
        }
    }

    /// The write, request or event at which it happens.
    fn point(&mut self) -> Option<&mut u64> {
        match self {
            Self::Crash { write: point, .. }
            | Self::CrashStale { write: point, .. }
            | Self::LoseAnswer { write: point }
            | Self::Drop { request: point }
            | Self::Fail { request: point, .. }
            | Self::Delay { request: point, .. }
            | Self::CutWatch { event: point }
            | Self::LateEvents { event: point, .. } => Some(point),
            Self::CutOff { .. } => None,
        }
    }

    /// The number of revisions the stale server lags behind.
    fn depth(&mut self) -> Option<&mut u64> {
        match self {
            Self::CrashStale { behind, .. } => Some(behind),
            _ => None,
        }
    }

    /// The start time.
    fn start(&mut self) -> Option<&mut Duration> {
        match self {
            Self::CutOff { at, .. } => Some(at),
            _ => None,
        }
    }

    /// The duration.
    fn span(&mut self) -> Option<&mut Duration> {
        match self {
            Self::Crash { down: span, .. }
            | Self::CrashStale { down: span, .. }
            | Self::Delay { by: span, .. }
            | Self::LateEvents { by: span, .. }
            | Self::CutOff { lasts: span, .. } => Some(span),
            _ => None,
        }
    }

    /// The shortest duration: a restart can be immediate, but a delay cannot be zero.
    fn least_span(&self) -> u64 {
        match self {
            Self::Crash { .. } | Self::CrashStale { .. } => 0,
            _ => 1,
        }
    }
}

/// Smaller numbers to try: the least, half way, and one less.
fn below(number: u64, least: u64) -> impl Iterator<Item = u64> {
    let mut smaller = vec![least, number.midpoint(least), number.saturating_sub(1)];
    smaller.retain(|smaller| (least..number).contains(smaller));
    smaller.dedup();
    smaller.into_iter()
}

#[cfg(test)]
mod tests {
    use super::super::plan::FaultOptions;
    use super::super::report::Failure;
    use super::*;

    /// Shrinks a plan; `fails` decides which smaller plans fail.
    fn check(plan: &str, fails: impl Fn(&Plan) -> bool, expected: &str) {
        let run = |plan: &Plan| Run {
            plan: plan.clone(),
            trace: Default::default(),
            failure: fails(plan).then_some(Failure::Restless),
        };
        let shrunk = shrink(run(&plan.parse().unwrap()), run);
        assert_eq!(shrunk.plan.to_string(), expected);
    }

    #[test]
    fn unnecessary_faults_are_removed() {
        check(
            "1: crash a at write 1 for 0s; drop a at request 1; drop a at request 2; cut-watch a at event 1",
            |plan| {
                let text = plan.to_string();
                text.contains("drop a at request 1") && text.contains("cut-watch")
            },
            "1: drop a at request 1; cut-watch a at event 1",
        );
    }

    #[test]
    fn a_fault_shrinks_to_the_earliest_point_and_shortest_span() {
        let crash = |plan: &Plan| match plan.faults[..] {
            [ref fault] => match fault.trouble {
                Trouble::Crash { write, down } => write >= 4 && down >= Duration::from_secs(7),
                Trouble::CrashStale { write, .. } => write >= 4,
                _ => false,
            },
            _ => false,
        };
        check(
            "1: crash a at write 9 for 60s",
            crash,
            "1: crash a at write 4 for 7s",
        );
        // If a plain crash suffices, it becomes one.
        check(
            "1: crash a at write 30 for 10s back 7 behind",
            crash,
            "1: crash a at write 4 for 7s",
        );
    }

    #[test]
    fn a_necessary_compaction_is_kept() {
        check(
            "1: cut-off a at 31s for 60s and compact",
            |plan| plan.to_string().ends_with("and compact"),
            "1: cut-off a at 0s for 1s and compact",
        );
    }

    #[test]
    fn shrinking_ends_at_a_smallest_plan() {
        for seed in 0..200 {
            let plan = Plan::draw(seed, &["a", "b"], FaultOptions::default());
            let always = |plan: &Plan| Run {
                plan: plan.clone(),
                trace: Default::default(),
                failure: Some(Failure::Restless),
            };
            assert_eq!(shrink(always(&plan), always).plan.faults, []);
            for fault in plan.faults {
                let is_smaller = fault
                    .trouble
                    .simpler()
                    .iter()
                    .all(|simpler| *simpler != fault.trouble);
                assert!(is_smaller, "{fault}");
            }
        }
    }
}
