//! Time as objects carry it.
//!
//! It follows tokio's clock, so a test that pauses time moves deadlines, backoffs and schedules with it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use watchkeeper_meta::Time;

/// The machine's time, as far ahead or behind as tokio's clock is.
pub(crate) fn now() -> Time {
    let (clock, machine) = (tokio::time::Instant::now().into_std(), Instant::now());
    let system = SystemTime::now();
    let now = match clock.checked_duration_since(machine) {
        Some(ahead) => system + ahead,
        None => system - machine.duration_since(clock),
    };
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time {
        seconds: i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX),
        nanos: since_1970.subsec_nanos().cast_signed(),
    }
}

/// Now, as text.
pub(crate) fn timestamp() -> String {
    now().to_rfc3339()
}

/// A time in an object.
pub(crate) fn read(value: &Value) -> Option<Time> {
    value.as_str()?.parse().ok()
}

/// How long it is until `seconds` after a time; nothing if that has passed.
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
        assert!((3599..=3601).contains(&(now().seconds - start.seconds)));
        assert_eq!(left(start, 90), None);
    }
}
