//! client-go's work queue, method by method, for code moved from Go.
//!
//! [`WorkQueue`] is client-go's plain, delaying and rate limiting queue in one, with the same names and semantics,
//! including the surprising ones: `done` without `get` queues an item twice, `add` leaves a pending `add_after` in
//! place, `shut_down_with_drain` waits for items being processed but not for queued ones. New code should use
//! [`crate::queue::Queue`], whose guard cannot be forgotten and whose drain means empty.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use watchkeeper_runtime::workqueue::WorkQueue;
//!
//! let queue = WorkQueue::new();
//! queue.add("default/web");
//! queue.add("default/web");
//! let (Some(item), _shutdown) = queue.get().await else { return };
//! queue.add_rate_limited(item); // 5 ms later, once it is done
//! queue.done(&item);
//! assert_eq!((queue.num_requeues(&item), queue.len()), (1, 0));
//! queue.shut_down();
//! assert_eq!(queue.get().await, (None, true));
//! # }
//! ```
//!
//! Intentional differences:
//! - `add_after` never blocks. client-go's blocks when a channel of 1000 is full; there is no channel here.
//! - A delayed item appears when it is due. client-go's may be up to 10 s late, when its loop misses a wake-up.
//! - Two callers of `shut_down_with_drain` both return. client-go wakes only one of them.
//! - `get` on an empty queue waits; Go's runtime ends a program in which all goroutines wait.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{self, now};
use crate::queue::{RateLimiter, default_controller_limiter};

mod waiting;

use waiting::Waiting;

/// client-go's `TypedRateLimitingInterface`: the methods of its three kinds of queue.
pub struct WorkQueue<T> {
    state: Mutex<State<T>>,
    /// Signals an available item, or the shutdown.
    changed: Notify,
    /// Signals that nothing is being processed, or that the drain was cancelled.
    drained: Notify,
}

struct State<T> {
    /// The order of hand-out. Each item should be dirty and not processing.
    queue: VecDeque<T>,
    /// Items that need processing.
    dirty: HashSet<T, RandomState>,
    /// Items handed out and not yet done.
    processing: HashSet<T, RandomState>,
    waiting: Waiting<T>,
    limiter: Box<dyn RateLimiter<T>>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    ShuttingDown,
    Draining,
}

impl<T: Hash + Eq + Clone + Send + 'static> WorkQueue<T> {
    /// A queue with client-go's default limiter for controllers.
    pub fn new() -> Self {
        Self::with_limiter(default_controller_limiter())
    }

    /// A queue whose `add_rate_limited` uses this limiter.
    pub fn with_limiter(limiter: impl RateLimiter<T> + 'static) -> Self {
        let state = State {
            queue: VecDeque::new(),
            dirty: HashSet::default(),
            processing: HashSet::default(),
            waiting: Waiting::default(),
            limiter: Box::new(limiter),
            phase: Phase::Open,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Marks an item as needing processing. Ignored while shutting down, and for an item that is queued already.
    pub fn add(&self, item: T) {
        let mut state = self.state.lock();
        state.fire_due();
        let queued = state.add(item);
        drop(state);
        if queued {
            self.changed.notify_one();
        }
    }

    /// Waits for an item, which must be passed to `done`. `(None, true)` means that the queue is shut down and empty.
    pub async fn get(&self) -> (Option<T>, bool) {
        loop {
            let changed = self.changed.notified();
            let next_due = {
                let mut state = self.state.lock();
                state.fire_due();
                if let Some(item) = state.queue.pop_front() {
                    state.processing.insert(item.clone());
                    state.dirty.remove(&item);
                    // One notification may stand for several items: wake the next waiter too.
                    self.changed.notify_one();
                    return (Some(item), false);
                }
                if state.phase != Phase::Open {
                    self.changed.notify_one();
                    return (None, true);
                }
                state.waiting.next_due()
            };
            match next_due {
                None => changed.await,
                Some(due) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due.into()) => {}
                    }
                }
            }
        }
    }

    /// Ends the processing of an item. If it was added meanwhile it is queued again.
    pub fn done(&self, item: &T) {
        let mut state = self.state.lock();
        state.fire_due();
        state.processing.remove(item);
        if state.dirty.contains(item) {
            state.queue.push_back(item.clone());
            self.changed.notify_one();
        }
        if state.processing.is_empty() {
            self.drained.notify_waiters();
        }
    }

    /// Adds an item after a delay; at once if it is zero. Of two delays the earlier one counts.
    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            state.waiting.insert(item, clock::after(now(), delay));
            // All waiters reset their timers: any of them may be gone when it fires.
            self.changed.notify_waiters();
        }
    }

    /// Adds an item after the limiter's delay, and counts one more requeue.
    pub fn add_rate_limited(&self, item: T) {
        let delay = self.state.lock().limiter.when(&item, now());
        self.add_after(item, delay);
    }

    /// Tells the limiter that an item is no longer retried. Neither removes it from the queue nor replaces `done`.
    pub fn forget(&self, item: &T) {
        self.state.lock().limiter.forget(item);
    }

    /// The number of requeues of an item, by the limiter's count.
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.state.lock().limiter.num_requeues(item)
    }

    /// Ignores new items; queued ones can still be got. Delayed ones are lost. Cancels a drain.
    pub fn shut_down(&self) {
        self.close(Phase::ShuttingDown);
        self.drained.notify_waiters();
    }

    /// Shuts down and waits while items are being processed. Items queued but not handed out are not waited for.
    pub async fn shut_down_with_drain(&self) {
        self.close(Phase::Draining);
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            let waits = {
                let state = self.state.lock();
                !state.processing.is_empty() && state.phase == Phase::Draining
            };
            if !waits {
                return;
            }
            drained.await;
        }
    }

    /// The number of queued items, without those being processed or delayed.
    pub fn len(&self) -> usize {
        let mut state = self.state.lock();
        state.fire_due();
        state.queue.len()
    }

    /// True if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the queue was shut down.
    pub fn shutting_down(&self) -> bool {
        self.state.lock().phase != Phase::Open
    }

    fn close(&self, phase: Phase) {
        let mut state = self.state.lock();
        state.fire_due();
        state.phase = phase;
        state.waiting = Waiting::default();
        drop(state);
        self.changed.notify_waiters();
        self.changed.notify_one();
    }
}

impl<T: Hash + Eq + Clone> State<T> {
    /// Returns true if the item was queued.
    fn add(&mut self, item: T) -> bool {
        if self.phase != Phase::Open || !self.dirty.insert(item.clone()) {
            return false;
        }
        if self.processing.contains(&item) {
            return false;
        }
        self.queue.push_back(item);
        true
    }

    /// Adds the items that are due.
    fn fire_due(&mut self) {
        if self.waiting.next_due().is_none() {
            return;
        }
        let now = now();
        while let Some(item) = self.waiting.pop_due(now) {
            self.add(item);
        }
    }
}

impl<T: Hash + Eq + Clone + Send + 'static> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("WorkQueue")
            .field("queued", &state.queue.len())
            .field("processing", &state.processing.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
