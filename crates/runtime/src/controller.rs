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

mod trigger;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_wire::Object;

use self::trigger::Trigger;
use crate::delta::{Cause, Delta};
use crate::informer::{Health, Informer, Resync};
use crate::metrics::Metrics;
use crate::queue::{Queue, QueueObserver, QueueOptions, QueueStats, RateLimiter, Work};
use crate::store::{Store, StoreEndedError};

pub use trigger::{Mapping, Predicate, generation_changed};

/// 30 s, as controller-runtime: how long running reconciles may take to end after a shutdown.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// Two minutes, as controller-runtime: how long work waits for the first lists of the other kinds. The primary kind
/// is waited for without limit, because there is nothing to do without it.
pub const SYNC_PATIENCE: Duration = Duration::from_secs(120);

/// As many keys of an external trigger may wait to be taken over; its sender waits beyond that.
pub const TRIGGER_CAPACITY: usize = 1024;

/// How a controller works.
pub struct ControllerOptions {
    /// How many reconciles run at once, spread over the runtime's threads.
    pub workers: usize,
    /// Which changes of the primary kind count.
    pub predicate: Option<Predicate>,
    /// How often every object of the primary kind is reconciled although nothing has changed. By default as often as the
    /// informer or its factory says.
    pub resync: Resync,
    /// How long running reconciles may take to end after a shutdown; then they are dropped.
    pub shutdown_deadline: Duration,
    /// Chooses the delay after a failure; by default exponential per key, 5 ms … 1000 s.
    pub limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    /// Is told what the queue does.
    pub observer: Option<Arc<dyn QueueObserver>>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            workers: 4,
            predicate: None,
            resync: Resync::default(),
            shutdown_deadline: SHUTDOWN_DEADLINE,
            limiter: None,
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
    /// Why it may fail.
    type Error: std::error::Error + Send + Sync + 'static;

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

/// A controller to be.
pub struct Controller {
    name: String,
    primary: Informer,
    triggers: Vec<Trigger>,
    external: Vec<mpsc::Receiver<ObjectKey>>,
    options: ControllerOptions,
    queue: Queue<ObjectKey>,
}

impl Controller {
    /// Reconciles the objects of an informer.
    pub fn new(name: impl Into<String>, primary: Informer, mut options: ControllerOptions) -> Self {
        let mut queue = QueueOptions {
            observer: options.observer.take(),
            ..Default::default()
        };
        if let Some(limiter) = options.limiter.take() {
            queue.limiter = limiter;
        }
        let own = Trigger::new(primary.clone(), trigger::same_key(), options.predicate.clone())
            .with_resync(options.resync);
        Self {
            name: name.into(),
            primary,
            triggers: vec![own],
            external: Vec::new(),
            options,
            queue: Queue::new(queue),
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

    /// Also reconciles what is sent here: from a timer, a webhook, another system.
    pub fn external_trigger(&mut self) -> mpsc::Sender<ObjectKey> {
        let (sender, receiver) = mpsc::channel(TRIGGER_CAPACITY);
        self.external.push(receiver);
        sender
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its informers are doing, by the name of what they watch; that of the primary kind goes first.
    pub fn watch_health(&self) -> Vec<(String, watch::Receiver<Health>)> {
        let informers = self.triggers.iter().map(Trigger::informer);
        informers
            .map(|informer| (informer.name().to_owned(), informer.watch_health()))
            .collect()
    }

    /// Shows its queue, under its name, and its informers. A queue that has an observer keeps that one.
    pub fn measure(&self, metrics: &Metrics) {
        for informer in self.triggers.iter().map(Trigger::informer) {
            metrics.informer(informer.name(), &informer);
        }
        if !self.queue.is_observed() {
            let queue = metrics.queue(&self.name);
            queue.watch(self.stats());
            self.queue.observe(queue);
        }
    }

    /// How much waits and runs.
    pub fn stats(&self) -> impl Fn() -> QueueStats + Send + Sync + 'static {
        let queue = self.queue.clone();
        move || queue.stats()
    }

    /// Works until `shutdown` is done, or the informer of the primary kind has ended.
    pub async fn run(self, reconciler: impl Reconciler, shutdown: impl Future<Output = ()>) -> Stopped {
        let (stop, stopped) = watch::channel(false);
        let mut triggers = JoinSet::new();
        let others: Vec<Informer> = self.triggers[1..].iter().map(Trigger::informer).collect();
        for trigger in self.triggers {
            triggers.spawn(trigger.run(self.queue.clone()));
        }
        for receiver in self.external {
            triggers.spawn(trigger::run_external(receiver, self.queue.clone()));
        }
        let crew = Arc::new(Crew {
            name: self.name,
            reconciler,
            store: self.primary.store().clone(),
            queue: self.queue.clone(),
        });
        let mut workers = JoinSet::new();
        let work = async {
            if all_synced(&self.primary, &others).await.is_ok() {
                for _ in 0..self.options.workers.max(1) {
                    workers.spawn(crew.clone().work(stopped.clone()));
                }
            }
            self.primary.ended().await;
        };
        let reason = tokio::select! {
            biased;
            () = shutdown => StopReason::Shutdown,
            () = work => StopReason::PrimaryEnded,
        };
        stop.send_replace(true);
        self.queue.shut_down();
        triggers.shutdown().await;
        let aborted = wind_up(workers, self.options.shutdown_deadline).await;
        Stopped { reason, aborted }
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

/// What the workers share.
struct Crew<R> {
    name: String,
    reconciler: R,
    store: Store,
    queue: Queue<ObjectKey>,
}

impl<R: Reconciler> Crew<R> {
    fn work(self: Arc<Self>, mut stopped: watch::Receiver<bool>) -> BoxFuture<'static, ()> {
        async move {
            loop {
                let work = tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stopped| *stopped) => return,
                    work = self.queue.next() => work,
                };
                match work {
                    Some(work) => self.handle(work).await,
                    None => return,
                }
            }
        }
        .boxed()
    }

    async fn handle(&self, work: Work<ObjectKey>) {
        let key = work.key().clone();
        let request = Request {
            object: self.store.get(&key),
            attempts: work.attempts(),
            key: key.clone(),
        };
        // The call itself may panic as well as its future.
        let call = async { self.reconciler.reconcile(request).await };
        match AssertUnwindSafe(call).catch_unwind().await {
            Ok(Ok(Action::Done)) => work.succeed(),
            Ok(Ok(Action::After(after))) => work.again_after(after),
            Ok(Err(error)) => {
                let after = work.retry();
                let error: &dyn std::error::Error = &error;
                tracing::warn!(controller = self.name, %key, error, ?after, "reconcile failed, trying again");
            }
            Err(_) => {
                let after = work.retry();
                tracing::error!(controller = self.name, %key, ?after, "reconcile panicked, trying again");
            }
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("triggers", &self.triggers.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ControllerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerOptions")
            .field("workers", &self.workers)
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
