//! The handle to a store: what users call.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::engine::{Engine, Memory, redb};
#[cfg(feature = "etcd")]
use crate::etcd::{Etcd, EtcdOptions};
use crate::group_commit::GroupCommit;
use crate::mvcc::Mvcc;
use crate::recovery::Recovered;
use crate::space::Space;
use crate::state::{SharedState, State};
use crate::transaction::Command;
use crate::transform::{Transformer, Values};
use crate::{
    Backup, Change, Feed, ImportedChange, KeyValue, OpenError, Range, RangeRequest, ReadAt, ReadError,
    Retention, Revision, Scope, Snapshot, Usage, WriteError,
};
use crate::{maintenance, range, scope};

/// The largest value by default: 1.5 MiB, as etcd.
pub const MAX_VALUE_BYTES: usize = 3 << 19;
/// The longest key.
pub const MAX_KEY_BYTES: usize = 4096;

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How much history is kept.
    pub retention: Retention,
    /// Larger values are refused with [`WriteError::ValueTooLarge`].
    pub max_value_bytes: usize,
    /// Writes that would make a store in a directory larger are refused with [`WriteError::NoSpace`]. etcd has a quota of
    /// its own, and memory has none.
    pub quota_bytes: Option<u64>,
    /// How values are stored, if not as they are. A store in memory stores nothing.
    pub transformer: Option<Arc<dyn Transformer>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            max_value_bytes: MAX_VALUE_BYTES,
            quota_bytes: None,
            transformer: None,
        }
    }
}

/// A store of keys with one revision counter for all of them. Clones are cheap and lead to the same store.
///
/// Every call is answered from memory; only a write waits, until it is durable. Readers and feeds see it from then
/// on, never before. If the future of a write is dropped, the write may happen all the same.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use watchkeeper_storage::{Store, StoreOptions};
///
/// let store = Store::memory(StoreOptions::default());
/// let created = store.create("/pods/a", "first".into(), None).await?;
/// let updated = store.update("/pods/a", "second".into(), created, None).await?;
///
/// let past = store.get("/pods/a", Some(created)).await?.unwrap();
/// assert_eq!(past.value, "first");
///
/// let mut feed = store.watch("/pods/", created)?;
/// let batch = feed.next().await?;
/// assert_eq!(batch.changes[0].value.as_deref(), Some(b"second".as_slice()));
/// assert_eq!(batch.revision, updated);
///
/// store.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    state: SharedState,
    writes: Writes,
    values: Values,
    max_value_bytes: usize,
}

/// Where writes go.
enum Writes {
    /// To an engine in this process, whose only writer is this store.
    Local(Local),
    #[cfg(feature = "etcd")]
    Etcd(Etcd),
}

struct Local {
    group_commit: Arc<GroupCommit>,
    maintenance: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// A store that is gone with its last handle.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time, because expiry and compaction need one.
    pub fn memory(options: StoreOptions) -> Self {
        Self::memory_of(Mvcc::new(), options)
    }

    /// A store in memory that begins with what another one held. The two share it until one of them is written to.
    ///
    /// # Panics
    ///
    /// As [`Store::memory`].
    pub fn fork(snapshot: &Snapshot, options: StoreOptions) -> Self {
        Self::memory_of(snapshot.0.clone(), options)
    }

    fn memory_of(mvcc: Mvcc, options: StoreOptions) -> Self {
        let state = Recovered {
            mvcc,
            garbage: Vec::new(),
        };
        Self::start(state, Clock::start(), Box::new(Memory), options)
    }

