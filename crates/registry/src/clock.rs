//! What time it is, for timestamps in objects.
//!
//! See [`watchkeeper_clock`]: the machine's time of day, which a test that pauses tokio's time moves together with
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
