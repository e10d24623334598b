//! The clock for timestamps in objects.
//!
//! See [`watchkeeper_clock`]: the machine's wall clock, or in tests with paused tokio time a clock that moves with
//! deletion deadlines and bookmarks.

use watchkeeper_meta::Time;

/// The wall clock of this runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The time now.
    pub fn now(&self) -> Time {
        watchkeeper_clock::now().into()
    }
}