    /// What the store holds at this moment, history included. Takes the same time however much that is: the next write
    /// copies what it has in common with the snapshot.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.inner.state.mvcc.read().clone())
    }

    /// Makes the store hold what a snapshot holds, by writes: what is not in it is deleted, what is otherwise in it is
    /// put back. So revisions go on growing, and feeds are told. Returns how many keys were written.
    ///
    /// Writes of others in the meantime are overwritten if they come before the write of their key, and stay if they
    /// come after.
    pub async fn restore(&self, snapshot: &Snapshot) -> Result<usize, WriteError> {
        let mut written = 0;
        for change in snapshot.changes_from(&self.snapshot()) {
            written += usize::from(self.restore_key(snapshot, &change).await?);
        }
        Ok(written)
    }

    /// Makes a key hold what a snapshot has there, whoever writes to it; false if it does already.
    async fn restore_key(&self, snapshot: &Snapshot, key: &str) -> Result<bool, WriteError> {
        loop {
            let found = self.inner.state.mvcc.read().latest(key);
            let expected = found.as_ref().map(|found| found.mod_revision);
            let wanted = snapshot.0.latest(key);
            let command = match (wanted, expected) {
                (None, None) => return Ok(false),
                (None, Some(expected)) => Command::Delete {
                    key: key.into(),
                    expected,
                },
                (Some(wanted), _) if found.is_some_and(|found| found.value == wanted.value) => {
                    return Ok(false);
                }
                (Some(wanted), expected) => Command::Put {
                    key: wanted.key,
                    value: wanted.value,
                    expected,
                    ttl: snapshot.ttl(key, self.inner.state.clock.now()),
                },
            };
            match self.submit(command).await {
                Err(WriteError::Conflict { .. }) => {}
                written => return written.map(|_| true),
            }
        }
    }

    /// The store in a directory, which is created if need be. It has everything that was acknowledged before, and
    /// the history that was not yet compacted.
    pub async fn open(dir: impl Into<PathBuf>, options: StoreOptions) -> Result<Self, OpenError> {
        let dir = dir.into();
        let clock = Clock::start();
        let now = clock.now();
        let values = Values::of(options.transformer.clone());
        let opened = tokio::task::spawn_blocking(move || redb::open(&dir, now, values)).await;
        let (engine, recovered) = opened.unwrap_or_else(|error| Err(OpenError::Interrupted(error)))?;
        Ok(Self::start(recovered, clock, Box::new(engine), options))
    }

    pub(crate) fn start(
        recovered: Recovered,
        clock: Clock,
        engine: Box<dyn Engine>,
        options: StoreOptions,
    ) -> Self {
        let Recovered { mvcc, garbage } = recovered;
        let file = engine.data_file();
        let quota = options.quota_bytes.filter(|_| file.is_some());
        let space = Space::new(quota, file, engine.used_bytes());
        let state = Arc::new(State::within(mvcc, clock, options.retention.clone(), space));
        let group_commit = GroupCommit::new(state.clone(), engine, garbage);
        let maintenance = tokio::spawn(maintenance::run(state.clone(), group_commit.clone()));
        let writes = Writes::Local(Local {
            group_commit,
            maintenance: Mutex::new(Some(maintenance)),
        });
        Self::over(state, writes, &options)
    }

    /// The store in an etcd, which it may share with others: what they write is seen by all. Opening it waits until all
    /// keys are read.
    #[cfg(feature = "etcd")]
    pub async fn etcd(etcd: EtcdOptions, options: StoreOptions) -> Result<Self, OpenError> {
        let values = Values::of(options.transformer.clone());
        let (state, etcd) = Etcd::open(etcd, options.retention.clone(), values).await?;
        Ok(Self::over(state, Writes::Etcd(etcd), &options))
    }

    fn over(state: SharedState, writes: Writes, options: &StoreOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                state,
                writes,
                values: Values::of(options.transformer.clone()),
                max_value_bytes: options.max_value_bytes,
            }),
        }
    }

    /// Whether others may write to it as well, in other processes.
    pub fn is_shared(&self) -> bool {
        match &self.inner.writes {
            Writes::Local(_) => false,
            #[cfg(feature = "etcd")]
            Writes::Etcd(_) => true,
        }
    }

    /// Waits until every write is visible here that was acknowledged before, by whomever. A store that is not shared has
    /// nothing to wait for.
    pub async fn refresh(&self) -> Result<(), ReadError> {
        match &self.inner.writes {
            Writes::Local(_) => Ok(()),
            #[cfg(feature = "etcd")]
            // In a box, as below: writes to memory do not carry the room that a network takes.
            Writes::Etcd(etcd) => Box::pin(etcd.refresh()).await,
        }
    }

    /// The revision of the newest acknowledged write; of a shared store, the newest that is visible here.
    pub fn current_revision(&self) -> Revision {
        self.inner.state.mvcc.read().current()
    }

    /// Whether the store takes writes: it is open, and its disk has not failed in a way that only opening it anew can
    /// mend. Reads and feeds go on either way.
    pub fn is_writable(&self) -> bool {
        self.inner.state.is_writable()
    }

    /// The oldest revision that can still be read; zero as long as nothing was compacted.
    pub fn compacted_revision(&self) -> Revision {
        self.inner.state.mvcc.read().compacted()
    }

    /// What a key holds, now or at a past revision.
    pub async fn get(&self, key: &str, at: impl Into<ReadAt>) -> Result<Option<KeyValue>, ReadError> {
        let at = Scope::current().moment(at.into());
        if at == ReadAt::Latest {
            self.refresh().await?;
        }
        self.inner.state.open()?;
        self.inner.state.mvcc.read().get(key, at.named())
    }

    /// The keys under a prefix, with one page of their values, as they were at one moment.
    pub async fn range(&self, request: &RangeRequest<'_>) -> Result<Range, ReadError> {
        let at = Scope::current().moment(request.at);
        if at == ReadAt::Latest {
            self.refresh().await?;
        }
        range::read(&self.inner.state, &RangeRequest { at, ..*request }).await
    }

    /// Gives a value to a key that does not exist, and takes it away again after `ttl`. Returns its revision.
    ///
    /// A value that is a slice of a larger buffer keeps all of that buffer in memory.
    pub async fn create(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Result<Revision, WriteError> {
        self.put(key, value, None, ttl).await
    }

    /// Replaces the value that a key has had since `expected`. Without a `ttl` it stays for good, whatever the old
    /// value had.
    pub async fn update(
        &self,
        key: &str,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Result<Revision, WriteError> {
        self.put(key, value, Some(expected), ttl).await
    }

    /// Takes a key away that has had its value since `expected`. Returns the revision of the deletion.
    pub async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, WriteError> {
        let key = key.into();
        self.write(Command::Delete { key, expected }).await
    }

    async fn put(
        &self,
        key: &str,
        value: Bytes,
        expected: Option<Revision>,
        ttl: Option<Duration>,
    ) -> Result<Revision, WriteError> {
        self.check(key, &value)?;
        let put = Command::Put {
            key: key.into(),
            value,
            expected,
            ttl,
        };
        self.write(put).await
    }

    async fn submit(&self, command: Command) -> Result<Revision, WriteError> {
        match &self.inner.writes {
            Writes::Local(local) => local.group_commit.submit(command).await,
            #[cfg(feature = "etcd")]
            Writes::Etcd(etcd) => Box::pin(etcd.submit(command)).await,
        }
    }

    /// Changes a key under the terms of whoever calls.
    async fn write(&self, command: Command) -> Result<Revision, WriteError> {
        if Scope::current().read_only {
            return Err(WriteError::ReadOnly);
        }
        let revision = self.submit(command).await?;
        scope::note(|| self.change(revision));
        Ok(revision)
    }

    /// The change of a revision, if history has it.
    fn change(&self, revision: Revision) -> Option<Arc<Change>> {
        let mvcc = self.inner.state.mvcc.read();
        let mut later = mvcc.changes_after(revision.before());
        later.next().filter(|change| change.revision == revision).cloned()
    }

    fn check(&self, key: &str, value: &Bytes) -> Result<(), WriteError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(WriteError::KeyLength {
                size: key.len(),
                limit: MAX_KEY_BYTES,
            });
        }
        if value.len() > self.inner.max_value_bytes {
            return Err(WriteError::ValueTooLarge {
                size: value.len(),
                limit: self.inner.max_value_bytes,
            });
        }
        Ok(())
    }

    /// Applies changes of another history at their own revisions, which must be later than all there is; else nothing is
    /// changed, and [`WriteError::Past`] says so. For stores in memory: see [`Snapshot::import`].
    pub async fn import(&self, changes: Vec<ImportedChange>) -> Result<Revision, WriteError> {
        match &self.inner.writes {
            Writes::Local(local) if !local.group_commit.is_durable() => {
                self.submit(Command::Import { changes }).await
            }
            _ => Err(WriteError::NotInMemory),
        }
    }

    /// The changes under a prefix after a revision, which may be one that is yet to come.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<Feed, ReadError> {
        Feed::start(self.inner.state.clone(), prefix, after)
    }

    /// Forgets the history before a revision. Reading at it and watching after it still work; a revision that was
    /// compacted earlier is no error.
    pub async fn compact(&self, revision: Revision) -> Result<(), WriteError> {
        self.submit(Command::Compact { revision }).await.map(drop)
    }

    /// Whether any value is stored in a way that is out of date. It takes no time where nothing is encrypted.
    pub fn has_stale(&self) -> bool {
        !self.inner.state.mvcc.read().seals().is_empty()
    }

    /// Whether a key's value of that revision is stored in a way that is out of date, so that a write that changes nothing
    /// is worth while.
    pub fn is_stale(&self, key: &str, revision: Revision) -> bool {
        self.inner.state.mvcc.read().seals().is_stale(key, revision)
    }

    /// The room that the store takes on this machine.
    pub fn usage(&self) -> Usage {
        self.inner.state.space.usage()
    }

    /// Everything that the store holds at this moment, as the bytes of a backup.
    pub fn backup(&self) -> Backup {
        Backup::of(&self.snapshot(), self.inner.values.clone())
    }

    /// Gives the room that compaction and deletes have freed back to the file system. Writers wait meanwhile, readers do
    /// not. Only a store in a directory has such room: what etcd holds is defragmented there.
    pub async fn defragment(&self) -> Result<(), WriteError> {
        match &self.inner.writes {
            Writes::Local(local) => local.group_commit.defragment().await,
            #[cfg(feature = "etcd")]
            Writes::Etcd(_) => Ok(()),
        }
    }

    /// Finishes the writes in progress, refuses new ones, ends all feeds and lets go of the data. When this
    /// returns, the same data can be opened again.
    pub async fn close(&self) {
        match &self.inner.writes {
            Writes::Local(local) => local.close().await,
            #[cfg(feature = "etcd")]
            Writes::Etcd(etcd) => {
                etcd.refuse();
                etcd.finish().await;
            }
        }
        self.inner.state.close();
    }
}

impl Local {
    async fn close(&self) {
        self.group_commit.refuse();
        let maintenance = self.maintenance.lock().take();
        if let Some(maintenance) = maintenance {
            maintenance.abort();
            // Ends with "cancelled", which is what was asked for.
            let _ = maintenance.await;
        }
        self.group_commit.finish().await;
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("revision", &self.current_revision())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    /// Without `close`, the writes in progress are finished in the background.
    fn drop(&mut self) {
        match &self.writes {
            Writes::Local(local) => {
                local.group_commit.refuse();
                if let Some(maintenance) = local.maintenance.lock().take() {
                    maintenance.abort();
                }
            }
            #[cfg(feature = "etcd")]
            Writes::Etcd(_) => {}
        }
        self.state.close();
    }
}
