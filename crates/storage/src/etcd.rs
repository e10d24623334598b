//! A store over etcd, shared by several servers: etcd has the keys, and each server has a copy of them in memory.
//!
//! ```text
//! write ─▶ transaction: compare the key's revision, replace it ─▶ etcd ─▶ watch ─▶ MVCC core ─▶ feeds, and the answer
//! get, range of the latest ─▶ ask etcd for its revision ─▶ wait for the core ─▶ MVCC core
//! get, range of a revision ───────────────────────────────────────────────────▶ MVCC core
//! ```
//!
//! The core is that of the other engines, so reads of past revisions, feeds and history are as fast and as exact. It is
//! fed by a single watch of all keys and never by its own writes: a server shows what etcd sent, in etcd's order, under
//! etcd's revisions. Those have gaps, since etcd counts the writes of all its users.
//!
//! Not supported: several keys in one transaction, etcd's users and passwords (servers authenticate by certificate),
//! the discovery of members, and `RangeStream` of etcd 3.7. A store lists all keys in pages, when it opens and when its
//! watch has lost history. No read of a client is a range of etcd, so a stream would save the memory of one page.

mod arrivals;
mod client;
mod compaction;
mod error;
mod follow;
mod fresh;
mod grpc;
mod keys;
mod load;
mod messages;
mod options;
#[cfg(test)]
#[path = "../tests/support/etcd.rs"]
mod real_etcd;
mod shared;
mod tls;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use client::{CALL_TIMEOUT, Client};
use fresh::Freshness;
use keys::Keys;
use load::Origin;
pub use options::EtcdOptions;
use shared::Shared;
use write::Write;

use crate::clock::Clock;
use crate::group_commit::Answer;
use crate::state::{SharedState, State};
use crate::transaction::Command;
use crate::transform::Values;
use crate::{EngineError, OpenError, ReadError, Retention, Revision, WriteError};

/// The largest number of writes in flight. Further ones wait; none is refused.
const MAX_WRITES: u32 = 512;

