//! A cluster whose history is a recording: turns an incident into a test.
//!
//! ```no_run
//! use watchkeeper_testing::TestCluster;
//! use watchkeeper_testing::replay::{Moment, ReplayOptions, Speed};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let before = ReplayOptions {
//!     at: Moment::Time("2026-11-17T12:00:00Z".parse()?),
//!     ..Default::default()
//! };
//! let cluster = TestCluster::replay("tests/incident.rec", before).await?;
//! // A controller that is started now sees the cluster as it was, at that time of day; then the rest happens.
//! cluster.play(Speed::Max).await?;
//! # cluster.stop().await;
//! # Ok(())
//! # }
//! ```

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use watchkeeper_recording::Recording;
use watchkeeper_replay::{LoadOptions, Replay, ReplayError};

use crate::snapshot::Snapshot;
use crate::{TestCluster, TestClusterError};

pub use watchkeeper_recording::Moment;
pub use watchkeeper_replay::{Played, Speed};

/// The options of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The initial state of the cluster; the end of the recording by default.
    pub at: Moment,
    /// The end of the replay.
    pub until: Moment,
    /// Upper bound on the recorded versions held in memory, in bytes. 1 GiB by default.
    pub max_bytes: usize,
    /// Pauses time, as with [`TestOptions::paused`](crate::TestOptions::paused). True by default.
    pub paused: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            at: Moment::End,
            until: Moment::End,
            max_bytes: LoadOptions::default().max_bytes,
            paused: true,
        }
    }
}

impl TestCluster {
    /// Starts a cluster from a recording, with the original versions, uids and times, and with the recorded time of
    /// day. It is writable; its own history starts with the first write.
    pub fn replay(
        path: impl Into<PathBuf>,
        options: ReplayOptions,
    ) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        let path = path.into();
        Box::pin(async move {
            let recording = Recording::open(path).map_err(ReplayError::from)?;
            let load = LoadOptions {
                at: options.at,
                until: options.until,
                max_bytes: options.max_bytes,
            };
            let replay = Replay::load(&recording, &load).await?;
            if options.paused {
                watchkeeper_clock::moving::pause();
            }
            let clock = watchkeeper_clock::set(replay.time().into());
            let server = replay.server().write_log(true).start().await?;
            let beginning = Snapshot(replay.snapshot().clone());
            let mut cluster = Self::around(server, beginning)?;
            cluster.player = tokio::sync::Mutex::new(Some(replay.player()));
            cluster._clock = Some(clock);
            Ok(cluster)
        })
    }

    /// Plays the rest of the recording at a speed. Returns [`Played::Forked`] once the cluster was written to: later
    /// recorded changes did not happen here. Does nothing for a cluster without a recording.
    pub fn play(&self, speed: Speed) -> BoxFuture<'_, Result<Played, TestClusterError>> {
        Box::pin(async move {
            match &mut *self.player.lock().await {
                Some(player) => Ok(player.play(self.server().registry(), speed).await?),
                None => Ok(Played::Ended),
            }
        })
    }

    /// Plays the changes of the next recorded version.
    pub fn play_step(&self) -> BoxFuture<'_, Result<Played, TestClusterError>> {
        Box::pin(async move {
            match &mut *self.player.lock().await {
                Some(player) => Ok(player.step(self.server().registry()).await?),
                None => Ok(Played::Ended),
            }
        })
    }
}
