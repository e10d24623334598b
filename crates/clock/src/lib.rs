//! The wall clock, for timestamps and schedules, tied to tokio's clock.
//!
//! Timers, backoffs and deadlines use tokio's clock, which a test can pause and move. Timestamps, tokens and
//! schedules need the time of day, which only the machine knows. The two must not drift apart: after ten minutes of
//! paused time, a token of five minutes has expired. The wall clock here is therefore tokio's clock plus a constant:
//!
//! ```text
//! tokio's clock       5.0 s ── 6.0 s ──────── 606.0 s        paused, then moved by ten minutes
//! + the constant      13:59:55
//! = the wall clock    14:00:00 ── 14:00:01 ── 14:10:01
//! ```
//!
//! The constant is the machine's: the time of day at which its monotonic clock was zero. It changes when the system
//! clock is set or the machine has slept, and the wall clock follows. In between it is kept, so that paused time
//! stands still to the nanosecond. A test can choose another constant for its runtime with [`set`].
//!
//! ```
//! use std::time::{Duration, SystemTime};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let midnight = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
//! let _setting = watchkeeper_clock::set(midnight);
//! tokio::time::advance(Duration::from_secs(600)).await;
//! assert_eq!(watchkeeper_clock::now(), midnight + Duration::from_secs(600));
//! # }
//! ```
//!
//! There is no trait and nothing to pass along. Waiting code uses tokio's timers, code that needs the time of day
//! calls [`now`], and both agree because they run on the same runtime. A clock of our own would have to be passed to
//! every timer of every library a test uses.

#[cfg(any(test, feature = "test-util"))]
pub mod moving;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::RwLock;
use tokio::runtime::{Handle, Id};

/// The drift of the machine's two clocks that is tolerated before the wall clock follows. Reading them one after the
/// other takes less, and smaller corrections do not matter to timestamps in whole seconds.
const TOLERANCE: Duration = Duration::from_millis(500);

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    tokio: Instant,
    wall: SystemTime,
}

/// The machine's constant, measured on first use and when it has changed.
static MACHINE: RwLock<Option<Anchor>> = RwLock::new(None);

/// The constants of runtimes that have their own.
static RUNTIMES: RwLock<Vec<(Id, Anchor)>> = RwLock::new(Vec::new());

/// Their number: outside of tests there are none, and the list is not read.
static SET: AtomicUsize = AtomicUsize::new(0);

impl Anchor {
    /// The wall clock at a time of tokio's clock.
    fn wall_at(self, tokio: Instant) -> SystemTime {
        match tokio.checked_duration_since(self.tokio) {
            Some(after) => self.wall + after,
            None => self.wall - self.tokio.duration_since(tokio),
        }
    }
}

/// The time of day: the machine's, shifted as far as tokio's clock was moved; or as [`set`].
pub fn now() -> SystemTime {
    let tokio = tokio::time::Instant::now().into_std();
    let anchor = match SET.load(Ordering::Acquire) {
        0 => None,
        _ => of_this_runtime(),
    };
    anchor.unwrap_or_else(of_the_machine).wall_at(tokio)
}

/// Sets the clock of the current runtime to `now` until the setting is dropped. Other runtimes are not affected.
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn set(now: SystemTime) -> Setting {
    let runtime = Handle::current().id();
    let tokio = tokio::time::Instant::now().into_std();
    RUNTIMES.write().push((runtime, Anchor { tokio, wall: now }));
    SET.fetch_add(1, Ordering::Release);
    Setting { runtime, tokio }
}

/// A wall clock that was [set].
#[derive(Debug)]
#[must_use = "the clock is the machine's again when this is dropped"]
pub struct Setting {
    runtime: Id,
    tokio: Instant,
}

impl Drop for Setting {
    fn drop(&mut self) {
        let mut runtimes = RUNTIMES.write();
        let mine = |(runtime, anchor): &(Id, Anchor)| *runtime == self.runtime && anchor.tokio == self.tokio;
        if let Some(index) = runtimes.iter().rposition(mine) {
            runtimes.remove(index);
            SET.fetch_sub(1, Ordering::Release);
        }
    }
}

