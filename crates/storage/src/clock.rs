//! Time as a number that survives a restart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::Instant;

use crate::model::UnixMillis;

/// How long a timer runs before it looks at the wall clock again, which may have been set meanwhile, or have gone on
/// while the machine slept.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The [wall clock](watchkeeper_clock), except that it never goes back: history is in the order of its times.
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

    /// When to look whether a time has come.
    pub(crate) fn instant(&self, time: UnixMillis) -> Instant {
        let left = Duration::from_millis(time.saturating_sub(self.now()));
        Instant::now() + left.min(LOOK_AGAIN)
    }
}

/// Whole milliseconds; the end of time if there are too many.
pub(crate) fn millis(duration: Duration) -> UnixMillis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
