//! Time in a test: when it begins, moving it, and waiting until there is nothing left to do.
//!
//! A test cluster has one clock: tokio's. Timers of the server, the store, informers, work queues, leader election and
//! controllers run on it, and the time of day that is written into objects, tokens, leases and schedules
//! [follows it](watchkeeper_clock). A test pauses it with [`TestOptions::paused`], or with `start_paused` of
//! `#[tokio::test]`: then time stands still while anything has work to do, and jumps to the next timer when nothing has.
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
//! Why tokio's paused time and not a clock of our own: a clock of our own has to be handed to every timer, and a test's
//! own code, its HTTP client and the libraries it uses have timers that nobody can hand it to. Tokio's reaches all of
//! them, and only the runtime knows that every task waits, which is when time may move. The price: it needs tokio's
//! runtime of one thread (the default of `#[tokio::test]`), and it does not know of other processes. While a task waits
//! for a socket, time jumps on, and timeouts come early; use the pipe of [`TestCluster::client`], not a port.

use std::time::Duration;

use futures_util::future::BoxFuture;
use watchkeeper_clock::moving;
use watchkeeper_meta::Time;

use crate::TestCluster;
#[cfg(doc)]
use crate::TestOptions;

/// The shortest time that tokio's timers know.
const TICK: Duration = Duration::from_millis(1);

/// How long a look at a server that is busy may be apart from the next.
const LONGEST_STEP: Duration = Duration::from_millis(100);

/// How many looks in a row must show nothing new while time runs, when tasks may be busy out of sight.
const QUIET_LOOKS: usize = 5;

impl TestCluster {
    /// The time of day in this cluster.
    pub fn now(&self) -> Time {
        watchkeeper_clock::now().into()
    }

    /// Lets time pass, at once: every timer on the way rings in its order and at its time, and everything that follows
    /// from it is done before the next. Returns a millisecond later, when what became due last is done as well.
    ///
    /// A clock that is not paused is, for as long as this takes.
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

    /// Waits until nothing is left to do: no request in flight, no event of a watch undelivered, every informer and work
    /// queue drained. What waits for a timer is not counted; [`TestCluster::advance`] is for that.
    ///
    /// In paused time this is exact, because time moves only when every task waits; it takes a millisecond of it, or as
    /// long as a request in flight waits for a timer. While time runs it is a guess, because a task may be busy where
    /// the server does not see it: it returns when the server was quiet for a few milliseconds.
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
