//! State shared by the tasks of a store over etcd.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::client::Client;
use super::error::CallError;
use super::grpc::Further;
use super::keys::Keys;
use super::load::Origin;
use super::messages::{WatchProgressRequest, WatchRequest};
use crate::Revision;
use crate::state::SharedState;
use crate::transform::Values;

pub(crate) struct Shared {
    pub(crate) client: Client,
    cluster: u64,
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    /// The copy in memory. Only `follow` changes it.
    pub(crate) state: SharedState,
    pub(crate) arrivals: Arrivals,
    watched_since: Mutex<Instant>,
    /// Asks for the progress of the current watch, if etcd answers that reliably.
    progress: Mutex<Option<Further>>,
    failure: Mutex<Option<String>>,
}

impl Shared {
    pub(crate) fn new(
        client: Client,
        origin: Origin,
        keys: Keys,
        values: Values,
        state: SharedState,
    ) -> Self {
        Self {
            client,
            cluster: origin.cluster,
            keys,
            values,
            state,
            arrivals: Arrivals::default(),
            watched_since: Mutex::new(Instant::now()),
            progress: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// The etcd that is followed, at the visible revision.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            cluster: self.cluster,
            revision: self.state.mvcc.read().current(),
        }
    }

    /// A revision of etcd that is at least that at the time of the call.
    pub(crate) async fn newest_revision(&self) -> Result<Revision, CallError> {
        let known = self.origin();
        known.check(Origin::of(&self.client, &self.keys).await?)
    }

    /// Records that a watch has started, and its requests for progress if they are reliable.
    pub(crate) fn note_watch(&self, progress: Option<Further>) {
        *self.watched_since.lock() = Instant::now();
        *self.progress.lock() = progress;
    }

    /// Asks up to which revision the watch has delivered everything; false if etcd does not answer that reliably. The
    /// answer is a progress notification, unless the watch is still catching up.
    pub(crate) fn ask_for_progress(&self) -> bool {
        let request = WatchRequest {
            progress: Some(WatchProgressRequest {}),
            ..Default::default()
        };
        let progress = self.progress.lock();
        progress.as_ref().is_some_and(|progress| progress.send(&request))
    }

    /// The age of the current watch.
    pub(crate) fn watched_for(&self) -> Duration {
        self.watched_since.lock().elapsed()
    }

    /// Closes the store for good.
    pub(crate) fn fail(&self, why: String) {
        *self.failure.lock() = Some(why);
        self.state.note_failure();
        self.state.close();
    }

    /// The reason the store closed itself.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Drops history beyond the retention from memory. etcd has its own limits.
    pub(crate) fn drop_excess_history(&self) {
        let excess = self.state.retention.overflow(&self.state.mvcc.read());
        if let Some(revision) = excess {
            self.state.compact(revision);
        }
    }
}
