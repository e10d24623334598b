//! The public handle to a store.

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
use crate::mvcc::{Mvcc, SharedPart};
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

/// The default limit of a value: 1.5 MiB, as in etcd.
pub const MAX_VALUE_BYTES: usize = 3 << 19;
/// The longest key.
pub const MAX_KEY_BYTES: usize = 4096;

/// The options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The retention of history.
    pub retention: Retention,
    /// Larger values are refused with [`WriteError::ValueTooLarge`].
    pub max_value_bytes: usize,
    /// The quota of a store in a directory. Writes that exceed it fail with [`WriteError::NoSpace`]. etcd has its own
    /// quota, and an in-memory store has none.
    pub quota_bytes: Option<u64>,
    /// Encrypts values at rest. An in-memory store does not use it.
    pub transformer: Option<Arc<dyn Transformer>>,
    /// Finds the part of a value that is kept in memory once for all values that have it. A store over etcd does not use
    /// it.
    pub shared_part: Option<SharedPart>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            max_value_bytes: MAX_VALUE_BYTES,
            quota_bytes: None,
            transformer: None,
            shared_part: None,
        }
    }
}

/// A key-value store with one revision counter for all keys. Clones are cheap and share the store.
///
/// Every call is answered from memory; only a write waits, until it is durable. Readers and feeds see it after that,
/// never before. If the future of a write is dropped, the write may still happen.
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
/// assert_eq!(past.value.bytes(), "first");
///
/// let mut feed = store.watch("/pods/", created)?;
/// let batch = feed.next().await?;
/// assert_eq!(batch.changes[0].value, Some("second".into()));
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

/// The destination of writes.
enum Writes {
    /// An engine in this process; this store is its only writer.
    Local(Local),
    #[cfg(feature = "etcd")]
    Etcd(Etcd),
}

struct Local {
    group_commit: Arc<GroupCommit>,
    maintenance: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Creates an in-memory store, which is gone with its last handle.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time, because expiry and compaction need one.
    pub fn memory(options: StoreOptions) -> Self {
        Self::memory_of(Mvcc::new(), options)
    }

    /// Creates an in-memory store from a snapshot. The two share data until one of them is written to.
    ///
    /// # Panics
    ///
    /// As [`Store::memory`].
    pub fn fork(snapshot: &Snapshot, options: StoreOptions) -> Self {
        Self::memory_of(snapshot.0.clone(), options)
    }

    fn memory_of(mvcc: Mvcc, options: StoreOptions) -> Self {
        let state = Recovered {
            mvcc: mvcc.sharing(options.shared_part),
            garbage: Vec::new(),
        };
        Self::start(state, Clock::start(), Box::new(Memory), options)
    }

