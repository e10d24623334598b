//! Times in objects, by [`watchkeeper_clock`]: a test that moves time moves deadlines and schedules with it.

use std::time::Duration;

use serde_json::Value;
use watchkeeper_meta::Time;

/// The current time.
pub(crate) fn now() -> Time {
    watchkeeper_clock::now().into()
}

/// The current time as text.
pub(crate) fn timestamp() -> String {
    now().to_rfc3339()
}

/// A time in an object.
pub(crate) fn read(value: &Value) -> Option<Time> {
    value.as_str()?.parse().ok()
}

/// The time until `seconds` after a time; `None` if that has passed.
pub(crate) fn left(since: Time, seconds: i64) -> Option<Duration> {
    let (now, end) = (now(), since.seconds.saturating_add(seconds));
    let whole = u64::try_from(end.saturating_sub(now.seconds)).ok()?;
    let left =
        Duration::from_secs(whole).saturating_sub(Duration::from_nanos(u64::from(now.nanos.unsigned_abs())));
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_moves_with_the_clock_of_tests() {
        let start = now();
        assert!(left(start, 90).is_some());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(now().seconds - start.seconds, 3600);
        assert_eq!(left(start, 90), None);
    }
}
