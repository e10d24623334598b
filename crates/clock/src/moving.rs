//! Moving time in tests. All of this needs a current-thread runtime, and affects everything on it.

use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// The virtual time between two checks of other processes: less than any timeout of a request to one of them. Calls
/// of webhooks have the shortest, ten seconds.
const STEP: Duration = Duration::from_secs(5);

/// The shortest time that tokio's timers know.
const TICK: Duration = Duration::from_millis(1);

/// The real time between two looks at processes that may be about to react.
const LOOK: Duration = Duration::from_millis(1);

/// Other processes are done when they have sent and received nothing for this long, in real time.
const QUIET: Duration = Duration::from_millis(2);

/// A request in flight may wait for another process, or for a timer. After this much real time it is taken to wait for a
/// timer, and time is moved on.
const PATIENCE: Duration = Duration::from_secs(1);

/// True if the time of this runtime can be moved: it has one thread.
pub fn can_be_moved() -> bool {
    let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    matches!(runtime, Ok(RuntimeFlavor::CurrentThread))
}

/// True if time is paused. Tokio does not tell, so this checks whether it moves while the machine's does.
pub fn is_paused() -> bool {
    let (tokio, machine) = (tokio::time::Instant::now(), std::time::Instant::now());
    while machine.elapsed() < Duration::from_micros(1) {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == tokio
}

/// Pauses time: it stands still while any task has work, and jumps to the next timer when all are idle.
///
/// # Panics
///
/// On a runtime of several threads.
pub fn pause() {
    if !is_paused() {
        tokio::time::pause();
    }
}

/// Advances time at once: every timer on the way fires in order and at its time.
///
/// # Panics
///
/// On a runtime of several threads.
pub async fn advance(duration: Duration) {
    let _paused = Paused::begin();
    tokio::time::sleep(duration).await;
}

/// The exchange with other processes, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// Requests that have come and are not answered.
    pub in_flight: usize,
    /// Grows with everything that is received from other processes or sent to them.
    pub seen: u64,
}

/// Like [`advance`], for clusters with other processes, which need real time to react.
///
/// Time jumps from timer to timer, as in [`advance`]. After every five seconds, and only if something was exchanged with
/// other processes in them, it stands still until they have been quiet for two milliseconds of real time. A request in
/// flight is waited for up to one second of real time, so that it does not run into its timeout.
///
/// # Panics
///
/// On a runtime of several threads.
pub async fn advance_with_others(duration: Duration, look: impl Fn() -> Others) {
    let _paused = Paused::begin();
    let mut last = look();
    if last.in_flight > 0 {
        settle(&mut last, &look).await;
    }
    let mut now = Instant::now();
    let end = now + duration;
    while now < end {
        now = end.min(now + STEP);
        tokio::time::sleep_until(now).await;
        if look().in_flight > 0 {
            // Requests from within this process end in a tick, because time moves only when all tasks wait.
            tokio::time::sleep(TICK).await;
        }
        if look() != last {
            settle(&mut last, &look).await;
        }
    }
}

/// Lets real time pass and none of this runtime's, until other processes have reacted.
async fn settle(last: &mut Others, look: &impl Fn() -> Others) {
    let _held = Held::begin();
    let mut since = std::time::Instant::now();
    loop {
        real_pause(LOOK).await;
        let now = look();
        if now != *last {
            *last = now;
            since = std::time::Instant::now();
        }
        let wanted = if now.in_flight > 0 { PATIENCE } else { QUIET };
        if since.elapsed() >= wanted {
            return;
        }
    }
}

/// Waits in real time, independent of this runtime's.
pub async fn real_pause(duration: Duration) {
    // On a thread, because tokio's timers may stand still. It fails only if the runtime is shutting down.
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(duration)).await;
}

/// Stops time, even if all tasks are idle, until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    held: Option<Held>,
    _paused: Paused,
}

impl Frozen {
    /// Stops time.
    ///
    /// # Panics
    ///
    /// On a runtime of several threads.
    pub fn begin() -> Self {
        Self {
            _paused: Paused::begin(),
            held: Some(Held::begin()),
        }
    }

    /// Lets [`advance_with_others`] move time, until [`Frozen::hold`].
    pub fn lift(&mut self) {
        self.held = None;
    }

    /// Stops time again.
    pub fn hold(&mut self) {
        self.held.get_or_insert_with(Held::begin);
    }
}

/// Paused time, until this is dropped.
#[derive(Debug)]
struct Paused {
    was_running: bool,
}

impl Paused {
    fn begin() -> Self {
        let was_running = !is_paused();
        pause();
        Self { was_running }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if self.was_running {
            tokio::time::resume();
        }
    }
}

/// Keeps paused time from jumping to the next timer until this is dropped: tokio waits for blocking tasks, and this
/// is one.
#[derive(Debug)]
struct Held {
    _release: mpsc::Sender<()>,
}

impl Held {
    fn begin() -> Self {
        let (release, released) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        Self { _release: release }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn time_that_runs_is_moved_and_runs_on() {
        let begun = Instant::now();
        advance(HOUR).await;
        assert!(begun.elapsed() >= HOUR);
        assert!(!is_paused());
    }

    #[tokio::test]
    async fn frozen_time_does_not_jump_and_can_be_moved() {
        let mut frozen = Frozen::begin();
        let begun = Instant::now();
        let alarm = tokio::spawn(tokio::time::sleep(HOUR));
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let nobody = || Others {
            in_flight: 0,
            seen: 0,
        };
        frozen.lift();
        advance_with_others(HOUR / 2, nobody).await;
        assert!(!alarm.is_finished());
        advance_with_others(HOUR, nobody).await;
        frozen.hold();
        assert!(alarm.is_finished());
        // Tokio's timers are exact to a millisecond.
        assert_eq!(begun.elapsed().as_secs(), HOUR.as_secs() * 3 / 2);
        drop(frozen);
        assert!(!is_paused());
    }

    #[tokio::test]
    async fn a_request_that_waits_for_another_process_keeps_time_from_moving() {
        let in_flight = Arc::new(AtomicUsize::new(0));
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, answered) = tokio::sync::oneshot::channel();
        let other = std::thread::spawn(move || asked.recv().map(|()| answer.send(())));
        let begun = Instant::now();
        let busy = in_flight.clone();
        let request = tokio::spawn(async move {
            tokio::time::sleep(HOUR).await;
            busy.fetch_add(1, Ordering::Relaxed);
            ask.send(()).unwrap();
            answered.await.unwrap();
            busy.fetch_sub(1, Ordering::Relaxed);
            begun.elapsed()
        });
        let look = || Others {
            in_flight: in_flight.load(Ordering::Relaxed),
            seen: 0,
        };
        advance_with_others(HOUR * 24, look).await;
        let answered_at = request.await.unwrap();
        assert!((HOUR..=HOUR + 2 * STEP).contains(&answered_at), "{answered_at:?}");
        other.join().unwrap().unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn several_threads_share_no_time_that_moves() {
        assert!(!can_be_moved());
    }
}
