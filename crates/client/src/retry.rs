//! Decides which answers are retried, and when.
//!
//! Pure: the caller sends, waits and counts. A request is repeated only if the server sends `Retry-After`, or after a
//! lost connection if repeating is harmless.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};
use jiff::Timestamp;

use crate::transport::TransportError;

/// Retries after the first attempt, as in client-go.
pub(crate) const MAX_RETRIES: usize = 10;

/// For a longer wait the error is returned instead.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The pause after a lost connection, as in client-go.
const AFTER_LOSS: Duration = Duration::from_secs(1);

/// The delay before repeating a request after this answer; `None` means never.
pub(crate) fn after_answer(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    asked_for(status, headers, now).filter(|wait| *wait <= LONGEST_WAIT)
}

/// The delay the server asks for.
pub(crate) fn asked_for(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    retry_after(headers.get(header::RETRY_AFTER)?.to_str().ok()?, now)
}

/// The delay before repeating a request without an answer; `None` means never.
///
/// A failed connect, or connections that repeatedly close before anything is sent, are reported at once: a refused
/// port or an untrusted certificate does not improve by retrying.
pub(crate) fn after_loss(method: &Method, error: &TransportError) -> Option<Duration> {
    let lost = matches!(error, TransportError::Lost { .. });
    (lost && (method.is_safe() || error.is_unprocessed())).then_some(AFTER_LOSS)
}

/// Parses seconds or a date.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(text.trim())
        .ok()?;
    Some(Duration::try_from(date - now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_with_retry_after_are_retried() {
        let now: Timestamp = "1994-11-06T08:49:07Z".parse().unwrap();
        let check = |status: u16, after: Option<&'static str>, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static(after));
            }
            let wait = after_answer(StatusCode::from_u16(status).unwrap(), &headers, now);
            assert_eq!(wait, expected.map(Duration::from_secs), "{status} {after:?}");
        };
        check(429, Some("1"), Some(1));
        check(503, Some("0"), Some(0));
        check(500, Some("Sun, 06 Nov 1994 08:49:37 GMT"), Some(30));
        check(500, Some("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        check(429, None, None);
        check(500, Some("soon"), None);
        check(503, Some("86400"), None);
        check(409, Some("1"), None);
    }
}
