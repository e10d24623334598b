//! Wakes a task unless somebody is doing its work already.
//!
//! A task that is woken while it runs is put into the queue of a thread, and another thread is woken to look at that
//! queue. Where the work takes microseconds, that is most of its time. Whoever does the work silences the [`Bell`]
//! before they look, and may leave when it has not been rung since.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often something that has more to do is polled before other tasks get their turn.
const MAX_ROUNDS: usize = 8;

/// What is rung when there is something to do, as a [`Waker`] that is made of it.
#[derive(Default)]
pub struct Bell {
    task: AtomicWaker,
    state: AtomicU8,
}

/// Nobody is at work: the task is to be woken.
const SET: u8 = 0;
/// Somebody is at work and has seen everything.
const SILENT: u8 = 1;
/// There is something to do.
const RUNG: u8 = 2;

impl Bell {
    /// Does the work of the task: polls again what was rung for meanwhile. `waker` rings this bell.
    pub fn poll<T>(
        &self,
        task: &mut Context<'_>,
        waker: &Waker,
        mut work: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.task.register(task.waker());
        for _ in 0..MAX_ROUNDS {
            self.silence();
            let progress = work(&mut Context::from_waker(waker));
            if progress.is_ready() || self.set() {
                return progress;
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }

    /// Somebody is about to look.
    pub fn silence(&self) {
        self.state.store(SILENT, Ordering::SeqCst);
    }

    /// Whether everything was seen, so that whoever is at work may leave.
    pub fn set(&self) -> bool {
        self.state
            .compare_exchange(SILENT, SET, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Wakes the task, whoever is at work.
    pub fn wake_task(&self) {
        self.task.wake();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(RUNG, Ordering::SeqCst) == SET {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Rings the bell while it is polled for so many times, and once when nobody is at work. Returns how often it was
    /// polled, how often the task was woken meanwhile, and how often in all.
    fn rung(times: usize) -> (usize, usize, usize) {
        let (bell, woken) = (Arc::new(Bell::default()), Arc::new(Woken::default()));
        let (waker, task) = (Waker::from(bell.clone()), Waker::from(woken.clone()));
        let mut polls = 0;
        let progress: Poll<()> = bell.poll(&mut Context::from_waker(&task), &waker, |context| {
            polls += 1;
            if polls <= times {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        assert!(progress.is_pending());
        let meanwhile = woken.0.load(Ordering::SeqCst);
        waker.wake();
        (polls, meanwhile, woken.0.load(Ordering::SeqCst))
    }

    #[test]
    fn who_is_at_work_is_not_woken_and_looks_again() {
        assert_eq!(rung(0), (1, 0, 1));
        assert_eq!(rung(3), (4, 0, 1));
        // The task has been woken to go on later, and is not woken a second time.
        assert_eq!(rung(MAX_ROUNDS), (MAX_ROUNDS, 1, 1));
    }
}
