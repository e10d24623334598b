//! What time it is, for timestamps in objects.
//!
//! The wall clock is read once, at start; from then on time follows tokio's clock. A test that pauses tokio's
//! time therefore moves creation timestamps, deletion deadlines and bookmarks together.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use watchkeeper_meta::Time;

/// Wall-clock time that moves with tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    at_start: Time,
}

impl Clock {
    /// A clock that reads `now` at this moment.
    pub fn starting_at(now: Time) -> Self {
        Self {
            started: Instant::now(),
            at_start: now,
        }
    }

    /// A clock that reads the machine's time at this moment.
    pub fn system() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(Time {
            seconds: since_1970.as_secs() as i64,
            nanos: since_1970.subsec_nanos() as i32,
        })
    }

    /// The time now.
    pub fn now(&self) -> Time {
        const NANOS_PER_SECOND: i64 = 1_000_000_000;
        let passed = self.started.elapsed();
        let nanos = i64::from(self.at_start.nanos) + i64::from(passed.subsec_nanos());
        Time {
            seconds: self.at_start.seconds + passed.as_secs() as i64 + nanos / NANOS_PER_SECOND,
            nanos: (nanos % NANOS_PER_SECOND) as i32,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn timestamps_follow_paused_time() {
        let clock = Clock::starting_at(Time {
            seconds: 100,
            nanos: 600_000_000,
        });
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(
            clock.now(),
            Time {
                seconds: 102,
                nanos: 100_000_000
            }
        );
    }
}