/// The etcd backend of a store.
pub(crate) struct Etcd {
    shared: Arc<Shared>,
    freshness: Arc<Freshness>,
    places: Semaphore,
    is_refusing: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Etcd {
    /// Reads everything and starts the watch. When it returns, every write that was acknowledged before the call is
    /// visible.
    pub(crate) async fn open(
        options: EtcdOptions,
        retention: Retention,
        values: Values,
    ) -> Result<(SharedState, Self), OpenError> {
        let (keys, interval) = (Keys::of(&options), options.compaction_interval);
        let client = Client::new(options)?;
        let origin = Origin::of(&client, &keys).await.map_err(OpenError::etcd)?;
        let mvcc = load::load(&client, &keys, &values, origin, retention.revisions)
            .await
            .map_err(OpenError::etcd)?;
        let state = Arc::new(State::new(mvcc, Clock::start(), retention));
        let shared = Arc::new(Shared::new(client, origin, keys, values, state.clone()));
        let freshness = Arc::new(Freshness::default());
        let mut tasks = vec![
            tokio::spawn(follow::run(shared.clone())),
            tokio::spawn(compaction::drop_old_history(shared.clone())),
        ];
        if !interval.is_zero() {
            let compaction = compaction::compact_etcd(shared.clone(), freshness.clone(), interval);
            tasks.push(tokio::spawn(compaction));
        }
        let etcd = Self {
            shared,
            freshness,
            places: Semaphore::new(MAX_WRITES as usize),
            is_refusing: AtomicBool::new(false),
            tasks: Mutex::new(tasks),
        };
        let current = || state.mvcc.read().current();
        let caught_up = first_refresh(current, || etcd.refresh());
        caught_up.await.map_err(OpenError::etcd)?;
        Ok((state, etcd))
    }

    /// Runs a command. If the future is dropped, the command may still run.
    pub(crate) async fn submit(&self, command: Command) -> Answer {
        let _place = self.places.acquire().await.map_err(|_| self.ended())?;
        if self.is_refusing.load(Ordering::Acquire) || self.shared.state.open().is_err() {
            return Err(self.ended());
        }
        if let Command::Compact { revision } = command {
            return compaction::compact_now(&self.shared, revision).await;
        }
        match Write::of(command) {
            Some(write) => write.run(&self.shared, &self.freshness).await,
            None => Err(WriteError::Closed),
        }
    }

    /// Waits until every write that anyone acknowledged before the call is visible.
    pub(crate) async fn refresh(&self) -> Result<(), ReadError> {
        self.freshness.refresh(&self.shared).await
    }

    /// Refuses new commands; those in flight still run.
    pub(crate) fn refuse(&self) {
        self.is_refusing.store(true, Ordering::Release);
    }

    /// Waits until every command in flight is done, unless etcd does not answer. Call `refuse` first.
    pub(crate) async fn finish(&self) {
        let all = self.places.acquire_many(MAX_WRITES);
        let _ = timeout(CALL_TIMEOUT, all).await;
        self.stop();
    }

    /// Stops the watch.
    fn stop(&self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }

    fn ended(&self) -> WriteError {
        match self.shared.failure() {
            Some(why) => WriteError::Engine(EngineError::new(why)),
            None => WriteError::Closed,
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The first refresh. A long history may take longer to arrive than a reader should wait, so this waits as long as
/// there is progress.
async fn first_refresh<R: Future<Output = Result<(), ReadError>>>(
    current: impl Fn() -> Revision,
    refresh: impl Fn() -> R,
) -> Result<(), ReadError> {
    loop {
        let before = current();
        match refresh().await {
            Err(ReadError::Unavailable { .. }) if current() > before => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::error::CallError;
    use super::*;
    use crate::mvcc::Mvcc;

    /// The watch will notice in the end. Until then, no answer of another etcd may be used.
    #[tokio::test]
    async fn answers_of_another_etcd_are_rejected() {
        let Some(other) = real_etcd::Etcd::start() else {
            return;
        };
        let options = EtcdOptions::at([other.url()]);
        let (keys, client) = (Keys::of(&options), Client::new(options).unwrap());
        let found = Origin::of(&client, &keys).await.unwrap();
        let cluster = found.cluster + 1;
        let known = Origin { cluster, ..found };
        let loaded = load::load(&client, &keys, &Values::Plain, known, 0).await;
        assert!(matches!(loaded, Err(CallError::OtherEtcd { .. })), "{loaded:?}");

        let state = State::new(Mvcc::new(), Clock::start(), Retention::default());
        let shared = Arc::new(Shared::new(client, known, keys, Values::Plain, Arc::new(state)));
        let freshness = Arc::new(Freshness::default());
        let read = freshness.refresh(&shared).await;
        assert!(matches!(read, Err(ReadError::Unavailable { .. })), "{read:?}");
        let write = Write::of(Command::Put {
            key: "/a".into(),
            value: "x".into(),
            expected: None,
            ttl: None,
        });
        let written = write.unwrap().run(&shared, &freshness).await;
        assert!(matches!(written, Err(WriteError::Unknown(_))), "{written:?}");
    }

    /// Opens a store with that much history, which arrives in steps of 10 revisions until it stalls.
    async fn open(newest: u64, stands_still_at: u64) -> Result<(), ReadError> {
        let current = Cell::new(1);
        let refresh = async || {
            current.set((current.get() + 10).min(newest).min(stands_still_at));
            match current.get() >= newest {
                true => Ok(()),
                false => Err(ReadError::Unavailable {
                    why: "the watch is behind".to_owned(),
                }),
            }
        };
        first_refresh(|| Revision::new(current.get()), refresh).await
    }

    #[tokio::test]
    async fn opening_waits_for_a_long_history_while_there_is_progress() {
        assert_eq!(open(5, u64::MAX).await, Ok(()));
        assert_eq!(open(95, u64::MAX).await, Ok(()));
        assert!(matches!(open(95, 50).await, Err(ReadError::Unavailable { .. })));
    }
}
