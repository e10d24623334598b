//! Rate limiters: the delay of a requeued key.
//!
//! A limiter gets the current time and returns a delay; it never sleeps and never reads a clock. Names and numbers
//! are client-go's, so that a controller moved here puts the same load on a cluster.

use std::hash::Hash;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::clock;

/// The delay after a key's first failure, as in client-go.
pub const FIRST_DELAY: Duration = Duration::from_millis(5);
/// The longest delay of a key, as in client-go.
pub const LONGEST_DELAY: Duration = Duration::from_secs(1000);
/// The rate of all requeues together after the burst, as in client-go.
pub const BUCKET_PER_SECOND: f64 = 10.0;
/// The burst, as in client-go.
pub const BUCKET_BURST: u32 = 100;

/// Decides the delay of a requeued key.
pub trait RateLimiter<K>: Send {
    /// The delay of this key, requeued now. Counts one more attempt.
    fn when(&mut self, key: &K, now: Instant) -> Duration;

    /// Resets the attempts of a key: it has succeeded or was given up.
    fn forget(&mut self, key: &K);

    /// The number of requeues of a key since it was last forgotten.
    fn num_requeues(&self, key: &K) -> u32;
}

/// client-go's default limiter of controllers: the longer delay of [`PerKeyExponential`] with its defaults and a
/// [`Bucket`] of 10 a second with a burst of 100 over all keys.
pub fn default_controller_limiter<K: Hash + Eq + Clone + Send + 'static>() -> MaxOf<K> {
    MaxOf::new(vec![
        Box::new(PerKeyExponential::default()),
        Box::new(Bucket::new(BUCKET_PER_SECOND, BUCKET_BURST)),
    ])
}

/// Each failure of a key doubles its delay: `first · 2ⁿ`, at most `longest`.
///
/// Keeps one counter per key that has failed and was not forgotten.
#[derive(Debug)]
pub struct PerKeyExponential<K> {
    first: Duration,
    longest: Duration,
    failures: HashMap<K, u32, RandomState>,
}

impl<K> PerKeyExponential<K> {
    /// Starts at `first` and doubles up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        let failures = HashMap::default();
        Self {
            first,
            longest,
            failures,
        }
    }

    fn delay(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures);
        factor
            .and_then(|factor| self.first.checked_mul(factor))
            .map_or(self.longest, |delay| delay.min(self.longest))
    }
}

impl<K> Default for PerKeyExponential<K> {
    fn default() -> Self {
        Self::new(FIRST_DELAY, LONGEST_DELAY)
    }
}

impl<K: Hash + Eq + Clone + Send> RateLimiter<K> for PerKeyExponential<K> {
    fn when(&mut self, key: &K, _now: Instant) -> Duration {
        let failures = count(&mut self.failures, key);
        self.delay(failures)
    }

    fn forget(&mut self, key: &K) {
        forget(&mut self.failures, key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

/// A few fast retries, then slow ones: `fast` for the first `max_fast` failures of a key, `slow` after that.
#[derive(Debug)]
pub struct FastSlow<K> {
    fast: Duration,
    slow: Duration,
    max_fast: u32,
    failures: HashMap<K, u32, RandomState>,
}

impl<K> FastSlow<K> {
    /// Waits `fast` after each of the first `max_fast` failures, then `slow`.
    pub fn new(fast: Duration, slow: Duration, max_fast: u32) -> Self {
        let failures = HashMap::default();
        Self {
            fast,
            slow,
            max_fast,
            failures,
        }
    }
}

impl<K: Hash + Eq + Clone + Send> RateLimiter<K> for FastSlow<K> {
    fn when(&mut self, key: &K, _now: Instant) -> Duration {
        match count(&mut self.failures, key) < self.max_fast {
            true => self.fast,
            false => self.slow,
        }
    }

    fn forget(&mut self, key: &K) {
        forget(&mut self.failures, key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

/// A token bucket over all keys: `burst` at once, then `per_second`. Each request reserves its token, so a storm of N
/// keys is spread out and the last one waits longest.
///
/// Stored as the time at which the bucket will be full again, in whole nanoseconds, which do not drift.
#[derive(Debug)]
pub struct Bucket {
    /// The time to refill one token.
    period: Duration,
    /// The time to refill the whole bucket.
    capacity: Duration,
    full_at: Option<Instant>,
}

impl Bucket {
    /// A bucket that holds `burst` tokens, starts full and is refilled at `per_second`.
    ///
    /// A rate that is not above zero passes the burst and then delays each key by [`LONGEST_DELAY`].
    pub fn new(per_second: f64, burst: u32) -> Self {
        let seconds = 1.0 / per_second;
        let period = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_DELAY);
        Self {
            period,
            capacity: period.saturating_mul(burst),
            full_at: None,
        }
    }

    /// Takes one token and returns the time until it is available.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let full_at = clock::after(self.full_at.map_or(now, |at| at.max(now)), self.period);
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(self.capacity)
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&mut self, _key: &K, now: Instant) -> Duration {
        self.reserve(now)
    }

    fn forget(&mut self, _key: &K) {}

    fn num_requeues(&self, _key: &K) -> u32 {
        0
    }
}

/// The longest delay of several limiters. Each is called every time, so that all of them count.
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Joins the limiters. Without any, nothing is delayed.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters }
    }
}

impl<K> std::fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaxOf")
            .field("limiters", &self.limiters.len())
            .finish()
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        let delays = self.limiters.iter_mut().map(|limiter| limiter.when(key, now));
        delays.max().unwrap_or(Duration::ZERO)
    }

    fn forget(&mut self, key: &K) {
        for limiter in &mut self.limiters {
            limiter.forget(key);
        }
    }

    fn num_requeues(&self, key: &K) -> u32 {
        let counts = self.limiters.iter().map(|limiter| limiter.num_requeues(key));
        counts.max().unwrap_or(0)
    }
}