    /// Takes a snapshot of the current state, history included, in constant time: the next write copies what it shares
    /// with the snapshot.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.inner.state.mvcc.read().clone())
    }

    /// Restores the state of a snapshot by normal writes: keys that are not in it are deleted, values that differ are
    /// written. So revisions keep growing, and feeds see the changes. Returns the number of keys written.
    ///
    /// Concurrent writes are overwritten if they precede the write of their key, and stay if they follow it.
    pub async fn restore(&self, snapshot: &Snapshot) -> Result<usize, WriteError> {
        let mut written = 0;
        for change in snapshot.changes_from(&self.snapshot()) {
            written += usize::from(self.restore_key(snapshot, &change).await?);
        }
        Ok(written)
    }

    /// Restores one key despite concurrent writers; false if nothing had to be written.
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
                    value: wanted.value.bytes(),
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

    /// Opens the store in a directory, which is created if necessary. It contains every acknowledged write, and the
    /// history that was not compacted.
    pub async fn open(dir: impl Into<PathBuf>, options: StoreOptions) -> Result<Self, OpenError> {
        let dir = dir.into();
        let clock = Clock::start();
        let now = clock.now();
        let values = Values::of(options.transformer.clone());
        let shared_part = options.shared_part;
        let opened = tokio::task::spawn_blocking(move || redb::open(&dir, now, values, shared_part)).await;
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

    /// Opens a store over etcd, which may be shared: its writes are visible to all. Waits until all keys are read.
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

    /// True if other processes may write to it.
    pub fn is_shared(&self) -> bool {
        match &self.inner.writes {
            Writes::Local(_) => false,
            #[cfg(feature = "etcd")]
            Writes::Etcd(_) => true,
        }
    }

    /// Waits until every write that anyone acknowledged before the call is visible here. Returns at once for a store
    /// that is not shared.
    pub async fn refresh(&self) -> Result<(), ReadError> {
        match &self.inner.writes {
            Writes::Local(_) => Ok(()),
            #[cfg(feature = "etcd")]
            // Boxed, as below: writes to memory should not pay for the size of the network future.
            Writes::Etcd(etcd) => Box::pin(etcd.refresh()).await,
        }
    }

    /// The revision of the newest acknowledged write; for a shared store, the newest visible here.
    pub fn current_revision(&self) -> Revision {
        self.inner.state.mvcc.read().current()
    }

    /// True if the store accepts writes: it is open, and its disk has not failed for good. Reads and feeds work in
    /// either case.
    pub fn is_writable(&self) -> bool {
        self.inner.state.is_writable()
    }

    /// The oldest revision that can still be read; zero if nothing was compacted.
    pub fn compacted_revision(&self) -> Revision {
        self.inner.state.mvcc.read().compacted()
    }

    /// Reads a key, now or at a past revision.
    pub async fn get(&self, key: &str, at: impl Into<ReadAt>) -> Result<Option<KeyValue>, ReadError> {
        let at = Scope::current().moment(at.into());
        if at == ReadAt::Latest {
            self.refresh().await?;
        }
        self.inner.state.open()?;
        self.inner.state.mvcc.read().get(key, at.named())
    }

    /// Reads a page of the keys under a prefix, at one revision.
    pub async fn range(&self, request: &RangeRequest<'_>) -> Result<Range, ReadError> {
        let at = Scope::current().moment(request.at);
        if at == ReadAt::Latest {
            self.refresh().await?;
        }
        range::read(&self.inner.state, &RangeRequest { at, ..*request }).await
    }

    /// Creates a key, which must not exist; it expires after `ttl`. Returns its revision.
    ///
    /// A value that is a slice of a larger buffer keeps that whole buffer in memory.
    pub async fn create(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Result<Revision, WriteError> {
        self.put(key, value, None, ttl).await
    }

    /// Updates a key whose current revision is `expected`. Without a `ttl` it no longer expires.
    pub async fn update(
        &self,
        key: &str,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Result<Revision, WriteError> {
        self.put(key, value, Some(expected), ttl).await
    }

    /// Deletes a key whose current revision is `expected`. Returns the revision of the deletion.
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

    /// Writes a key in the scope of the caller.
    async fn write(&self, command: Command) -> Result<Revision, WriteError> {
        if Scope::current().read_only {
            return Err(WriteError::ReadOnly);
        }
        let revision = self.submit(command).await?;
        scope::note(|| self.change(revision));
        Ok(revision)
    }

    /// The change of a revision, if it is retained.
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

    /// Applies changes with their own revisions, which must be later than the current one; otherwise nothing is changed
    /// and the result is [`WriteError::Past`]. For in-memory stores: see [`Snapshot::import`].
    pub async fn import(&self, changes: Vec<ImportedChange>) -> Result<Revision, WriteError> {
        match &self.inner.writes {
            Writes::Local(local) if !local.group_commit.is_durable() => {
                self.submit(Command::Import { changes }).await
            }
            _ => Err(WriteError::NotInMemory),
        }
    }

    /// Watches the changes under a prefix after a revision, which may be in the future.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<Feed, ReadError> {
        Feed::start(self.inner.state.clone(), prefix, after)
    }

    /// Compacts the history before a revision. Reading at it and watching after it still work. Compacting at an older
    /// revision again is not an error.
    pub async fn compact(&self, revision: Revision) -> Result<(), WriteError> {
        self.submit(Command::Compact { revision }).await.map(drop)
    }

    /// True if any value is stored in an outdated form. Free if nothing is encrypted.
    pub fn has_stale(&self) -> bool {
        !self.inner.state.mvcc.read().seals().is_empty()
    }

    /// True if a key's value at that revision is stored in an outdated form, so that even an unchanged write is worth
    /// doing.
    pub fn is_stale(&self, key: &str, revision: Revision) -> bool {
        self.inner.state.mvcc.read().seals().is_stale(key, revision)
    }

    /// The disk usage of the store.
    pub fn usage(&self) -> Usage {
        self.inner.state.space.usage()
    }

    /// Makes a backup of the current state.
    pub fn backup(&self) -> Backup {
        Backup::of(&self.snapshot(), self.inner.values.clone())
    }

    /// Returns the space freed by compaction and deletes to the file system. Writers wait meanwhile, readers do not. It
    /// has an effect only for a store in a directory; etcd is defragmented with its own tools.
    pub async fn defragment(&self) -> Result<(), WriteError> {
        match &self.inner.writes {
            Writes::Local(local) => local.group_commit.defragment().await,
            #[cfg(feature = "etcd")]
            Writes::Etcd(_) => Ok(()),
        }
    }

    /// Finishes writes in progress, refuses new ones, ends all feeds and releases the data. Afterwards the same data
    /// can be opened again.
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
            // Ends as cancelled.
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
