//! Polls a future again if it is woken while it is polled, without waking its task.
//!
//! A task that is woken while it runs is queued on its thread, and tokio wakes another thread to look at that queue.
//! If the work takes microseconds, that is most of its time. The response to a request, or capacity for a frame of a
//! watch, wakes the connection's task while it runs.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// The limit on consecutive polls of a future that keeps being woken, before other tasks run.
const MAX_ROUNDS: usize = 8;

/// Drives a future to its end; wake-ups during a poll make it poll again.
pub(super) async fn poll_again_when_woken<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    poll_fn(|task| bell.poll(task, &waker, |context| future.as_mut().poll(context))).await
}

/// The waker that a future is polled with.
#[derive(Default)]
struct Bell {
    task: AtomicWaker,
    state: AtomicU8,
}

/// The future is not being polled: a wake-up wakes the task.
const IDLE: u8 = 0;
/// The future is being polled and was not woken.
const POLLING: u8 = 1;
/// The future was woken.
const WOKEN: u8 = 2;

impl Bell {
    /// Polls until the future is ready, or was not woken during the last poll. `waker` is made of this bell.
    fn poll<T>(
        &self,
        task: &mut Context<'_>,
        waker: &Waker,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.task.register(task.waker());
        for _ in 0..MAX_ROUNDS {
            self.state.store(POLLING, Ordering::SeqCst);
            let progress = poll(&mut Context::from_waker(waker));
            if progress.is_ready() || self.became_idle() {
                return progress;
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends polling, unless the future was woken meanwhile.
    fn became_idle(&self) -> bool {
        self.state
            .compare_exchange(POLLING, IDLE, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == IDLE {
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

    /// A future that is woken during this many polls, and once afterwards. Returns the number of polls, of wake-ups
    /// of the task meanwhile, and of all wake-ups.
    fn woken(times: usize) -> (usize, usize, usize) {
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
    fn a_wake_up_during_a_poll_repeats_the_poll_without_waking_the_task() {
        assert_eq!(woken(0), (1, 0, 1));
        assert_eq!(woken(3), (4, 0, 1));
        // The task was woken once, to continue after others.
        assert_eq!(woken(MAX_ROUNDS), (MAX_ROUNDS, 1, 1));
    }
}
