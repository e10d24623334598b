//! The controller: reconciles an object whenever it, or something related to it, changes.
//!
//! ```text
//!   primary informer ──▶ predicate ──▶ key ─────────┐
//!   owned informer ────▶ predicate ──▶ owner's key ─┼─▶ queue ─▶ worker ─▶ reconcile(key, object)
//!   watched informer ──▶ predicate ──▶ mapping ─────┤     ▲                        │
//!   external trigger ───────────────────────────────┘     └── after an error ◀─────┘
//! ```
//!
//! Guarantees:
//! - A key is reconciled by one worker at a time, and again if it changed meanwhile.
//! - The object passed to `reconcile` is at least as new as the change that triggered it.
//! - A reconcile sees at least what earlier reconciles of its key have written, of its own and the other kinds
//!   ([`ControllerOptions::own_writes`]). Until the informers show it, the key is skipped and requeued.
//! - A failed reconcile is retried after 5 ms, 10 ms, 20 ms … 1000 s, counted per key; success resets the count. A panic
//!   counts as a failure and affects no other key.
//! - Objects of the first list and of a resync are queued behind real changes.
//! - Triggers run independently: a failing watch does not delay the others.
//! - On shutdown no new work starts, and running reconciles have a deadline. The controller also stops if the informer
//!   of the primary kind ends, and `run` returns the reason.

mod groups;
mod handle;
mod own_writes;
mod readiness;
mod trigger;
mod typed;
mod worker;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_wire::Object;

use self::own_writes::OwnWrites;
use self::trigger::Trigger;
use self::worker::{ErasedReconciler, Worker};
use crate::delta::{Cause, Delta};
use crate::informer::{Health, Informer, Resync};
use crate::metrics::{ControllerMetrics, Metrics};
use crate::queue::{Queue, QueueObserver, QueueOptions, QueueStats, RateLimiter};
use crate::store::StoreEndedError;

pub use groups::KeyGroups;
pub use handle::ReconcileHandle;
pub use own_writes::{OWN_WRITES_DEADLINE, Writes};
pub use readiness::{NotReadyError, Readiness};
pub use trigger::{Mapping, Predicate, generation_changed};
pub use typed::{Context, Controller, NotWatchedError};
pub use worker::{ErrorPolicy, FailedReconcile, OnError, ReconcileError};

/// The time running reconciles have to finish after a shutdown, as in controller-runtime.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// The time to wait for the first lists of the other kinds, as in controller-runtime. The wait for the primary kind
/// has no limit, because there is nothing to do without it.
pub const SYNC_PATIENCE: Duration = Duration::from_secs(120);

/// Any error a reconciler may return.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Options of a controller.
pub struct ControllerOptions {
    /// The number of concurrent reconciles, spread over the runtime's threads.
    pub workers: usize,
    /// The number of concurrent reconciles per group of keys, such as a namespace. By default unlimited.
    pub groups: Option<KeyGroups>,
    /// The changes of the primary kind that trigger a reconcile. By default all.
    pub predicate: Option<Predicate>,
    /// The interval at which every object of the primary kind is reconciled without a change. By default that of the
    /// informer or its factory.
    pub resync: Resync,
    /// The time a change waits for others of the same key, to be reconciled together. It counts from the first
    /// change, so a key that changes all the time is still reconciled. By default zero.
    pub debounce: Duration,
    /// The time limit of one reconcile; then it is dropped and counts as failed. By default none: a reconcile that
    /// hangs occupies a worker forever.
    pub reconcile_timeout: Option<Duration>,
    /// The action after a failure; by default a retry, with the delay of `limiter`.
    pub error_policy: Option<ErrorPolicy>,
    /// The delay of a retry; by default exponential per key, 5 ms … 1000 s.
    pub limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    /// The longest time a reconcile is held back until the informers show the writes of earlier reconciles of its key,
    /// counted from the last write; by default two minutes. Then it runs, with a warning. `None`: it is never held back,
    /// and may act on a cache without its own writes.
    ///
    /// The writes of a [`Context`]'s clients are noted, and those of [`Writes::client`]. A write whose answer was lost
    /// is not.
    pub own_writes: Option<Duration>,
    /// The time running reconciles have to finish after a shutdown; then they are dropped.
    pub shutdown_deadline: Duration,
    /// The metrics of the queue and the reconciles, under the controller's name.
    pub metrics: Option<Metrics>,
    /// The observer of the queue, instead of `metrics`.
    pub observer: Option<Arc<dyn QueueObserver>>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            workers: 4,
            groups: None,
            predicate: None,
            resync: Resync::default(),
            debounce: Duration::ZERO,
            reconcile_timeout: None,
            error_policy: None,
            limiter: None,
            own_writes: Some(OWN_WRITES_DEADLINE),
            shutdown_deadline: SHUTDOWN_DEADLINE,
            metrics: None,
            observer: None,
        }
    }
}

