//! Tokio's clock, so that tests can move it, and times that may lie beyond what it counts.

use std::time::{Duration, Instant};

/// Where "never" lies: a wait that the clock cannot count is as long as this. Thirty years.
const FAR_AWAY: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The present.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time after a wait, however long: whoever says `Duration::MAX` means never, and gets no panic.
pub(crate) fn after(begin: Instant, wait: Duration) -> Instant {
    begin.checked_add(wait).unwrap_or(begin + FAR_AWAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_far_away() {
        let begin = Instant::now();
        assert_eq!(
            after(begin, Duration::from_secs(1)) - begin,
            Duration::from_secs(1)
        );
        assert_eq!(after(begin, Duration::MAX) - begin, FAR_AWAY);
    }
}
