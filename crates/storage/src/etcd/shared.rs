//! What the parts of a store over etcd share.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::client::Client;
use super::error::CallError;
use super::keys::Keys;
use super::load::Origin;
use crate::Revision;
use crate::state::SharedState;
use crate::transform::Values;

pub(crate) struct Shared {
    pub(crate) client: Client,
    cluster: u64,
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    /// The copy in memory, which only `follow` changes.
    pub(crate) state: SharedState,
    pub(crate) arrivals: Arrivals,
    watched_since: Mutex<Instant>,
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
            failure: Mutex::default(),
        }
    }

    /// The etcd that is followed, as far as it is visible here.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            cluster: self.cluster,
            revision: self.state.mvcc.read().current(),
        }
    }

    /// How far etcd was when this was asked, or later.
    pub(crate) async fn newest_revision(&self) -> Result<Revision, CallError> {
        let known = self.origin();
        known.check(Origin::of(&self.client, &self.keys).await?)
    }

    /// A watch has begun.
    pub(crate) fn note_watch(&self) {
        *self.watched_since.lock() = Instant::now();
    }

    /// How long the last watch has lasted.
    pub(crate) fn watched_for(&self) -> Duration {
        self.watched_since.lock().elapsed()
    }

    /// Ends the store for good.
    pub(crate) fn fail(&self, why: String) {
        *self.failure.lock() = Some(why);
        self.state.note_failure();
        self.state.close();
    }

    /// Why the store has ended by itself.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Forgets what is beyond the limits of what is kept. etcd is not told: it has limits of its own.
    pub(crate) fn drop_excess_history(&self) {
        let excess = self.state.retention.overflow(&self.state.mvcc.read());
        if let Some(revision) = excess {
            self.state.compact(revision);
        }
    }
}
