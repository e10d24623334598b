//! The work queue: deduplicates keys and hands each to one worker at a time.
//!
//! A key added twice before a worker takes it is handed out once; a key added while a worker has it is handed out
//! again afterwards. Keys can be delayed, prioritised, and requeued after a failure with a delay from a
//! [`RateLimiter`]. Memory is proportional to the number of distinct keys. No key is refused before
//! [`Queue::shut_down`], because a lost key is a missed change.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use watchkeeper_runtime::queue::{AddOptions, Queue};
//!
//! let queue = Queue::new(Default::default());
//! queue.add("default/web", AddOptions::default());
//! queue.add("default/web", AddOptions::default());
//!
//! let work = queue.next().await.expect("not shut down");
//! assert_eq!(*work.key(), "default/web");
//! assert_eq!(queue.stats().ready, 0, "two adds, one hand-out");
//! work.retry(); // it failed: back after 5 ms, then 10 ms, then 20 ms …
//! assert_eq!(queue.stats().delayed, 1);
//! # }
//! ```
//!
//! For code moved from Go there is [`crate::workqueue`], with client-go's methods and semantics.

mod rate_limiter;
mod schedule;

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::clock::{self, now};

pub use rate_limiter::{
    BUCKET_BURST, BUCKET_PER_SECOND, Bucket, FIRST_DELAY, FastSlow, LONGEST_DELAY, MaxOf, PerKeyExponential,
    RateLimiter, WithMaxWait, default_controller_limiter,
};
pub use schedule::MAX_PASSED_OVER;
use schedule::{Added, Handed, Schedule};

/// The priority of keys that can wait, such as those of the initial list.
///
/// As in controller-runtime: a real change overtakes the backlog of a start.
pub const LOW_PRIORITY: i32 = -100;

/// A work queue. Clones share one queue.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

/// Options of a queue.
pub struct QueueOptions<K> {
    /// The delay of requeued keys. The default is exponential per key, 5 ms … 1000 s, without client-go's bucket over
    /// all keys: a storm of failures must not delay all other keys.
    pub limiter: Box<dyn RateLimiter<K>>,
    /// Observes the queue. `None` also saves reading the clock for each key.
    pub observer: Option<Arc<dyn QueueObserver>>,
}

/// Delay and priority of an add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// The delay; zero is none. If the key is already queued, the earlier time wins.
    pub after: Duration,
    /// Higher goes first. A lower one gets a turn after [`MAX_PASSED_OVER`] others.
    pub priority: i32,
}

/// Observes a queue, for metrics. Called outside the queue's lock.
pub trait QueueObserver: Send + Sync {
    /// A key became ready that was not queued before.
    fn added(&self) {}
    /// A key was requeued after a failure.
    fn retried(&self) {}
    /// A key was handed out after waiting this long.
    fn started(&self, _waited: Duration) {}
    /// The work on a key has ended.
    fn finished(&self, _worked: Duration) {}
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Keys waiting for a worker.
    pub ready: usize,
    /// Keys waiting for their delay to pass.
    pub delayed: usize,
    /// Keys being worked on.
    pub running: usize,
    /// The total time of all running keys; only with an observer.
    pub unfinished: Duration,
    /// The time of the longest-running key; only with an observer.
    pub longest_running: Duration,
}

/// A key to work on. While this exists, the key is not handed to another worker; dropping it ends the work.
pub struct Work<K: Hash + Eq + Clone> {
    shared: Arc<Shared<K>>,
    key: K,
    slot: u32,
    priority: i32,
    /// True if the key's failures are forgotten at the end.
    succeeded: bool,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    /// Wakes one worker: a key is ready, or the earliest due time has changed.
    ready: Notify,
    /// Wakes the callers of `drain`.
    drained: Notify,
    observer: OnceLock<Arc<dyn QueueObserver>>,
}

struct State<K> {
    schedule: Schedule<K>,
    limiter: Box<dyn RateLimiter<K>>,
    /// Workers waiting in `next`, so that a busy queue wakes none.
    idle: usize,
}

/// The result of looking for a key.
enum Look<K> {
    Found(Handed<K>),
    Wait { until: Option<Instant> },
    Finished,
}