/// The latest setting of the current runtime.
fn of_this_runtime() -> Option<Anchor> {
    let runtime = Handle::try_current().ok()?.id();
    let runtimes = RUNTIMES.read();
    let found = runtimes.iter().rfind(|(set, _)| *set == runtime);
    found.map(|(_, anchor)| *anchor)
}

fn of_the_machine() -> Anchor {
    let measured = Anchor {
        tokio: Instant::now(),
        wall: SystemTime::now(),
    };
    follow(&MACHINE, measured)
}

/// The constant in use, replaced if the machine's has changed.
fn follow(known: &RwLock<Option<Anchor>>, measured: Anchor) -> Anchor {
    if let Some(known) = *known.read()
        && is_close(known.wall_at(measured.tokio), measured.wall)
    {
        return known;
    }
    *known.write() = Some(measured);
    measured
}

fn is_close(one: SystemTime, other: SystemTime) -> bool {
    let apart = one
        .duration_since(other)
        .unwrap_or_else(|earlier| earlier.duration());
    apart <= TOLERANCE
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn paused_time_stands_still_and_moves_with_tokios() {
        let start = now();
        std::thread::yield_now();
        assert_eq!(now(), start);
        tokio::time::advance(HOUR).await;
        assert_eq!(now(), start + HOUR);
    }

    #[test]
    fn the_machines_time_is_shown_outside_a_runtime() {
        assert!(is_close(now(), SystemTime::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_can_have_a_time_of_its_own() {
        let before = now();
        let setting = set(UNIX_EPOCH + HOUR);
        tokio::time::advance(HOUR).await;
        assert_eq!(now(), UNIX_EPOCH + 2 * HOUR);
        let elsewhere = std::thread::spawn(now).join().unwrap();
        assert!(is_close(elsewhere, SystemTime::now()));
        drop(setting);
        assert_eq!(now(), before + HOUR);
    }

    /// The wall clock, and the machine's clocks at these offsets from the start: monotonic, wall.
    fn followed(readings: &[(Duration, Duration)]) -> Vec<Duration> {
        let (tokio, start) = (Instant::now(), UNIX_EPOCH + 1000 * HOUR);
        let known = RwLock::new(None);
        let shown = |(monotonic, wall): &(Duration, Duration)| {
            let measured = Anchor {
                tokio: tokio + *monotonic,
                wall: start + *wall,
            };
            let now = follow(&known, measured).wall_at(measured.tokio);
            now.duration_since(start).unwrap()
        };
        readings.iter().map(shown).collect()
    }

    #[test]
    fn a_step_of_the_system_clock_is_followed_in_both_directions() {
        let second = Duration::from_secs(1);
        // Set forward by an hour, then back by two, then forward by one: each is seen at the next reading.
        let readings = [
            (second, 2 * HOUR + second),
            (2 * second, 3 * HOUR + 2 * second),
            (3 * second, HOUR + 3 * second),
            (4 * second, 2 * HOUR + 4 * second),
        ];
        assert_eq!(followed(&readings), readings.map(|(_, wall)| wall));
    }

    #[test]
    fn a_machine_that_has_slept_is_followed() {
        // The monotonic clock stands still while it sleeps.
        let second = Duration::from_secs(1);
        assert_eq!(
            followed(&[(second, second), (2 * second, 8 * HOUR)]),
            [second, 8 * HOUR]
        );
    }

    #[test]
    fn small_corrections_do_not_make_the_wall_clock_jump() {
        let second = Duration::from_secs(1);
        let readings = [
            (Duration::ZERO, second),
            (second, 2 * second + TOLERANCE),
            (2 * second, 3 * second - TOLERANCE),
        ];
        assert_eq!(followed(&readings), [second, 2 * second, 3 * second]);
    }

    /// A step is the same for code that asks for the time as another setting of the runtime's clock.
    #[tokio::test(start_paused = true)]
    async fn the_latest_setting_counts() {
        let _start = set(UNIX_EPOCH + 5 * HOUR);
        let forward = set(UNIX_EPOCH + 9 * HOUR);
        assert_eq!(now(), UNIX_EPOCH + 9 * HOUR);
        drop(forward);
        assert_eq!(now(), UNIX_EPOCH + 5 * HOUR);
    }
}
