//! The time of day for certificates. It moves with tokio's clock, so that tests can move it.

use jiff::Timestamp;
use tokio::time::Instant;

/// A clock anchored when it was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Timestamp,
    at: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            began: Timestamp::now(),
            at: Instant::now(),
        }
    }

    /// The later of two clocks: the system's may have moved while the machine slept, tokio's may have been moved by a
    /// test.
    pub(super) fn now(&self) -> Timestamp {
        let moved = self.began.saturating_add(self.at.elapsed());
        moved.unwrap_or(self.began).max(Timestamp::now())
    }
}