impl<K: Hash + Eq + Clone> Queue<K> {
    /// An empty queue.
    pub fn new(options: QueueOptions<K>) -> Self {
        let state = State {
            schedule: Schedule::default(),
            limiter: options.limiter,
            idle: 0,
        };
        let shared = Shared {
            state: Mutex::new(state),
            ready: Notify::new(),
            drained: Notify::new(),
            observer: options.observer.map(OnceLock::from).unwrap_or_default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Sets the observer, unless there is one. Returns true if it was set.
    pub fn observe(&self, observer: Arc<dyn QueueObserver>) -> bool {
        self.shared.observer.set(observer).is_ok()
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.shared.observer.get().is_some()
    }

    /// Adds a key. If it is already queued, it only moves forward: to the earlier time and the higher priority.
    ///
    /// Returns `false` if the queue is shut down.
    pub fn add(&self, key: K, options: AddOptions) -> bool {
        let due = (!options.after.is_zero()).then(|| clock::after(now(), options.after));
        let mut state = self.shared.state.lock();
        let added = state
            .schedule
            .add(key, due, options.priority, self.shared.timestamp());
        let wake = state.idle > 0;
        drop(state);
        self.shared.react(added, wake);
        added != Added::Refused
    }

    /// Requeues a key after a failure, with the delay of the rate limiter, which is returned.
    pub fn add_rate_limited(&self, key: K, priority: i32) -> Duration {
        let now = now();
        let after = self.shared.state.lock().limiter.when(&key, now);
        if let Some(observer) = self.shared.observer.get() {
            observer.retried();
        }
        self.add(key, AddOptions { after, priority });
        after
    }

    /// Waits for the next key. `None` means that the queue is shut down and empty.
    ///
    /// Cancel safe: dropping the future loses no key.
    pub async fn next(&self) -> Option<Work<K>> {
        loop {
            let waiting = self.shared.ready.notified();
            tokio::pin!(waiting);
            let until = {
                let mut state = self.shared.state.lock();
                match self.shared.look(&mut state) {
                    Look::Found(handed) => return Some(self.hand_out(handed, state)),
                    Look::Finished => return None,
                    Look::Wait { until } => {
                        // Registered under the lock: a later add finds this worker waiting.
                        waiting.as_mut().enable();
                        state.idle += 1;
                        until
                    }
                }
            };
            let idle = Idle::new(&self.shared);
            match until {
                None => waiting.await,
                Some(until) => {
                    tokio::select! {
                        () = waiting => {}
                        () = tokio::time::sleep_until(until.into()) => {}
                    }
                }
            }
            idle.awake();
        }
    }

    /// The next key, if one is ready.
    pub fn try_next(&self) -> Option<Work<K>> {
        let mut state = self.shared.state.lock();
        match self.shared.look(&mut state) {
            Look::Found(handed) => Some(self.hand_out(handed, state)),
            Look::Wait { .. } | Look::Finished => None,
        }
    }

    /// Resets the failure count of a key: it has succeeded or was given up.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().limiter.forget(key);
    }

    /// The number of requeues of a key since it was last forgotten.
    pub fn attempts(&self, key: &K) -> u32 {
        self.shared.state.lock().limiter.num_requeues(key)
    }

    /// Accepts no more keys and drops the delayed ones. Ready keys are still handed out, then [`Queue::next`] returns
    /// `None`. Idempotent.
    pub fn shut_down(&self) {
        let mut state = self.shared.state.lock();
        state.schedule.shut_down();
        let drained = state.schedule.is_drained();
        drop(state);
        self.shared.ready.notify_waiters();
        if drained {
            self.shared.drained.notify_waiters();
        }
    }

    /// Shuts down and waits until the queue is empty: every ready key was handed out and all work has ended.
    pub async fn drain(&self) {
        self.shut_down();
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.shared.state.lock().schedule.is_drained() {
                return;
            }
            drained.await;
        }
    }

    /// True if the queue was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shared.state.lock().schedule.is_shut_down()
    }

    /// The number of keys in each phase, and the times of the running ones.
    pub fn stats(&self) -> QueueStats {
        let mut state = self.shared.state.lock();
        state.promote();
        let counts = state.schedule.counts();
        let (mut unfinished, mut longest_running) = (Duration::ZERO, Duration::ZERO);
        if self.is_observed() {
            for running in state.schedule.running_for(now()) {
                unfinished += running;
                longest_running = longest_running.max(running);
            }
        }
        QueueStats {
            ready: counts.ready,
            delayed: counts.delayed,
            running: counts.running,
            unfinished,
            longest_running,
        }
    }

    /// The state, as long as somebody holds the queue.
    pub(crate) fn weak_stats(&self) -> impl Fn() -> Option<QueueStats> + Send + Sync + use<K>
    where
        K: Send + 'static,
    {
        let shared = Arc::downgrade(&self.shared);
        move || {
            Some(
                Self {
                    shared: shared.upgrade()?,
                }
                .stats(),
            )
        }
    }

    fn hand_out(&self, handed: Handed<K>, state: MutexGuard<'_, State<K>>) -> Work<K> {
        // The worker that held the timer for delayed keys is busy now: another one has to take it over.
        let counts = state.schedule.counts();
        let pass_on = state.idle > 0 && counts.ready + counts.delayed > 0;
        drop(state);
        if pass_on {
            self.shared.ready.notify_one();
        }
        if let (Some(observer), Some(since)) = (self.shared.observer.get(), handed.ready_since) {
            observer.started(now().saturating_duration_since(since));
        }
        Work {
            shared: self.shared.clone(),
            key: handed.key,
            slot: handed.slot,
            priority: handed.priority,
            succeeded: false,
        }
    }
}

