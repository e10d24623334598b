//! Time as a number that survives a restart, driven by tokio's clock so that a paused test moves it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::model::UnixMillis;

/// The wall clock at start, plus what tokio's clock has counted since. It never goes back, even if the wall clock
/// does.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    unix_at_start: UnixMillis,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self {
            started: Instant::now(),
            unix_at_start: millis(since_1970),
        }
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.unix_at_start + millis(self.started.elapsed())
    }

    /// When tokio's clock will show a time, or has shown it; `None` if it cannot count that far.
    pub(crate) fn instant(&self, time: UnixMillis) -> Option<Instant> {
        let after_start = time.saturating_sub(self.unix_at_start);
        self.started.checked_add(Duration::from_millis(after_start))
    }
}

/// Whole milliseconds; the end of time if there are too many.
pub(crate) fn millis(duration: Duration) -> UnixMillis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
