//! The controller: whatever happens to an object or to what belongs to it, reconcile that object.
//!
//! ```text
//!   primary informer ──▶ predicate ──▶ key ─────────┐
//!   owned informer ────▶ predicate ──▶ owner's key ─┼─▶ queue ─▶ worker ─▶ reconcile(key, object)
//!   watched informer ──▶ predicate ──▶ mapping ─────┤     ▲                        │
//!   external trigger ───────────────────────────────┘     └── after an error ◀─────┘
//! ```
//!
//! Promises:
//! - A key is reconciled by one worker at a time, and once more after everything that happened meanwhile.
//! - The object given to `reconcile` is at least as new as the change that led to it.
//! - A failure comes back after 5 ms, 10 ms, 20 ms … 1000 s, counted per key; success forgets it. A panic counts as a
//!   failure and harms nobody else.
//! - Objects of the first list and of a resync wait behind real changes.
//! - A watch that fails does not hold up the others: each trigger runs by itself.
//! - On shutdown no new work begins, and what runs has a deadline. The same happens if the informer of the primary kind
//!   ends: there is nothing left to do, and whoever runs the controller is told.

mod crew;
mod groups;
mod handle;
mod readiness;
mod trigger;
mod typed;

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

use self::crew::{Crew, ErasedReconciler};
use self::trigger::Trigger;
use crate::delta::{Cause, Delta};
use crate::informer::{Health, Informer, Resync};
use crate::metrics::{ControllerMetrics, Metrics};
use crate::queue::{Queue, QueueObserver, QueueOptions, QueueStats, RateLimiter};
use crate::store::StoreEndedError;

pub use crew::{ErrorPolicy, FailedReconcile, OnError, ReconcileError};
pub use groups::KeyGroups;
pub use handle::ReconcileHandle;
pub use readiness::{NotReadyError, Readiness};
pub use trigger::{Mapping, Predicate, generation_changed};
pub use typed::{Context, Controller, NotWatchedError};

/// 30 s, as controller-runtime: how long running reconciles may take to end after a shutdown.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// Two minutes, as controller-runtime: how long work waits for the first lists of the other kinds. The primary kind
/// is waited for without limit, because there is nothing to do without it.
pub const SYNC_PATIENCE: Duration = Duration::from_secs(120);

/// Any error, as a reconciler may return it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// How a controller works.
pub struct ControllerOptions {
    /// How many reconciles run at once, spread over the runtime's threads.
    pub workers: usize,
    /// How many of them may be of one group of keys, such as a namespace; by default any number.
    pub groups: Option<KeyGroups>,
    /// Which changes of the primary kind count.
    pub predicate: Option<Predicate>,
    /// How often every object of the primary kind is reconciled although nothing has changed. By default as often as the
    /// informer or its factory says.
    pub resync: Resync,
    /// How long a change waits for others of the same key, to be reconciled together with them. The first one begins
    /// the wait, so that a key which changes all the time is reconciled all the same. By default nothing waits.
    pub debounce: Duration,
    /// How long one reconcile may take; then it is dropped and counts as failed. By default any time: a reconcile that
    /// waits for something that never comes holds a worker for ever.
    pub reconcile_timeout: Option<Duration>,
    /// Decides what follows a failure; by default it is tried again, with a delay that `limiter` chooses.
    pub error_policy: Option<ErrorPolicy>,
    /// Chooses the delay after a failure; by default exponential per key, 5 ms … 1000 s.
    pub limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    /// How long running reconciles may take to end after a shutdown; then they are dropped.
    pub shutdown_deadline: Duration,
    /// Where reconciles and the queue are counted, under the controller's name.
    pub metrics: Option<Metrics>,
    /// Is told what the queue does, instead of `metrics`.
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
            shutdown_deadline: SHUTDOWN_DEADLINE,
            metrics: None,
            observer: None,
        }
    }
}

/// What to reconcile.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which object.
    pub key: ObjectKey,
    /// The object as the store has it now; `None` if it is gone.
    pub object: Option<Object>,
    /// How often this failed since it last succeeded.
    pub attempts: u32,
}

/// What to do after a reconcile that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing before the next change.
    Done,
    /// Reconcile again after this time, even if nothing changes.
    After(Duration),
}

/// Brings the world in line with an object.
pub trait Reconciler: Send + Sync + 'static {
    /// Why it may fail: any error, `anyhow::Error` included.
    type Error: Into<BoxError>;

    /// Called once per change, or once for several. Must cope with being called for nothing.
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

/// How a controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Why.
    pub reason: StopReason,
    /// Reconciles that did not end before the deadline and were dropped.
    pub aborted: usize,
}

/// Why a controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was asked to.
    Shutdown,
    /// The informer of the primary kind has ended; its health says why.
    PrimaryEnded,
}

/// A controller to be, of any kind: for kinds that are known when the program is built there is [`Controller`].
pub struct DynamicController {
    name: String,
    primary: Informer,
    triggers: Vec<Trigger>,
    options: ControllerOptions,
    queue: Queue<ObjectKey>,
    metrics: Option<Arc<ControllerMetrics>>,
}