/// A request to reconcile one object.
#[derive(Clone, Debug)]
pub struct Request {
    /// The object's key.
    pub key: ObjectKey,
    /// The object from the store; `None` if it does not exist.
    pub object: Option<Object>,
    /// The number of failures since the last success.
    pub attempts: u32,
    /// Notes the writes of this reconcile: [`Writes::client`].
    pub writes: Writes,
}

/// The action after a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait for the next change.
    Done,
    /// Reconcile again after this time, even without a change.
    After(Duration),
}

/// Brings the cluster in line with an object.
pub trait Reconciler: Send + Sync + 'static {
    /// Its error type: any error, `anyhow::Error` included.
    type Error: Into<BoxError>;

    /// Called for one or several changes. Must be idempotent: it may be called without a change.
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

/// The result of a controller that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The reason.
    pub reason: StopReason,
    /// Reconciles that missed the shutdown deadline and were dropped.
    pub aborted: usize,
}

/// The reason a controller has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A shutdown was requested.
    Shutdown,
    /// The informer of the primary kind has ended; its health says why.
    PrimaryEnded,
}

/// A controller of a kind that is known only at run time. For Rust types, use [`Controller`].
pub struct DynamicController {
    name: String,
    primary: Informer,
    triggers: Vec<Trigger>,
    options: ControllerOptions,
    queue: Queue<ObjectKey>,
    metrics: Option<Arc<ControllerMetrics>>,
}

/// A controller with its reconciler, ready to run.
pub struct BoundController {
    controller: DynamicController,
    reconciler: Arc<dyn ErasedReconciler>,
}

impl DynamicController {
    /// A controller of the objects of an informer.
    pub fn new(name: impl Into<String>, primary: Informer, mut options: ControllerOptions) -> Self {
        let name = name.into();
        let metrics = options.metrics.take();
        let measured = metrics.as_ref().map(|metrics| metrics.queue(&*name));
        let observer = options.observer.take();
        let mut queue = QueueOptions {
            observer: observer.or_else(|| measured.clone().map(|queue| queue as Arc<dyn QueueObserver>)),
            ..Default::default()
        };
        if let Some(limiter) = options.limiter.take() {
            queue.limiter = limiter;
        }
        let queue = Queue::new(queue);
        if let Some(measured) = measured {
            measured.watch_while(queue.weak_stats());
        }
        let own = Trigger::new(primary.clone(), trigger::same_key(), options.predicate.clone())
            .with_resync(options.resync);
        Self {
            metrics: metrics.map(|metrics| metrics.controller(&name)),
            name,
            primary,
            triggers: vec![own],
            options,
            queue,
        }
    }

    /// Also reconciles the owner of an object that changes, if its controller is an object of the resource `owner`,
    /// the primary kind.
    pub fn owns(self, owned: Informer, owner: &Resource) -> Self {
        self.watches(owned, trigger::controller_of(owner), None)
    }

    /// Also reconciles the objects `mapping` returns for a changed object of another kind. For an update or a delete
    /// it is called with both states, so that an object that is no longer referred to is reconciled too.
    pub fn watches(mut self, other: Informer, mapping: Mapping, predicate: Option<Predicate>) -> Self {
        self.triggers.push(Trigger::new(other, mapping, predicate));
        self
    }

    /// A handle to request reconciles from a timer, a webhook or another system.
    pub fn handle(&self) -> ReconcileHandle {
        ReconcileHandle::new(self.queue.clone(), &self.primary)
    }

    /// The current sizes of the queue.
    pub fn stats(&self) -> impl Fn() -> QueueStats + Send + Sync + 'static {
        let queue = self.queue.clone();
        move || queue.stats()
    }

    /// Sets the reconciler.
    pub fn reconcile(self, reconciler: impl Reconciler) -> BoundController {
        BoundController {
            controller: self,
            reconciler: Arc::new(reconciler),
        }
    }

    /// Runs until `shutdown` completes or the informer of the primary kind ends.
    pub async fn run(
        self,
        reconciler: impl Reconciler,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Stopped {
        self.reconcile(reconciler).run(shutdown).await
    }
}

impl BoundController {
    /// The name in logs and metrics.
    pub fn name(&self) -> &str {
        &self.controller.name
    }

    /// A handle to request reconciles from a timer, a webhook or another system.
    pub fn handle(&self) -> ReconcileHandle {
        self.controller.handle()
    }

    /// The health of its informers, by the name of their resource; the primary kind comes first.
    pub fn watch_health(&self) -> Vec<(String, watch::Receiver<Health>)> {
        let informers = self.controller.triggers.iter().map(Trigger::informer);
        informers
            .map(|informer| (informer.name().to_owned(), informer.watch_health()))
            .collect()
    }

