//! Time in a test: setting it, moving it, and waiting until nothing is left to do.
//!
//! A test cluster has one clock: tokio's. Timers of the server, the store, informers, work queues, leader election
//! and controllers use it, and the time of day in objects, tokens, leases and schedules [follows
//! it](watchkeeper_clock). A test pauses it with [`TestOptions::paused`], or with `start_paused` of `#[tokio::test]`:
//! time then stands still while any task has work, and jumps to the next timer when all are idle.
//!
//! ```
//! use std::time::Duration;
//! use watchkeeper_testing::{TestCluster, TestOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = TestCluster::start_with(TestOptions {
//!     start_time: Some("2030-01-01T00:00:00Z".parse()?),
//!     paused: true,
//!     ..Default::default()
//! })
//! .await?;
//! cluster.load("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n").await?;
//! cluster.advance(Duration::from_secs(24 * 3600)).await;
//! assert_eq!(cluster.now().to_rfc3339(), "2030-01-02T00:00:00Z");
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Tokio's paused time is used instead of a clock of our own because it reaches every timer: those of the test's own
//! code, its HTTP client and its libraries cannot be given another clock. And only the runtime knows when every task
//! is idle and time may move. There are two restrictions: it needs a current-thread runtime (the default of
//! `#[tokio::test]`), and it does not know of other processes. While a task waits for a socket, time jumps ahead and
//! timeouts fire early; use [`TestCluster::client`], not a port.

use std::time::Duration;

use futures_util::future::BoxFuture;
use watchkeeper_clock::moving;
use watchkeeper_meta::Time;

use crate::TestCluster;
#[cfg(doc)]
use crate::TestOptions;

/// The resolution of tokio's timers.
const TICK: Duration = Duration::from_millis(1);

/// The longest interval between two checks of a busy server.
const LONGEST_STEP: Duration = Duration::from_millis(100);

/// The number of consecutive checks without a change that count as idle while time runs, because tasks may be busy
/// unseen.
const QUIET_LOOKS: usize = 5;

impl TestCluster {
    /// The time of day in this cluster.
    pub fn now(&self) -> Time {
        watchkeeper_clock::now().into()
    }

    /// Advances time at once: every timer on the way fires in order and at its time, and its consequences are
    /// completed before the next. Returns a millisecond later, when the last of them are completed as well.
    ///
    /// A clock that is not paused is paused meanwhile.
    ///
    /// # Panics
    ///
    /// On a runtime of several threads, whose time cannot be moved.
    pub fn advance(&self, duration: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            moving::advance(duration).await;
            self.run_until_idle().await;
        })
    }

    /// Waits until nothing is left to do: no request in flight, no undelivered watch event, every informer and work
    /// queue drained. Pending timers do not count; use [`TestCluster::advance`] for those.
    ///
    /// In paused time this is exact, because time moves only when every task is idle; it takes a millisecond of it,
    /// or as long as a request in flight waits for a timer. While time runs it is a heuristic, because a task may be
    /// busy unseen by the server: it returns when the server was quiet for a few milliseconds.
    pub fn run_until_idle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let wanted = if moving::is_paused() { 1 } else { QUIET_LOOKS };
            let (mut step, mut quiet) = (TICK, 0);
            while quiet < wanted {
                let before = self.server().activity();
                tokio::time::sleep(step).await;
                let after = self.server().activity();
                match after == before && after.in_flight == 0 {
                    true => quiet += 1,
                    false => quiet = 0,
                }
                if after.in_flight > 0 {
                    step = (2 * step).min(LONGEST_STEP);
                }
            }
        })
    }
}
