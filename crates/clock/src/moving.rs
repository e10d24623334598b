//! Moving time in tests. All of this needs tokio's runtime of one thread, and holds for everything that runs on it.

use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// How much time passes at once while other processes take part: less than any of them may take for an answer.
const STEP: Duration = Duration::from_secs(10);

/// How long others may really take after each step.
const REAL_PAUSE: Duration = Duration::from_millis(1);

/// Whether the time of this runtime can be moved: it has one thread.
pub fn can_be_moved() -> bool {
    let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    matches!(runtime, Ok(RuntimeFlavor::CurrentThread))
}

/// Whether time stands still. Tokio does not say, so this looks whether it moves while the machine's does.
pub fn is_paused() -> bool {
    let (tokio, machine) = (tokio::time::Instant::now(), std::time::Instant::now());
    while machine.elapsed() < Duration::from_micros(1) {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == tokio
}

/// Pauses time: it stands still while any task has work to do, and jumps to the next timer when all wait.
///
/// # Panics
///
/// On a runtime of several threads.
pub fn pause() {
    if !is_paused() {
        tokio::time::pause();
    }
}

/// Lets time pass, at once: every timer on the way rings in its order and at its time.
///
/// # Panics
///
/// On a runtime of several threads.
pub async fn advance(duration: Duration) {
    let _paused = Paused::begin();
    tokio::time::sleep(duration).await;
}

/// The same where other processes take part, which need real time to answer: in steps of ten seconds, with a moment of
/// real time after each.
///
/// # Panics
///
/// On a runtime of several threads.
pub async fn advance_with_others(duration: Duration) {
    let _paused = Paused::begin();
    let _held = Held::begin();
    let mut left = duration;
    while !left.is_zero() {
        let step = left.min(STEP);
        left -= step;
        tokio::time::advance(step).await;
        real_pause(REAL_PAUSE).await;
    }
}

/// Lets real time pass, whatever becomes of this runtime's.
pub async fn real_pause(duration: Duration) {
    // On a thread, because tokio's timers may stand still. It fails only if the runtime is going down.
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(duration)).await;
}

/// Time that stands still, whoever waits, until this is dropped: then it runs.
#[derive(Debug)]
pub struct Frozen {
    _held: Held,
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
            _held: Held::begin(),
        }
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

/// Keeps paused time from jumping to the next timer, until this is dropped: tokio waits for blocking work, and this is
/// some.
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
    use super::*;
    use tokio::time::Instant;

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
        let frozen = Frozen::begin();
        let begun = Instant::now();
        let alarm = tokio::spawn(tokio::time::sleep(HOUR));
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        advance_with_others(HOUR / 2).await;
        assert!(!alarm.is_finished());
        advance_with_others(HOUR).await;
        assert!(alarm.is_finished());
        assert_eq!(begun.elapsed(), HOUR * 3 / 2);
        drop(frozen);
        assert!(!is_paused());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn several_threads_share_no_time_that_moves() {
        assert!(!can_be_moved());
    }
}
