//! Events per second over the last ten seconds.

use jiff::Timestamp;

/// The length of the window.
const SECONDS: usize = 10;

/// A ring with one counter per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rate {
    counts: [u32; SECONDS],
    /// The second of the newest counter.
    newest: i64,
}

impl Rate {
    pub(crate) fn note(&mut self, now: Timestamp) {
        self.advance(now.as_second());
        let slot = self.slot(self.newest);
        self.counts[slot] = self.counts[slot].saturating_add(1);
    }

    /// The average over the ring.
    pub(crate) fn per_second(&self, now: Timestamp) -> f64 {
        let mut ring = self.clone();
        ring.advance(now.as_second());
        ring.counts.iter().map(|&count| f64::from(count)).sum::<f64>() / SECONDS as f64
    }

    /// Clears the counters of the seconds that have passed. A clock that was set back keeps counting in the newest second.
    fn advance(&mut self, second: i64) {
        let passed = second.saturating_sub(self.newest).clamp(0, SECONDS as i64);
        for step in 1..=passed {
            let slot = self.slot(self.newest + step);
            self.counts[slot] = 0;
        }
        self.newest = self.newest.max(second);
        if passed == SECONDS as i64 {
            self.counts = [0; SECONDS];
        }
    }

    fn slot(&self, second: i64) -> usize {
        second.rem_euclid(SECONDS as i64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn events_count_for_ten_seconds() {
        let mut rate = Rate::default();
        for _ in 0..20 {
            rate.note(at(1_000));
        }
        rate.note(at(1_005));
        assert_eq!(rate.per_second(at(1_005)), 2.1);
        assert_eq!(rate.per_second(at(1_009)), 2.1);
        assert_eq!(rate.per_second(at(1_010)), 0.1);
        assert_eq!(rate.per_second(at(5_000)), 0.0);
    }

    #[test]
    fn a_clock_set_back_loses_nothing() {
        let mut rate = Rate::default();
        rate.note(at(1_000));
        rate.note(at(900));
        assert_eq!(rate.per_second(at(1_000)), 0.2);
    }
}