/// Another limiter's delay, capped at `max_wait`.
#[derive(Debug)]
pub struct WithMaxWait<L> {
    limiter: L,
    max_wait: Duration,
}

impl<L> WithMaxWait<L> {
    /// Caps the delays of `limiter`.
    pub fn new(limiter: L, max_wait: Duration) -> Self {
        Self { limiter, max_wait }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWait<L> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.limiter.when(key, now).min(self.max_wait)
    }

    fn forget(&mut self, key: &K) {
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiter.num_requeues(key)
    }
}

/// Usually no key has failed; then the key is not even hashed.
fn forget<K: Hash + Eq>(failures: &mut HashMap<K, u32, RandomState>, key: &K) {
    if !failures.is_empty() {
        failures.remove(key);
    }
}

/// Counts one more failure and returns the number before.
fn count<K: Hash + Eq + Clone>(failures: &mut HashMap<K, u32, RandomState>, key: &K) -> u32 {
    match failures.get_mut(key) {
        Some(count) => {
            *count = count.saturating_add(1);
            *count - 1
        }
        None => {
            failures.insert(key.clone(), 1);
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delays of successive failures of one key, in milliseconds.
    fn delays(limiter: &mut impl RateLimiter<&'static str>, times: usize) -> Vec<u128> {
        let now = Instant::now();
        (0..times)
            .map(|_| limiter.when(&"one", now).as_millis())
            .collect()
    }

    #[test]
    fn exponential_doubles_per_key_up_to_the_longest() {
        let mut limiter = PerKeyExponential::new(Duration::from_millis(1), Duration::from_secs(1));
        assert_eq!(
            delays(&mut limiter, 11),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
        );
        assert_eq!(limiter.num_requeues(&"one"), 11);
        assert_eq!(limiter.num_requeues(&"two"), 0);
        limiter.forget(&"one");
        assert_eq!(limiter.num_requeues(&"one"), 0);
        assert_eq!(delays(&mut limiter, 1), [1]);
    }

    #[test]
    fn exponential_never_overflows() {
        let mut limiter = PerKeyExponential::default();
        assert_eq!(delays(&mut limiter, 200).last(), Some(&1_000_000));
        let mut odd = PerKeyExponential::new(Duration::MAX, Duration::MAX);
        odd.when(&1, Instant::now());
        assert_eq!(odd.when(&1, Instant::now()), Duration::MAX);
    }

    #[test]
    fn fast_slow_is_fast_first() {
        let mut limiter = FastSlow::new(Duration::from_millis(5), Duration::from_secs(10), 3);
        assert_eq!(delays(&mut limiter, 5), [5, 5, 5, 10_000, 10_000]);
    }

    #[test]
    fn bucket_gives_its_burst_then_one_a_period() {
        let mut bucket = Bucket::new(2.0, 3);
        assert_eq!(delays(&mut bucket, 6), [0, 0, 0, 500, 1000, 1500]);
    }

    #[test]
    fn bucket_fills_again_but_never_beyond_its_burst() {
        let mut bucket = Bucket::new(1.0, 2);
        let start = Instant::now();
        let take = |bucket: &mut Bucket, at: u64| bucket.reserve(start + Duration::from_secs(at)).as_secs();
        assert_eq!([0, 0, 0].map(|at| take(&mut bucket, at)), [0, 0, 1]);
        assert_eq!([100, 100, 100].map(|at| take(&mut bucket, at)), [0, 0, 1]);
    }

    #[test]
    fn max_of_asks_every_limiter_every_time() {
        let quick = PerKeyExponential::new(Duration::from_millis(1), Duration::from_secs(1));
        let slow = FastSlow::new(Duration::from_millis(3), Duration::from_secs(3), 2);
        let mut both = MaxOf::new(vec![Box::new(quick), Box::new(slow)]);
        assert_eq!(delays(&mut both, 4), [3, 3, 3000, 3000]);
        assert_eq!(both.num_requeues(&"one"), 4);
        both.forget(&"one");
        assert_eq!(delays(&mut both, 1), [3]);
    }

    #[test]
    fn max_wait_caps_the_delay_but_not_the_count() {
        let inner = PerKeyExponential::new(Duration::from_millis(1), Duration::from_secs(1000));
        let mut limiter = WithMaxWait::new(inner, Duration::from_millis(5));
        assert_eq!(delays(&mut limiter, 5), [1, 2, 4, 5, 5]);
        assert_eq!(limiter.num_requeues(&"one"), 5);
    }

    #[test]
    fn default_limiter_lets_a_storm_of_keys_through_at_ten_a_second() {
        let mut limiter = default_controller_limiter::<u32>();
        let now = Instant::now();
        let delays: Vec<_> = (0..102).map(|key| limiter.when(&key, now).as_millis()).collect();
        assert_eq!(delays[..100], [5; 100]);
        assert_eq!(delays[100..], [100, 200]);
    }
}