impl<K: Hash + Eq + Clone> Work<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The priority the key was handed out with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// The number of requeues of the key since it last succeeded.
    pub fn attempts(&self) -> u32 {
        self.shared.state.lock().limiter.num_requeues(&self.key)
    }

    /// Ends the work as a success: the key's failures are forgotten.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }

    /// Ends the work as a failure: the key is requeued after a delay that grows with each failure, and is returned.
    pub fn retry(self) -> Duration {
        self.queue().add_rate_limited(self.key.clone(), self.priority)
    }

    /// Ends the work as a failure: the key is requeued after this time.
    pub fn retry_after(self, after: Duration) -> Duration {
        let priority = self.priority;
        self.shared.state.lock().limiter.when(&self.key, now());
        if let Some(observer) = self.shared.observer.get() {
            observer.retried();
        }
        self.queue().add(self.key.clone(), AddOptions { after, priority });
        after
    }

    /// Ends the work as a success and requeues the key after this time.
    pub fn again_after(mut self, after: Duration) {
        self.succeeded = true;
        let priority = self.priority;
        self.queue().add(self.key.clone(), AddOptions { after, priority });
    }

    /// Ends the work unfinished and requeues the key after this time. It is neither a success nor a failure.
    pub fn defer(self, after: Duration) {
        let priority = self.priority;
        self.queue().add(self.key.clone(), AddOptions { after, priority });
    }

    fn queue(&self) -> Queue<K> {
        Queue {
            shared: self.shared.clone(),
        }
    }
}

impl<K: Hash + Eq + Clone> Drop for Work<K> {
    fn drop(&mut self) {
        let now = self.shared.timestamp();
        let mut state = self.shared.state.lock();
        let (added, began) = state.schedule.done(self.slot, now);
        if self.succeeded {
            state.limiter.forget(&self.key);
        }
        let wake = state.idle > 0;
        let finished = state.schedule.is_finished();
        let drained = state.schedule.is_drained();
        drop(state);
        self.shared.react(added, wake);
        if finished {
            self.shared.ready.notify_waiters();
        }
        if drained {
            self.shared.drained.notify_waiters();
        }
        if let (Some(observer), Some(began), Some(now)) = (self.shared.observer.get(), began, now) {
            observer.finished(now.saturating_duration_since(began));
        }
    }
}

impl<K: Hash + Eq + Clone> Shared<K> {
    /// The current time, if there is an observer.
    fn timestamp(&self) -> Option<Instant> {
        self.observer.get().map(|_| now())
    }

    fn look(&self, state: &mut State<K>) -> Look<K> {
        state.promote();
        if let Some(handed) = state.schedule.take(self.timestamp()) {
            return Look::Found(handed);
        }
        match state.schedule.is_finished() {
            true => Look::Finished,
            false => Look::Wait {
                until: state.schedule.next_due(),
            },
        }
    }

    fn react(&self, added: Added, somebody_waits: bool) {
        if somebody_waits && matches!(added, Added::Ready | Added::Sooner) {
            self.ready.notify_one();
        }
        if let (Added::Ready, Some(observer)) = (added, self.observer.get()) {
            observer.added();
        }
    }
}

impl<K: Hash + Eq + Clone> State<K> {
    /// Reads the clock only if a key is delayed.
    fn promote(&mut self) {
        if self.schedule.next_due().is_some() {
            self.schedule.promote(now());
        }
    }
}

/// A waiting worker. If its future is dropped, another worker takes over its timer.
struct Idle<'a, K: Hash + Eq + Clone> {
    shared: &'a Shared<K>,
    dropped: bool,
}

impl<'a, K: Hash + Eq + Clone> Idle<'a, K> {
    fn new(shared: &'a Shared<K>) -> Self {
        Self {
            shared,
            dropped: true,
        }
    }

    fn awake(mut self) {
        self.dropped = false;
    }
}

impl<K: Hash + Eq + Clone> Drop for Idle<'_, K> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.idle -= 1;
        let others = state.idle > 0;
        drop(state);
        if self.dropped && others {
            self.shared.ready.notify_one();
        }
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        let shared = self.shared.clone();
        Self { shared }
    }
}

impl<K: Hash + Eq + Clone + Send + 'static> Default for QueueOptions<K> {
    fn default() -> Self {
        Self {
            limiter: Box::new(PerKeyExponential::default()),
            observer: None,
        }
    }
}

impl<K> fmt::Debug for QueueOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observed = self.observer.is_some();
        f.debug_struct("QueueOptions")
            .field("observed", &observed)
            .finish()
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.stats()).finish()
    }
}

impl<K: Hash + Eq + Clone + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests;
