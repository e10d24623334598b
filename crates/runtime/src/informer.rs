//! The shared informer: one watch and one store for any number of subscribers.
//!
//! ```text
//!   watcher ▶ reflector ▶ store ──▶ mailbox ▶ subscriber
//!                          (published   ├──▶ mailbox ▶ subscriber
//!                           first)      └──▶ …
//! ```
//!
//! Promises:
//! - The store shows a change before any subscriber is told about it; a subscriber may see a newer store.
//! - Each subscriber is told in order, at its own pace. A slow one delays neither the watch nor the others, and holds
//!   no more than its capacity or, once it catches up, one change for each object that has changed meanwhile.
//! - Subscribing and unsubscribing are possible at any time. A late subscriber is told what is there, then what
//!   changes, with nothing missed or told twice in between.
//! - [`Informer::health`] says how it is doing and, if it fails, why.
//! - It runs as long as somebody holds an [`Informer`] or a [`Subscription`] of it, and ends with the last.
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
/// `Informer` tells of [`Object`](watchkeeper_wire::Object)s, `Informer<Pod>` of `Arc<Pod>`s.
pub struct Informer<K: View = Untyped> {
    inner: Arc<Inner>,
    store: Store<K>,
}

/// An informer, for those who do not keep it running.
#[derive(Clone)]
pub(crate) struct WeakInformer {
    inner: Weak<Inner>,
}

impl WeakInformer {
    /// The informer, if somebody holds it.
    pub(crate) fn held(&self) -> Option<Informer> {
        self.inner.upgrade().map(Informer::of)
    }

    /// The informer, if it still runs.
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

/// How an informer watches and what it keeps.
#[derive(Clone, Default)]
pub struct InformerOptions {
    /// How to list and watch.
    pub config: Config,
    /// Changes each object once before it is stored, for instance to leave out what nobody reads.
    pub transform: Option<Transform>,
    /// Indexes to begin with; more can be added later.
    pub indexes: Vec<(String, IndexFn)>,
    /// How often subscribers are told every object again, unless they say otherwise ([`SubscribeOptions::resync`]).
    pub resync: Option<Duration>,
}

impl From<Config> for InformerOptions {
    /// Watches like that and keeps everything.
    fn from(config: Config) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }
}

/// What waits for the subscribers of an informer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many subscribers there are.
    pub subscribers: usize,
    /// How many changes wait for the slowest of them.
    pub longest: usize,
}

/// What subscribers share with the informer they keep running.
struct Inner {
    store: Store,
    posts: Arc<Posts>,
    health: watch::Receiver<Health>,
    /// How often subscribers are told everything again by default.
    resync: Option<Duration>,
    /// What is watched, for the log.
    name: String,
    driver: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

/// One subscriber's letter box.
struct Post {
    mailbox: Mutex<Mailbox>,
    /// Wakes the subscriber, of whom there is one.
    arrived: AtomicWaker,
}

/// Everybody's letter boxes. The driver holds these, and not [`Inner`]: otherwise it would keep itself running.
#[derive(Default)]
struct Posts {
    open: Mutex<Vec<Arc<Post>>>,
    /// Asks the driver to end.
    stop: Notify,
}

impl Informer {
    /// Starts an informer over everything one source shows.
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
                tracing::warn!(%error, "index is left out");
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
            reflector: Reflector::new(sources, writer, options.config),
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
            driver: Some(tokio::spawn(driver.run())).into(),
        };
        Self::of(Arc::new(inner))
    }

    fn of(inner: Arc<Inner>) -> Self {
        let store = inner.store.clone();
        Self { inner, store }
    }

    /// The same informer, its objects read as structs of a kind.
    pub fn typed<K: View>(&self) -> Informer<K> {
        Informer {
            inner: self.inner.clone(),
            store: self.store.typed(),
        }
    }
}

impl<K: View> Informer<K> {
    /// The resource it watches, with its group: `deployments.apps`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The objects.
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    /// The same informer, its objects as they are.
    pub fn untyped(&self) -> Informer {
        Informer::of(self.inner.clone())
    }

    pub(crate) fn downgrade(&self) -> WeakInformer {
        WeakInformer {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// Tells what is there and then what changes.
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

    /// Runs a handler on a task of its own until the registration is dropped.
    pub fn handle(&self, options: SubscribeOptions, handler: impl Handler<K>) -> Registration {
        Registration::start(self.subscribe(options), handler)
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        self.inner.health.borrow().clone()
    }

    /// How it is doing, to be waited on.
    pub fn watch_health(&self) -> watch::Receiver<Health> {
        self.inner.health.clone()
    }

    /// Waits until the first list is complete, but no longer than this. The error says what was wrong.
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

    /// Waits until it has ended, for whatever reason; [`Informer::health`] says which.
    pub async fn ended(&self) {
        let mut health = self.inner.health.clone();
        let ended = health.wait_for(|health| health.phase == HealthPhase::Stopped);
        let _ = ended.await;
    }

    /// Who is told, and how far they are behind.
    pub fn backlog(&self) -> Backlog {
        let open = self.inner.posts.open.lock();
        let waiting = open.iter().map(|post| post.mailbox.lock().len());
        Backlog {
            subscribers: open.len(),
            longest: waiting.max().unwrap_or(0),
        }
    }

    /// Ends the watch and waits until it has ended. Subscribers are told what waits for them, then their end.
    pub async fn stop(&self) {
        self.inner.posts.stop.notify_one();
        // The second to ask waits as well, even if the first has given up.
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

/// The task behind an informer.
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
            // A watch that has more must leave the thread to its subscribers now and then. Not after every event: to
            // yield is to look for work, and to wake another thread to do the same.
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
                "watch failed, trying again"
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

/// However the driver ends, a panic of a transform or an index function included: nobody waits for ever on a store
/// that no longer follows.
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
