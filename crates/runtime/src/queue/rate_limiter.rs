//! How long a key that is put back should wait.
//!
//! A limiter is asked with the present time and answers with a delay; it never sleeps and never reads a clock.
//! The names and numbers are client-go's, so that a controller moved here puts the same load on a cluster.

use std::hash::Hash;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::clock;

/// 5 ms, as client-go: the delay after a key's first failure.
pub const FIRST_DELAY: Duration = Duration::from_millis(5);
/// 1000 s, as client-go: no key waits longer, however often it fails.
pub const LONGEST_DELAY: Duration = Duration::from_secs(1000);
/// 10 a second, as client-go: what all failing keys together are put back at once their burst is used up.
pub const BUCKET_PER_SECOND: f64 = 10.0;
/// 100, as client-go.
pub const BUCKET_BURST: u32 = 100;

/// Decides how long a key waits before it is worked on again.
pub trait RateLimiter<K>: Send {
    /// The delay of this key, put back now. Counts as one more attempt.
    fn when(&mut self, key: &K, now: Instant) -> Duration;

    /// The key has succeeded or was given up: its attempts are no longer counted.
    fn forget(&mut self, key: &K);

    /// How often the key was put back since it was last forgotten.
    fn num_requeues(&self, key: &K) -> u32;
}

/// The limiter client-go gives every controller: [`PerKeyExponential`] with its defaults, and a [`Bucket`] of 10 a
/// second with a burst of 100 over all keys, whichever delays longer.
pub fn default_controller_limiter<K: Hash + Eq + Clone + Send + 'static>() -> MaxOf<K> {
    MaxOf::new(vec![
        Box::new(PerKeyExponential::default()),
        Box::new(Bucket::new(BUCKET_PER_SECOND, BUCKET_BURST)),
    ])
}

/// Each failure of a key doubles its delay: `first · 2ⁿ`, at most `longest`.
///
/// Holds one counter per key that has failed and was not yet forgotten.
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

/// A few quick retries, then slow ones: `fast` for the first `max_fast` failures of a key, `slow` after that.
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

/// A token bucket over all keys: `burst` at once, then so many a second. Each request reserves its token, so a
/// storm of N keys is spread out and the last one waits longest.
///
/// Kept as one point in time: when the bucket will be full again. Whole nanoseconds do not drift.
#[derive(Debug)]
pub struct Bucket {
    /// Time to fill in one token.
    period: Duration,
    /// Time to fill the whole bucket.
    capacity: Duration,
    full_at: Option<Instant>,
}

impl Bucket {
    /// `per_second` tokens a second into a bucket that holds `burst` and begins full.
    ///
    /// A rate that is not above zero lets the burst through and then holds keys for [`LONGEST_DELAY`] each.
    pub fn new(per_second: f64, burst: u32) -> Self {
        let seconds = 1.0 / per_second;
        let period = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_DELAY);
        Self {
            period,
            capacity: period.saturating_mul(burst),
            full_at: None,
        }
    }

    /// Takes one token and says how long it takes until it is there.
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

/// The longest delay of several limiters. Every one of them is asked each time, so that all of them count.
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Joins the limiters. With none of them nothing is ever delayed.
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

/// Another limiter's delay, but never longer than `max_wait`.
#[derive(Debug)]
pub struct WithMaxWait<L> {
    limiter: L,
    max_wait: Duration,
}

impl<L> WithMaxWait<L> {
    /// Caps what `limiter` says.
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

/// Nearly every key succeeds while none has failed: then it is not even hashed.
fn forget<K: Hash + Eq>(failures: &mut HashMap<K, u32, RandomState>, key: &K) {
    if !failures.is_empty() {
        failures.remove(key);
    }
}

/// Counts one more failure and returns how many there were before.
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
