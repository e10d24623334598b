//! The shared informer: one watch and one store for any number of subscribers.
//!
//! ```text
//!   watcher ▶ reflector ▶ store ──▶ mailbox ▶ subscriber
//!                          (published   ├──▶ mailbox ▶ subscriber
//!                           first)      └──▶ …
//! ```
//!
//! Guarantees:
//! - The store shows a change before any subscriber receives it; a subscriber may see a newer store.
//! - Each subscriber receives changes in order, at its own pace. A slow one delays neither the watch nor the others, and
//!   holds no more than its capacity or, once it catches up, one change for each object that has changed meanwhile.
//! - Subscribing and unsubscribing are possible at any time. A late subscriber receives the existing objects, then the
//!   changes, with nothing missed or repeated in between.
//! - [`Informer::health`] reports its state and, if it fails, the reason.
//! - It runs as long as an [`Informer`] or a [`Subscription`] of it exists, and ends with the last.
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! # use watchkeeper_client::DynamicApi;
//! # use watchkeeper_runtime::api_source::ApiSource;
//! use watchkeeper_runtime::delta::Delta;
//! use watchkeeper_runtime::informer::{Informer, Notice};
//!
//! # async fn run(config_maps: DynamicApi) -> Result<(), Box<dyn std::error::Error>> {
//! let informer = Informer::start(Arc::new(ApiSource::new(config_maps)), Default::default());
//! informer.synced(Duration::from_secs(10)).await?; // or why not
//!
//! let mut changes = informer.subscribe(Default::default());
//! while let Some(notice) = changes.next().await {
//!     if let Notice::Change(Delta::Added { object, .. }) = notice {
//!         assert!(informer.store().get(&object.key()).is_some(), "the store was first");
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod handler;
mod mailbox;
mod status;
mod subscription;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use watchkeeper_wire::Object;

use self::mailbox::Mailbox;
use self::subscription::Changes;
use crate::reflector::{Batch, MAX_BATCH, ObjectSource, Reflector};
use crate::store::{self, IndexFn, Snapshot, Store, Transform, Walk};
use crate::view::{Untyped, View};
use crate::watcher::{Config, Failure};

pub use handler::{Handler, Registration};
pub use status::{Health, HealthPhase, NotSyncedError};
pub use subscription::{
    DEFAULT_CAPACITY, Filter, Notice, Resync, SHORTEST_RESYNC, SubscribeOptions, Subscription,
};

/// A shared informer. Clones share it.
///
/// `Informer` delivers [`Object`]s, `Informer<Pod>` delivers `Arc<Pod>`s.
pub struct Informer<K: View = Untyped> {
    inner: Arc<Inner>,
    store: Store<K>,
}

/// A reference to an informer that does not keep it running.
#[derive(Clone)]
pub(crate) struct WeakInformer {
    inner: Weak<Inner>,
}

impl WeakInformer {
    /// The informer, if somebody else holds it.
    pub(crate) fn held(&self) -> Option<Informer> {
        self.inner.upgrade().map(Informer::of)
    }

    /// The informer, if it still exists.
    pub(crate) fn upgrade(&self) -> Option<Informer> {
        let running = |informer: &Informer| informer.health().phase != HealthPhase::Stopped;
        self.held().filter(running)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.upgrade().is_some()
    }
}

/// Options of an informer.
#[derive(Clone, Default)]
pub struct InformerOptions {
    /// The options of list and watch.
    pub config: Config,
    /// Changes each object once before it is stored, for instance to drop unused fields.
    pub transform: Option<Transform>,
    /// Initial indexes; more can be added later.
    pub indexes: Vec<(String, IndexFn)>,
    /// The default resync interval of subscribers ([`SubscribeOptions::resync`]).
    pub resync: Option<Duration>,
}

impl From<Config> for InformerOptions {
    /// These list and watch options, otherwise the defaults.
    fn from(config: Config) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }
}

/// The backlog of an informer's subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of subscribers.
    pub subscribers: usize,
    /// The number of changes waiting for the slowest one.
    pub longest: usize,
}