/// A controller that has its reconciler and is ready to run.
pub struct BoundController {
    controller: DynamicController,
    reconciler: Arc<dyn ErasedReconciler>,
}

impl DynamicController {
    /// Reconciles the objects of an informer.
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
            let queue = queue.clone();
            measured.watch(move || queue.stats());
        }
        let own = Trigger::new(primary.clone(), trigger::same_key(), options.predicate.clone())
            .with_resync(options.resync);
        Self {
            metrics: metrics.map(|metrics| metrics.controller(&*name, options.workers.max(1))),
            name,
            primary,
            triggers: vec![own],
            options,
            queue,
        }
    }

    /// Also reconciles the owner of an object that changes, if an object of this resource controls it: the primary
    /// one, that is.
    pub fn owns(self, owned: Informer, owner: &Resource) -> Self {
        self.watches(owned, trigger::controller_of(owner), None)
    }

    /// Also reconciles the objects that `mapping` finds for another one that changes. An update or a delete asks it
    /// about both states, so that what an object has left is reconciled, too.
    pub fn watches(mut self, other: Informer, mapping: Mapping, predicate: Option<Predicate>) -> Self {
        self.triggers.push(Trigger::new(other, mapping, predicate));
        self
    }

    /// Asks for reconciles from elsewhere: from a timer, a webhook, another system.
    pub fn handle(&self) -> ReconcileHandle {
        ReconcileHandle::new(self.queue.clone(), &self.primary)
    }

    /// How much waits and runs.
    pub fn stats(&self) -> impl Fn() -> QueueStats + Send + Sync + 'static {
        let queue = self.queue.clone();
        move || queue.stats()
    }

    /// Gives it what it works with.
    pub fn reconcile(self, reconciler: impl Reconciler) -> BoundController {
        BoundController {
            controller: self,
            reconciler: Arc::new(reconciler),
        }
    }

    /// Works until `shutdown` is done, or the informer of the primary kind has ended.
    pub async fn run(
        self,
        reconciler: impl Reconciler,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Stopped {
        self.reconcile(reconciler).run(shutdown).await
    }
}

impl BoundController {
    /// The name under which it logs and counts.
    pub fn name(&self) -> &str {
        &self.controller.name
    }

    /// Asks for reconciles from elsewhere: from a timer, a webhook, another system.
    pub fn handle(&self) -> ReconcileHandle {
        self.controller.handle()
    }

    /// How its informers are doing, by the name of what they watch; that of the primary kind goes first.
    pub fn watch_health(&self) -> Vec<(String, watch::Receiver<Health>)> {
        let informers = self.controller.triggers.iter().map(Trigger::informer);
        informers
            .map(|informer| (informer.name().to_owned(), informer.watch_health()))
            .collect()
    }

    /// Shows its informers, and counts its queue and its reconciles under its name, unless they are counted already.
    pub fn measure(&mut self, metrics: &Metrics) {
        let controller = &mut self.controller;
        for informer in controller.triggers.iter().map(Trigger::informer) {
            metrics.informer(informer.name(), &informer);
        }
        if !controller.queue.is_observed() {
            let queue = metrics.queue(&controller.name);
            queue.watch(controller.stats());
            controller.queue.observe(queue);
        }
        let workers = controller.options.workers.max(1);
        controller
            .metrics
            .get_or_insert_with(|| metrics.controller(&*controller.name, workers));
    }

    /// Says whether it works on what the cluster has, while it runs as well.
    pub fn readiness(&self) -> Readiness {
        Readiness::new(self.controller.triggers.iter().map(Trigger::informer))
    }

    /// Works until `shutdown` is done, or the informer of the primary kind has ended.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Stopped {
        self.work(Box::pin(shutdown)).await
    }

    /// Boxed, so that those who run a controller need not compile it.
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
            let crew = Arc::new(Crew {
                name: controller.name.into(),
                reconciler,
                store: controller.primary.store().clone(),
                queue: controller.queue.clone(),
                groups: controller.options.groups.map(Into::into),
                timeout: controller.options.reconcile_timeout,
                policy: controller.options.error_policy,
                metrics: controller.metrics,
            });
            let mut workers = JoinSet::new();
            let work = async {
                if all_synced(&controller.primary, &others).await.is_ok() {
                    for _ in 0..controller.options.workers.max(1) {
                        workers.spawn(crew.clone().work(stopped.clone()));
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
            tracing::warn!(%error, "working without the objects of another kind");
        }
    }));
    others.await;
    Ok(())
}

/// Lets workers end, but no longer than this.
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
            .field("shutdown_deadline", &self.shutdown_deadline)
            .finish_non_exhaustive()
    }
}

/// False for what is told because everything is told: at the beginning, and in a resync.
fn is_news(delta: &Delta) -> bool {
    !matches!(delta.cause(), Cause::Initial | Cause::Resync)
}

#[cfg(test)]
mod tests;
