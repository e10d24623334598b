//! The backoff after failures: exponential, with jitter, reset by progress.

use std::time::Duration;

/// The wait after the first failure, as in client-go.
pub const FIRST_WAIT: Duration = Duration::from_millis(800);
/// The longest wait, as in client-go.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Counts failures since the last progress.
///
/// Waits are `d … 2d` with `d` = 0.8, 1.6, 3.2 … 30 s. The jitter keeps watchers that failed together from coming
/// back together.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Something was received: resets the count.
    pub(super) fn progress(&mut self) {
        self.failures = 0;
    }

    /// True if something has failed since the last progress.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Counts a failure and returns the wait; `chance` is between 0 and 1.
    pub(super) fn fail(&mut self, first_is_free: bool, chance: f64) -> Duration {
        let before = self.failures;
        self.failures = self.failures.saturating_add(1);
        match (first_is_free, before) {
            (true, 0) => Duration::ZERO,
            (true, _) => wait(before - 1, chance),
            (false, _) => wait(before, chance),
        }
    }
}

fn wait(failures: u32, chance: f64) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    let base = FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT);
    base + base.mul_f64(chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(first_is_free: bool, chance: f64) -> Vec<u128> {
        let mut backoff = Backoff::default();
        let waits = (0..8).map(|_| backoff.fail(first_is_free, chance).as_millis());
        waits.collect()
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        assert_eq!(
            waits(false, 0.0),
            [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]
        );
        assert_eq!(waits(false, 1.0)[..3], [1600, 3200, 6400]);
    }

    #[test]
    fn the_first_of_the_harmless_failures_costs_nothing() {
        assert_eq!(waits(true, 0.0)[..4], [0, 800, 1600, 3200]);
    }

    #[test]
    fn only_progress_makes_waits_short_again() {
        let mut backoff = Backoff::default();
        for _ in 0..100 {
            backoff.fail(false, 0.0);
        }
        assert_eq!(backoff.fail(false, 0.0), LONGEST_WAIT);
        backoff.progress();
        assert_eq!(backoff.fail(false, 0.0), FIRST_WAIT);
    }
}