/// The state subscribers share with the informer they keep running.
struct Inner {
    store: Store,
    posts: Arc<Posts>,
    health: watch::Receiver<Health>,
    /// The default resync interval.
    resync: Option<Duration>,
    /// The watched resource, for the log.
    name: String,
    sources: Vec<Arc<ObjectSource>>,
    driver: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

/// One subscriber's mailbox.
struct Post {
    mailbox: Mutex<Mailbox>,
    /// Wakes the subscriber.
    arrived: AtomicWaker,
}

/// All mailboxes. The driver holds these and not [`Inner`]: otherwise it would keep itself running.
#[derive(Default)]
struct Posts {
    open: Mutex<Vec<Arc<Post>>>,
    /// Stops the driver.
    stop: Notify,
}

impl Informer {
    /// Starts an informer over one source.
    pub fn start(source: Arc<ObjectSource>, options: InformerOptions) -> Self {
        let (store, writer) = store::new();
        Self::run(vec![source], store, writer, options)
    }

    /// Starts an informer over several namespaces, each with its own source.
    pub fn start_in_namespaces(sources: Vec<(String, Arc<ObjectSource>)>, options: InformerOptions) -> Self {
        let (namespaces, sources): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        let (store, writer) = store::for_namespaces(&namespaces);
        Self::run(sources, store, writer, options)
    }

    fn run(
        sources: Vec<Arc<ObjectSource>>,
        store: Store,
        mut writer: store::Writer,
        options: InformerOptions,
    ) -> Self {
        if let Some(transform) = options.transform {
            writer.set_transform(transform);
        }
        for (name, function) in options.indexes {
            if let Err(error) = store.add_index_fn(&name, function) {
                tracing::warn!(%error, "duplicate index is ignored");
            }
        }
        let (report, health) = watch::channel(Health {
            phase: HealthPhase::Syncing,
            failing: None,
        });
        let posts = Arc::new(Posts::default());
        let name = sources
            .first()
            .map_or_else(String::new, |source| source.name().into_owned());
        let driver = Driver {
            reflector: Reflector::new(sources.clone(), writer, options.config),
            store: store.clone(),
            posts: posts.clone(),
            report,
        };
        let inner = Inner {
            store,
            posts,
            health,
            resync: options.resync,
            name,
            sources,
            driver: Some(tokio::spawn(driver.run())).into(),
        };
        Self::of(Arc::new(inner))
    }

    fn of(inner: Arc<Inner>) -> Self {
        let store = inner.store.clone();
        Self { inner, store }
    }

    /// The same informer with its objects decoded as a kind.
    pub fn typed<K: View>(&self) -> Informer<K> {
        Informer {
            inner: self.inner.clone(),
            store: self.store.typed(),
        }
    }
}

impl<K: View> Informer<K> {
    /// The watched resource with its group: `deployments.apps`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// False if the object is certainly, or possibly, not selected by its lists and watches.
    pub(crate) fn selects(&self, object: &Object) -> bool {
        self.inner.sources.iter().any(|source| source.selects(object))
    }

    /// The store. A clone of it does not keep the informer running: without an [`Informer`] it is no longer fed.
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    /// The same informer with its objects undecoded.
    pub fn untyped(&self) -> Informer {
        Informer::of(self.inner.clone())
    }

