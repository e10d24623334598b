//! The clock as an argument, so that tests can bring their own.

use std::fmt;
use std::sync::Arc;

use jiff::Zoned;

/// The source of the time in lines, including the time zone: klog prints local time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Zoned + Send + Sync>);

impl Clock {
    /// The machine's clock and zone.
    pub fn system() -> Self {
        Self::new(Zoned::now)
    }

    /// Any other clock.
    pub fn new(now: impl Fn() -> Zoned + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Zoned {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
