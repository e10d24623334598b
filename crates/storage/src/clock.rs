//! The wall clock as a number that survives a restart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::Instant;

use crate::model::UnixMillis;

/// The longest sleep before the wall clock is read again: it may have been set, or have advanced while the machine was
/// suspended.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The [wall clock](watchkeeper_clock), made monotonic: history is ordered by its times.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    latest: AtomicU64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self::default()
    }

    pub(crate) fn now(&self) -> UnixMillis {
        let since_1970 = watchkeeper_clock::now().duration_since(UNIX_EPOCH);
        let now = millis(since_1970.unwrap_or(Duration::ZERO));
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// The instant at which to check whether a time has come.
    pub(crate) fn instant(&self, time: UnixMillis) -> Instant {
        let left = Duration::from_millis(time.saturating_sub(self.now()));
        Instant::now() + left.min(MAX_SLEEP)
    }
}

/// Whole milliseconds; saturates.
pub(crate) fn millis(duration: Duration) -> UnixMillis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