    pub(crate) fn downgrade(&self) -> WeakInformer {
        WeakInformer {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// Subscribes: delivers the existing objects, then the changes.
    pub fn subscribe(&self, options: SubscribeOptions) -> Subscription<K> {
        let mut open = self.inner.posts.open.lock();
        let snapshot = self.inner.store.snapshot();
        let mut mailbox = Mailbox::new(options.capacity, &snapshot);
        if self.health().phase == HealthPhase::Stopped {
            mailbox.close();
        }
        let post = Arc::new(Post {
            mailbox: Mutex::new(mailbox),
            arrived: AtomicWaker::new(),
        });
        open.push(post.clone());
        drop(open);
        let changes = Changes::new(self.inner.clone(), post, Walk::new(snapshot), options);
        Subscription::new(changes, self.store.clone())
    }

    /// Runs a handler on its own task until the registration is dropped.
    pub fn handle(&self, options: SubscribeOptions, handler: impl Handler<K>) -> Registration {
        Registration::start(self.subscribe(options), handler)
    }

    /// Its current health.
    pub fn health(&self) -> Health {
        self.inner.health.borrow().clone()
    }

    /// Its health, as a watch channel.
    pub fn watch_health(&self) -> watch::Receiver<Health> {
        self.inner.health.clone()
    }

    /// Waits up to `within` until the first list is complete. The error has the reason it is not.
    pub async fn synced(&self, within: Duration) -> Result<Arc<Snapshot>, NotSyncedError> {
        let mut health = self.inner.health.clone();
        let settled = health.wait_for(|health| health.phase != HealthPhase::Syncing);
        let _ = tokio::time::timeout(within, settled).await;
        let health = self.health();
        match health.is_synced() {
            true => Ok(self.inner.store.snapshot()),
            false => Err(NotSyncedError { health }),
        }
    }

    /// Waits until it has ended; [`Informer::health`] has the reason.
    pub async fn ended(&self) {
        let mut health = self.inner.health.clone();
        let ended = health.wait_for(|health| health.phase == HealthPhase::Stopped);
        let _ = ended.await;
    }

    /// The number of subscribers and the backlog of the slowest.
    pub fn backlog(&self) -> Backlog {
        let open = self.inner.posts.open.lock();
        let waiting = open.iter().map(|post| post.mailbox.lock().len());
        Backlog {
            subscribers: open.len(),
            longest: waiting.max().unwrap_or(0),
        }
    }

    /// Stops the watch and waits until it has ended. Subscribers still receive what is queued for them.
    pub async fn stop(&self) {
        self.inner.posts.stop.notify_one();
        // A second caller waits as well, even if the first was cancelled.
        let mut driver = self.inner.driver.lock().await;
        if let Some(running) = &mut *driver {
            let _ = running.await;
        }
        *driver = None;
    }
}

impl Inner {
    fn unsubscribe(&self, post: &Arc<Post>) {
        self.posts.open.lock().retain(|other| !Arc::ptr_eq(other, post));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.posts.stop.notify_one();
    }
}

impl<K: View> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            store: self.store.clone(),
        }
    }
}

impl<K: View> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("objects", &self.inner.store.snapshot().len())
            .field("health", &self.health())
            .finish()
    }
}

impl fmt::Debug for InformerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("config", &self.config)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

/// The task of an informer.
struct Driver {
    reflector: Reflector,
    store: Store,
    posts: Arc<Posts>,
    report: watch::Sender<Health>,
}

impl Driver {
    async fn run(mut self) {
        let posts = self.posts.clone();
        loop {
            let batch = tokio::select! {
                // Stopping goes first: under load there is always another batch.
                biased;
                () = posts.stop.notified() => break,
                batch = self.reflector.next() => batch,
            };
            let Some(batch) = batch else { break };
            // A busy watch must yield to its subscribers now and then. Not after every event: yielding makes the
            // runtime look for work and wake other threads.
            let has_more = batch.events >= MAX_BATCH;
            self.deliver(batch);
            match has_more {
                true => tokio::task::yield_now().await,
                false => tokio::task::consume_budget().await,
            }
        }
    }

    fn deliver(&self, batch: Batch) {
        let after = self.store.snapshot();
        if batch.events > 0 {
            for post in self.posts.open.lock().iter() {
                post.mailbox.lock().post(&batch.deltas, &batch.before, &after);
                post.arrived.wake();
            }
        }
        self.report_health(&batch, &after);
    }

    fn report_health(&self, batch: &Batch, after: &Snapshot) {
        let phase = match after.is_synced() {
            true => HealthPhase::Synced,
            false => HealthPhase::Syncing,
        };
        if let Some((_, failure)) = batch.failures.last() {
            tracing::warn!(
                error = failure as &dyn std::error::Error,
                "watch failed, retrying"
            );
        }
        let failing = self.reflector.failing();
        let words = |failing: Option<&Failure>| failing.map(ToString::to_string);
        self.report.send_if_modified(|health| {
            let otherwise = words(health.failing.as_ref()) != words(failing);
            let news = health.phase != phase || !batch.failures.is_empty() || otherwise;
            if news {
                let failing = failing.cloned();
                *health = Health { phase, failing };
            }
            news
        });
    }
}

/// Runs however the driver ends, also after a panic of a transform or an index function, so that nobody waits forever
/// for a store that is no longer fed.
impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a transform or an index function has panicked: the informer stops");
        }
        self.report
            .send_modify(|health| health.phase = HealthPhase::Stopped);
        for post in self.posts.open.lock().iter() {
            post.mailbox.lock().close();
            post.arrived.wake();
        }
    }
}

#[cfg(test)]
mod tests;