    /// Adds its informers, its queue and its reconciles to `metrics`, unless they are measured already.
    pub fn measure(&mut self, metrics: &Metrics) {
        for informer in self.controller.triggers.iter().map(Trigger::informer) {
            metrics.informer(informer.name(), &informer);
        }
        let name = self.controller.name.clone();
        self.measure_work(metrics, &name);
    }

    /// Adds its queue and its reconciles to `metrics` under a name, unless they are measured already.
    pub(crate) fn measure_work(&mut self, metrics: &Metrics, name: &str) {
        let controller = &mut self.controller;
        if !controller.queue.is_observed() {
            let queue = metrics.queue(name);
            queue.watch_while(controller.queue.weak_stats());
            controller.queue.observe(queue);
        }
        controller.metrics.get_or_insert_with(|| metrics.controller(name));
    }

    /// A readiness check, usable while the controller runs.
    pub fn readiness(&self) -> Readiness {
        Readiness::new(self.controller.triggers.iter().map(Trigger::informer))
    }

    /// Runs until `shutdown` completes or the informer of the primary kind ends.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Stopped {
        self.work(Box::pin(shutdown)).await
    }

    /// Boxed, so that the caller's crate need not compile it.
    fn work(self, shutdown: BoxFuture<'_, ()>) -> BoxFuture<'_, Stopped> {
        let Self {
            controller,
            reconciler,
        } = self;
        async move {
            let (stop, stopped) = watch::channel(false);
            let mut triggers = JoinSet::new();
            let others: Vec<Informer> = controller.triggers[1..].iter().map(Trigger::informer).collect();
            for trigger in controller.triggers {
                triggers.spawn(trigger.run(controller.queue.clone(), controller.options.debounce));
            }
            let informers = [controller.primary.clone()].into_iter().chain(others.clone());
            let own_writes = controller.options.own_writes;
            let own_writes = own_writes.map(|deadline| OwnWrites::new(informers.collect(), deadline).into());
            let workers_wanted = controller.options.workers.max(1);
            let worker = Arc::new(Worker {
                name: controller.name.into(),
                reconciler,
                store: controller.primary.store().clone(),
                queue: controller.queue.clone(),
                groups: controller.options.groups.map(Into::into),
                own_writes,
                timeout: controller.options.reconcile_timeout,
                policy: controller.options.error_policy,
                metrics: controller
                    .metrics
                    .map(|metrics| metrics.with_workers(workers_wanted)),
            });
            let mut workers = JoinSet::new();
            let work = async {
                if all_synced(&controller.primary, &others).await.is_ok() {
                    for _ in 0..workers_wanted {
                        workers.spawn(worker.clone().work(stopped.clone()));
                    }
                }
                controller.primary.ended().await;
            };
            let reason = tokio::select! {
                biased;
                () = shutdown => StopReason::Shutdown,
                () = work => StopReason::PrimaryEnded,
            };
            stop.send_replace(true);
            controller.queue.shut_down();
            triggers.shutdown().await;
            let aborted = wind_up(workers, controller.options.shutdown_deadline).await;
            Stopped { reason, aborted }
        }
        .boxed()
    }
}

/// Waits for the first lists.
async fn all_synced(primary: &Informer, others: &[Informer]) -> Result<(), StoreEndedError> {
    primary.store().synced().await?;
    let others = futures_util::future::join_all(others.iter().map(|other| async move {
        if let Err(error) = other.synced(SYNC_PATIENCE).await {
            tracing::warn!(%error, "starting without the objects of another kind");
        }
    }));
    others.await;
    Ok(())
}

/// Waits for the workers to end, up to the deadline; returns the number that were dropped.
async fn wind_up(mut workers: JoinSet<()>, deadline: Duration) -> usize {
    let ended = tokio::time::timeout(deadline, async { while workers.join_next().await.is_some() {} }).await;
    let aborted = if ended.is_ok() { 0 } else { workers.len() };
    workers.shutdown().await;
    aborted
}

impl fmt::Debug for DynamicController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicController")
            .field("name", &self.name)
            .field("triggers", &self.triggers.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BoundController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundController").field(&self.controller).finish()
    }
}

impl fmt::Debug for ControllerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerOptions")
            .field("workers", &self.workers)
            .field("groups", &self.groups)
            .field("debounce", &self.debounce)
            .field("reconcile_timeout", &self.reconcile_timeout)
            .field("own_writes", &self.own_writes)
            .field("shutdown_deadline", &self.shutdown_deadline)
            .finish_non_exhaustive()
    }
}

/// False for the initial list and for a resync.
fn is_news(delta: &Delta) -> bool {
    !matches!(delta.cause(), Cause::Initial | Cause::Resync)
}

#[cfg(test)]
mod tests;
