//! Records which streams were woken, so that a follower of many kinds polls only those.
//!
//! Polling sixty idle watchers for each event of another one cost half of a recorder's CPU time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// Wakes the task of the follower.
#[derive(Debug, Default)]
pub(super) struct Bell(AtomicWaker);

impl Bell {
    /// Registers the task. Must be called before the streams are checked.
    pub(super) fn register(&self, waker: &Waker) {
        self.0.register(waker);
    }
}

/// The waker of one stream.
#[derive(Debug)]
pub(super) struct Woken {
    is_set: AtomicBool,
    bell: Arc<Bell>,
}

impl Woken {
    /// Set: a new stream must be polled.
    pub(super) fn new(bell: &Arc<Bell>) -> Arc<Self> {
        Arc::new(Self {
            is_set: AtomicBool::new(true),
            bell: bell.clone(),
        })
    }

    /// True if the stream was woken since the last call.
    pub(super) fn take(&self) -> bool {
        self.is_set.swap(false, Ordering::AcqRel)
    }

    /// Marks the stream as having more to tell.
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
        self.bell.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stream_is_polled_once_per_wake_and_wakes_the_task() {
        let (bell, wakes) = (Arc::<Bell>::default(), Arc::<Wakes>::default());
        let (one, other) = (Woken::new(&bell), Woken::new(&bell));
        assert!(one.take() && other.take(), "both are new");
        bell.register(&wakes.clone().into());
        Waker::from(one.clone()).wake();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(one.take() && !other.take());
        assert!(!one.take());
    }
}
