//! A token bucket: requests per second, with a burst.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// The client-side rate limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second over time.
    pub qps: f64,
    /// Requests that may be sent at once after a quiet time.
    pub burst: u32,
}

impl Default for RateLimit {
    /// 5 and 10, as in client-go.
    fn default() -> Self {
        Self { qps: 5.0, burst: 10 }
    }
}

/// The bucket of one client. Each request takes a token at once, in advance if necessary, and waits until it is due,
/// so requests leave in the order they came.
#[derive(Debug)]
pub(crate) struct Bucket {
    limit: RateLimit,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Tokens at `at`; negative while requests wait.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn new(limit: RateLimit) -> Self {
        let tokens = f64::from(limit.burst);
        Self {
            limit,
            state: Mutex::new(State {
                tokens,
                at: Instant::now(),
            }),
        }
    }

    /// Waits for a token; returns the time waited. A cancelled wait returns the token.
    pub(crate) async fn wait(&self) -> Duration {
        let delay = self.reserve(Instant::now());
        if !delay.is_zero() {
            let mut token = Token {
                bucket: self,
                used: false,
            };
            tokio::time::sleep(delay).await;
            token.used = true;
        }
        delay
    }

    fn reserve(&self, now: Instant) -> Duration {
        let mut state = self.lock();
        let since = now.saturating_duration_since(state.at).as_secs_f64();
        state.tokens = (state.tokens + since * self.limit.qps).min(f64::from(self.limit.burst)) - 1.0;
        state.at = now;
        if state.tokens >= 0.0 {
            return Duration::ZERO;
        }
        // A rate of zero would wait forever; a day is as good and cannot overflow. A negative rate is no limit.
        const LONGEST: f64 = 86_400.0;
        Duration::from_secs_f64((-state.tokens / self.limit.qps).clamp(0.0, LONGEST))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A token taken in advance. Cancelled requests must not delay later ones.
struct Token<'a> {
    bucket: &'a Bucket,
    used: bool,
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.bucket.lock().tokens += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_returns_its_token() {
        let bucket = Bucket::new(RateLimit { qps: 5.0, burst: 1 });
        bucket.wait().await;
        for _ in 0..100 {
            let given_up = tokio::time::timeout(Duration::from_millis(1), bucket.wait()).await;
            assert!(given_up.is_err());
        }
        assert!(bucket.wait().await <= Duration::from_millis(200));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_below_zero_limits_nothing() {
        let bucket = Bucket::new(RateLimit { qps: -1.0, burst: 1 });
        for _ in 0..10 {
            assert_eq!(bucket.wait().await, Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let bucket = Bucket::new(RateLimit { qps: 5.0, burst: 10 });
        let begun = Instant::now();
        let mut at = Vec::new();
        for _ in 0..13 {
            bucket.wait().await;
            at.push(begun.elapsed().as_millis());
        }
        assert_eq!(at[..10], [0; 10]);
        assert_eq!(at[10..], [200, 400, 600]);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(
            bucket.reserve(Instant::now()),
            Duration::ZERO,
            "the reserve fills up again"
        );
    }
}
