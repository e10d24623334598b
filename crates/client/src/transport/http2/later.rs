//! Wake-ups that wait until a connection has been read.
//!
//! What is read at once often concerns several who wait, and one of them more than once: the head of an answer, its
//! body, an event. A task that is woken as soon as its first frame is there may take the processor from the one who
//! reads, find half an answer, and sleep again. So those who wait are woken when everything has been read.
//!
//! Two of them are the common case, a write that is answered and the watch that has its event, and often the second
//! wakes the first anyway. To wake two tasks is to wake a thread as well, which takes longer than what they have to do.
//! So the second is woken, and the first when the thread has nothing else to do, unless it has looked by then. More
//! than two are worth another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Holds wake-ups back while somebody reads.
#[derive(Default)]
pub(super) struct Later(Mutex<Held>);

#[derive(Default)]
struct Held {
    is_reading: bool,
    /// Who has been woken while somebody read, in this order, each once.
    woken: Vec<Arc<Task>>,
    /// Who is to be woken when the thread has nothing else to do.
    left: Option<Arc<Task>>,
}

/// Somebody who waits for a stream of the connection.
pub(super) struct Waiter {
    task: Arc<Task>,
    waker: Waker,
}

struct Task {
    waker: AtomicWaker,
    /// Whether it is to be woken, and has not looked since that was decided.
    is_due: AtomicBool,
    later: Arc<Later>,
}

impl Later {
    /// Reads; whoever is woken meanwhile is woken afterwards. Returns whether somebody is left to be woken by
    /// [`Later::wake_left`], for which the one who reads has to come again.
    pub(super) fn hold<T>(&self, read: impl FnOnce() -> Poll<T>) -> (Poll<T>, bool) {
        self.lock().is_reading = true;
        // Dropped also if reading panics: nobody is left asleep.
        let release = Release(self);
        let progress = read();
        let leaves = progress.is_pending() && self.leave_first();
        drop(release);
        (progress, leaves)
    }

    /// Wakes who was left, unless they have looked since.
    pub(super) fn wake_left(&self) {
        let left = self.lock().left.take();
        left.iter().for_each(|task| task.wake_if_due());
    }

    /// Leaves the first of two for later.
    fn leave_first(&self) -> bool {
        let mut held = self.lock();
        if held.woken.len() == 2 {
            let first = held.woken.swap_remove(0);
            held.left = Some(first);
        }
        held.left.is_some()
    }

    pub(super) fn waiter(self: &Arc<Self>) -> Waiter {
        let task = Arc::new(Task {
            waker: AtomicWaker::new(),
            is_due: AtomicBool::new(false),
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
        woken.iter().for_each(|task| task.wake_if_due());
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
        // Before it looks: what comes afterwards makes it due again.
        self.task.is_due.store(false, Ordering::SeqCst);
        poll(&mut Context::from_waker(&self.waker))
    }
}

impl Task {
    fn wake_if_due(&self) {
        if self.is_due.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut held = self.later.lock();
        if held.is_reading {
            if !self.is_due.swap(true, Ordering::SeqCst) {
                held.woken.push(self.clone());
            }
            return;
        }
        drop(held);
        self.waker.wake();
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
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Somebody whose wake-ups are counted.
    struct Sleeper {
        woken: Arc<Woken>,
        waiter: Waiter,
    }

    impl Sleeper {
        fn new(later: &Arc<Later>) -> Self {
            let waiter = later.waiter();
            let woken = Arc::default();
            Self { woken, waiter }
        }

        /// Looks, and waits; returns what wakes it when a frame is there.
        fn look(&self) -> Waker {
            let (task, mut waker) = (Waker::from(self.woken.clone()), None);
            let _: Poll<()> = self.waiter.poll(&mut Context::from_waker(&task), |context| {
                waker = Some(context.waker().clone());
                Poll::Pending
            });
            waker.unwrap()
        }

        fn count(&self) -> usize {
            self.woken.0.load(Ordering::Relaxed)
        }
    }

    /// So many who wait and are woken by what is read at once, each twice; how often each has been woken when it was
    /// read and, when `left` has been done as well, after that.
    fn read(sleepers: usize, progress: Poll<()>, left: impl Fn(&[Sleeper])) -> (Vec<usize>, Vec<usize>) {
        let later = Arc::<Later>::default();
        let sleepers: Vec<Sleeper> = (0..sleepers).map(|_| Sleeper::new(&later)).collect();
        let wakers: Vec<Waker> = sleepers.iter().map(Sleeper::look).collect();
        let counts = || sleepers.iter().map(Sleeper::count).collect::<Vec<_>>();
        let (_, leaves) = later.hold(|| {
            wakers.iter().chain(&wakers).for_each(Waker::wake_by_ref);
            assert_eq!(counts().iter().sum::<usize>(), 0);
            progress
        });
        let at_once = counts();
        assert_eq!(leaves, at_once.contains(&0));
        left(&sleepers);
        later.wake_left();
        (at_once, counts())
    }

    #[test]
    fn whoever_waits_is_woken_once_everything_has_been_read() {
        let nothing = |_: &[Sleeper]| {};
        assert_eq!(read(1, Poll::Pending, nothing), (vec![1], vec![1]));
        assert_eq!(read(3, Poll::Pending, nothing), (vec![1; 3], vec![1; 3]));
    }

    #[test]
    fn the_first_of_two_is_woken_later_unless_it_has_looked() {
        assert_eq!(read(2, Poll::Pending, |_| {}), (vec![0, 1], vec![1, 1]));
        let looks = |sleepers: &[Sleeper]| drop(sleepers[0].look());
        assert_eq!(read(2, Poll::Pending, looks), (vec![0, 1], vec![0, 1]));
    }

    #[test]
    fn nobody_is_left_when_the_connection_has_ended() {
        assert_eq!(read(2, Poll::Ready(()), |_| {}), (vec![1, 1], vec![1, 1]));
    }

    #[test]
    fn whoever_is_woken_while_nobody_reads_is_woken_at_once() {
        let later = Arc::<Later>::default();
        let sleeper = Sleeper::new(&later);
        sleeper.look().wake();
        assert_eq!(sleeper.count(), 1);
    }

    #[test]
    fn nobody_is_left_asleep_by_a_panic() {
        let later = Arc::<Later>::default();
        let sleepers = [Sleeper::new(&later), Sleeper::new(&later)];
        let wakers = sleepers.each_ref().map(Sleeper::look);
        let reading = std::panic::AssertUnwindSafe(|| {
            later.hold(|| -> Poll<()> {
                wakers.iter().for_each(Waker::wake_by_ref);
                panic!("a frame that cannot be read")
            })
        });
        assert!(std::panic::catch_unwind(reading).is_err());
        assert_eq!(sleepers.map(|sleeper| sleeper.count()), [1, 1]);
    }
}
