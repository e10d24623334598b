//! An API server whose history is a recording.
//!
//! ```text
//! recording ─▶ history (changes in the order of versions) ─▶ Replay ─▶ server: lists, watches, writes
//!                                                            └ the rest, played at any speed
//! ```
//!
//! ```no_run
//! use watchkeeper_recording::Recording;
//! use watchkeeper_replay::{LoadOptions, Replay, Speed};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let replay = Replay::load(&Recording::open("incident.rec")?, &LoadOptions::default()).await?;
//! let server = replay.server().listen("127.0.0.1:0".parse()?).start().await?;
//! replay.player().play(server.registry(), Speed::Max).await?;
//! # server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Clients list and watch with the original resourceVersions, uids and times. The server is writable: new writes get
//! later versions. After the first one the cluster has its own history, and the rest of the recording is not played.
//! Missing objects are added: kinds that were not recorded are as in a new cluster, and the namespaces of recorded
//! objects exist. All recorded versions are in memory, packed, up to a
//! [limit](LoadOptions::max_bytes).

mod history;
mod packed_value;
mod play;

use std::collections::BTreeMap;
use std::time::SystemTime;

use watchkeeper_meta::Time;
use watchkeeper_recording::{Moment, Recording, RecordingError, Span};
use watchkeeper_registry::ImportError;
use watchkeeper_server::{Builder, Server, StartError};
use watchkeeper_storage::{ImportedChange, Revision, Snapshot};

use crate::history::History;

pub use play::{Played, PlayedChange, Player, Speed};

/// The error of a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// An object cannot be stored.
    #[error("an object of the recording cannot be replayed")]
    Object(#[from] ImportError),
    /// The server cannot start.
    #[error("the server cannot start")]
    Start(#[from] StartError),
    /// The recorded versions exceed the memory limit.
    #[error(
        "the recorded versions need more than the limit of {} MiB of memory: raise the limit, replay up to an earlier \
         moment, or record fewer kinds", limit >> 20
    )]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// The options of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// The state that the server starts with; the end by default.
    pub at: Moment,
    /// The end of the replay. Later versions are not loaded.
    pub until: Moment,
    /// Upper bound on the recorded versions held in memory, packed, in bytes. 1 GiB by default.
    pub max_bytes: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            at: Moment::End,
            until: Moment::End,
            max_bytes: 1 << 30,
        }
    }
}

/// A recording that can be served from a moment on.
#[derive(Debug)]
pub struct Replay {
    snapshot: Snapshot,
    /// The later changes.
    rest: Vec<ImportedChange>,
    /// The time of the moment.
    time: Time,
    span: Span,
    left_out: BTreeMap<String, usize>,
}

impl Replay {
    /// Reads a recording and prepares a server at a moment.
    pub async fn load(recording: &Recording, options: &LoadOptions) -> Result<Self, ReplayError> {
        let (bare, at) = (bare_cluster().await?, &options.at);
        let mut history = History::read(recording, options)?;
        history.complete(&bare)?;
        history.span.check(at)?;
        let fork = history.revision_at(at);
        let floor = history.span.complete_from.unwrap_or_default().min(fork);
        let time = history.time_of(fork, at);
        let later = history
            .changes
            .partition_point(|change| change.revision.get() <= fork);
        let mut rest = history.changes.split_off(later);
        rest.truncate(count_until(&rest, &options.until));
        Ok(Self {
            snapshot: Snapshot::import(Revision::new(floor), Revision::new(fork), history.changes),
            rest,
            time,
            span: history.span,
            left_out: history.left_out,
        })
    }

    /// A builder for the server.
    pub fn server(&self) -> Builder {
        Server::builder().replay_of(&self.snapshot)
    }

    /// The initial state of the server.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The initial version of the server.
    pub fn revision(&self) -> u64 {
        self.snapshot.revision().get()
    }

    /// The recorded time of the initial state.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The start and the end of the recording.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The kinds that this server does not have, with the number of dropped versions.
    pub fn left_out(&self) -> &BTreeMap<String, usize> {
        &self.left_out
    }

    /// The later changes, to be played into the server.
    pub fn player(self) -> Player {
        Player::new(self.rest, self.time)
    }
}

/// The number of changes up to a moment.
fn count_until(changes: &[ImportedChange], until: &Moment) -> usize {
    match until {
        Moment::End => changes.len(),
        Moment::Revision(revision) => changes.partition_point(|change| change.revision.get() <= *revision),
        Moment::Time(time) => {
            let until = SystemTime::from(*time);
            let later = changes.iter().position(|change| change.written_at > until);
            later.unwrap_or(changes.len())
        }
    }
}

/// The state of a new cluster.
async fn bare_cluster() -> Result<Snapshot, ReplayError> {
    let server = Server::builder().in_memory().start().await?;
    let snapshot = server.registry().store().snapshot();
    server.shutdown().await;
    Ok(snapshot)
}
