//! The work queue: keys go in many times, come out once, each to one worker at a time.
//!
//! A key added twice before a worker takes it is handed out once; a key added while it is worked on comes back
//! afterwards. Keys may be delayed, have a priority, and be put back after a failure with a delay that a
//! [`RateLimiter`] chooses. Everything lies in memory proportional to the number of distinct keys; no key is ever
//! refused before [`Queue::shut_down`], since a lost key is a missed change.
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
//! For code moved from Go there is [`crate::workqueue`], with client-go's methods and habits.

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

/// The priority of keys that can wait: those of an initial list, which change nothing by themselves.
///
/// −100, as controller-runtime, so that a real change overtakes the backlog of a start.
pub const LOW_PRIORITY: i32 = -100;

/// A work queue. Clones share one queue.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

/// How a queue behaves.
pub struct QueueOptions<K> {
    /// Chooses the delay of keys that are put back. The default is exponential per key, 5 ms … 1000 s, without
    /// the bucket over all keys that client-go has: one storm of failures must not hold up every other key.
    pub limiter: Box<dyn RateLimiter<K>>,
    /// Is told what happens. `None` also saves reading the clock for each key.
    pub observer: Option<Arc<dyn QueueObserver>>,
}

/// When and how urgently a key should be handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Not before this time has passed; zero is at once. An earlier add of the same key wins over a later one.
    pub after: Duration,
    /// Higher goes first. Lower ones get a turn after [`MAX_PASSED_OVER`] others.
    pub priority: i32,
}

/// Is told what happens in a queue, to count and to measure. Called outside the queue's lock.
pub trait QueueObserver: Send + Sync {
    /// A key became ready that was not there before.
    fn added(&self) {}
    /// A key was put back after a failure.
    fn retried(&self) {}
    /// A key was handed out after it had been ready for so long.
    fn started(&self, _waited: Duration) {}
    /// The work on a key has ended.
    fn finished(&self, _worked: Duration) {}
}

/// A queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Keys waiting for a worker.
    pub ready: usize,
    /// Keys waiting for their time.
    pub delayed: usize,
    /// Keys being worked on.
    pub running: usize,
    /// How long all running keys together have been running; only with an observer.
    pub unfinished: Duration,
    /// How long the longest-running key has been running; only with an observer.
    pub longest_running: Duration,
}

/// A key to work on. While this lives, nobody else is handed the same key; dropping it ends the work.
pub struct Work<K: Hash + Eq + Clone> {
    shared: Arc<Shared<K>>,
    key: K,
    slot: u32,
    priority: i32,
    /// Whether the key's failures are forgotten at the end.
    succeeded: bool,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    /// Wakes one worker: a key is ready, or the earliest due time has moved.
    ready: Notify,
    /// Wakes those who wait for the end.
    drained: Notify,
    observer: OnceLock<Arc<dyn QueueObserver>>,
}

struct State<K> {
    schedule: Schedule<K>,
    limiter: Box<dyn RateLimiter<K>>,
    /// Workers waiting in `next`. Counted so that a busy queue wakes nobody.
    idle: usize,
}

/// What a worker finds when it looks.
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

    /// Tells this what happens from now on, unless somebody is told already. Returns whether it is told.
    pub fn observe(&self, observer: Arc<dyn QueueObserver>) -> bool {
        self.shared.observer.set(observer).is_ok()
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.shared.observer.get().is_some()
    }

    /// Adds a key; one that is here already only moves forward, to the earlier time and the higher priority.
    ///
    /// Returns whether the queue took it: `false` once it is shut down.
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

    /// Puts a key back after a failure, with the delay its limiter chooses, which is returned.
    pub fn add_rate_limited(&self, key: K, priority: i32) -> Duration {
        let now = now();
        let after = self.shared.state.lock().limiter.when(&key, now);
        if let Some(observer) = self.shared.observer.get() {
            observer.retried();
        }
        self.add(key, AddOptions { after, priority });
        after
    }

    /// Waits for the next key. `None` means the queue is shut down and has nothing left to hand out.
    ///
    /// May be dropped at any await without losing a key.
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
                        // Registered under the lock: an add that follows finds this worker waiting.
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

    /// The next key if there is one right now.
    pub fn try_next(&self) -> Option<Work<K>> {
        let mut state = self.shared.state.lock();
        match self.shared.look(&mut state) {
            Look::Found(handed) => Some(self.hand_out(handed, state)),
            Look::Wait { .. } | Look::Finished => None,
        }
    }

    /// Stops counting a key's failures: it has succeeded or was given up.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().limiter.forget(key);
    }

    /// How often a key was put back since it was last forgotten.
    pub fn attempts(&self, key: &K) -> u32 {
        self.shared.state.lock().limiter.num_requeues(key)
    }

    /// Takes no more keys and drops the delayed ones. What is ready is still handed out, then [`Queue::next`]
    /// gives `None`. Calling it again changes nothing.
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

    /// Shuts down and waits until the queue is empty: everything ready was handed out and every work has ended.
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

    /// Whether the queue was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shared.state.lock().schedule.is_shut_down()
    }

    /// How many keys wait, for what, and how long the running ones have been running.
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

    fn hand_out(&self, handed: Handed<K>, state: MutexGuard<'_, State<K>>) -> Work<K> {
        // The worker that kept the alarm for delayed keys is busy now: another one has to keep it.
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
    /// What to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The priority the key was handed out with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// How often the key was put back since it last succeeded.
    pub fn attempts(&self) -> u32 {
        self.shared.state.lock().limiter.num_requeues(&self.key)
    }

    /// The work has succeeded: the key's failures are forgotten.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }

    /// The work has failed: the key comes back after a delay that grows with each failure, and is returned.
    pub fn retry(self) -> Duration {
        self.queue().add_rate_limited(self.key.clone(), self.priority)
    }

    /// The work has failed, and the key comes back after this time. It counts as a failure.
    pub fn retry_after(self, after: Duration) -> Duration {
        let priority = self.priority;
        self.shared.state.lock().limiter.when(&self.key, now());
        if let Some(observer) = self.shared.observer.get() {
            observer.retried();
        }
        self.queue().add(self.key.clone(), AddOptions { after, priority });
        after
    }

    /// The work has succeeded, and the key should come back after a while.
    pub fn again_after(mut self, after: Duration) {
        self.succeeded = true;
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
    /// The time, where somebody measures.
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
    /// Reads the clock only when a key is delayed.
    fn promote(&mut self) {
        if self.schedule.next_due().is_some() {
            self.schedule.promote(now());
        }
    }
}

/// A worker that waits. If its future is dropped instead of woken, another worker takes over its alarm.
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
