//! Wake-ups that wait until a connection has been read.
//!
//! What is read at once often concerns several who wait, and one of them more than once: the head of an answer, its
//! body, an event. A task that is woken as soon as its first frame is there may take the processor from the one who
//! reads, find half an answer, and sleep again. So those who wait are woken when everything has been read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Holds wake-ups back while somebody reads.
#[derive(Default)]
pub(super) struct Later(Mutex<Held>);

#[derive(Default)]
struct Held {
    is_reading: bool,
    woken: Vec<Arc<Task>>,
}

/// Somebody who waits for a stream of the connection.
pub(super) struct Waiter {
    task: Arc<Task>,
    waker: Waker,
}

struct Task {
    waker: AtomicWaker,
    later: Arc<Later>,
}

impl Later {
    /// Reads; whoever is woken meanwhile is woken afterwards.
    pub(super) fn hold<T>(&self, read: impl FnOnce() -> T) -> T {
        self.lock().is_reading = true;
        // Dropped also if reading panics: nobody is left asleep.
        let _release = Release(self);
        read()
    }

    pub(super) fn waiter(self: &Arc<Self>) -> Waiter {
        let task = Arc::new(Task {
            waker: AtomicWaker::new(),
            later: self.clone(),
        });
        let waker = Waker::from(task.clone());
        Waiter { task, waker }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Release<'l>(&'l Later);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let woken = {
            let mut held = self.0.lock();
            held.is_reading = false;
            std::mem::take(&mut held.woken)
        };
        woken.iter().for_each(|task| task.waker.wake());
    }
}

impl Waiter {
    /// Polls something of the connection for the task of this context.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.task.waker.register(context.waker());
        poll(&mut Context::from_waker(&self.waker))
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut held = self.later.lock();
        if held.is_reading {
            held.woken.push(self.clone());
            return;
        }
        drop(held);
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_waits_is_woken_once_everything_has_been_read() {
        let (later, woken) = (Arc::<Later>::default(), Arc::<Woken>::default());
        let count = || woken.0.load(Ordering::Relaxed);
        let waiter = later.waiter();
        let frame_waker = |waiter: &Waiter| {
            let mut waker = None;
            let task = Waker::from(woken.clone());
            let _: Poll<()> = waiter.poll(&mut Context::from_waker(&task), |context| {
                waker = Some(context.waker().clone());
                Poll::Pending
            });
            waker.unwrap()
        };
        let head = frame_waker(&waiter);
        later.hold(|| {
            head.wake_by_ref();
            assert_eq!(count(), 0);
        });
        assert_eq!(count(), 1);
        frame_waker(&waiter).wake();
        assert_eq!(count(), 2, "nobody reads");
    }

    #[test]
    fn nobody_is_left_asleep_by_a_panic() {
        let (later, woken) = (Arc::<Later>::default(), Arc::<Woken>::default());
        let waiter = later.waiter();
        let task = Waker::from(woken.clone());
        let reading = std::panic::AssertUnwindSafe(|| {
            later.hold(|| {
                let _: Poll<()> = waiter.poll(&mut Context::from_waker(&task), |context| {
                    context.waker().wake_by_ref();
                    panic!("a frame that cannot be read")
                });
            })
        });
        assert!(std::panic::catch_unwind(reading).is_err());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
