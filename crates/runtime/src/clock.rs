//! Tokio's clock, which tests can move, with saturating arithmetic.

use std::time::{Duration, Instant};

/// The longest wait: thirty years stand for "never".
const FAR_AWAY: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The current time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time after a wait, saturating: `Duration::MAX` means never and does not panic.
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
