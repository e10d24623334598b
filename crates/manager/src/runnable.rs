//! Runnables: controllers, and any other named work.

use std::fmt;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use watchkeeper_runtime::controller::{BoundController, BoxError, StopReason};
use watchkeeper_runtime::informer::Health;
use watchkeeper_runtime::metrics::Metrics;
use watchkeeper_runtime::sharding::ShardedController;

/// Work that a manager starts, supervises and stops.
///
/// A controller with its reconciler is one. Other work can be a closure: see
/// [`Manager::always`](crate::Manager::always) and [`Manager::while_leading`](crate::Manager::while_leading).
pub trait Runnable: Send + 'static {
    /// Its name in errors and the log.
    fn name(&self) -> &str;

    /// Its informers, by name. The manager is ready while all of them are synced and not failing.
    fn informers(&self) -> Vec<(String, watch::Receiver<Health>)> {
        Vec::new()
    }

    /// Registers its metrics, before it runs.
    fn measure(&mut self, _metrics: &Metrics) {}

    /// Works until it is asked to stop, then finishes what it has started. It may end earlier without an error.
    fn run(self: Box<Self>, stop: Stop) -> BoxFuture<'static, Result<(), BoxError>>;
}

/// The stop signal of a runnable. Clones share it.
#[derive(Clone, Debug)]
pub struct Stop(CancellationToken);

impl Stop {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self(token)
    }

    /// Waits until the work should stop.
    pub fn requested(&self) -> WaitForCancellationFutureOwned {
        self.0.clone().cancelled_owned()
    }

    /// True once the work should stop.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// The informer of the primary kind has ended, so there is nothing to reconcile.
#[derive(Debug, thiserror::Error)]
#[error("the informer of its kind has ended: {health}")]
struct PrimaryEndedError {
    health: Health,
}

impl Runnable for BoundController {
    fn name(&self) -> &str {
        BoundController::name(self)
    }

    fn informers(&self) -> Vec<(String, watch::Receiver<Health>)> {
        self.watch_health()
    }

    fn measure(&mut self, metrics: &Metrics) {
        BoundController::measure(self, metrics);
    }

    fn run(self: Box<Self>, stop: Stop) -> BoxFuture<'static, Result<(), BoxError>> {
        async move {
            let (name, informers) = (BoundController::name(&self).to_owned(), self.watch_health());
            let stopped = BoundController::run(*self, stop.requested()).await;
            if stopped.aborted > 0 {
                tracing::warn!(
                    controller = name,
                    aborted = stopped.aborted,
                    "reconciles were dropped"
                );
            }
            match (stopped.reason, informers.first()) {
                (StopReason::PrimaryEnded, Some((_, health))) if !stop.is_requested() => {
                    let health = health.borrow().clone();
                    Err(PrimaryEndedError { health }.into())
                }
                _ => Ok(()),
            }
        }
        .boxed()
    }
}

/// Its informers come and go with its shards: readiness does not depend on them.
impl Runnable for ShardedController {
    fn name(&self) -> &str {
        ShardedController::name(self)
    }

    fn measure(&mut self, metrics: &Metrics) {
        ShardedController::measure(self, metrics);
    }

    fn run(self: Box<Self>, stop: Stop) -> BoxFuture<'static, Result<(), BoxError>> {
        async move {
            ShardedController::run(*self, stop.requested()).await;
            Ok(())
        }
        .boxed()
    }
}

/// A closure as a runnable.
pub(crate) struct Work<F> {
    pub(crate) name: String,
    pub(crate) work: F,
}

impl<F, W, E> Runnable for Work<F>
where
    F: FnOnce(Stop) -> W + Send + 'static,
    W: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn run(self: Box<Self>, stop: Stop) -> BoxFuture<'static, Result<(), BoxError>> {
        async move { (self.work)(stop).await.map_err(Into::into) }.boxed()
    }
}

impl fmt::Debug for dyn Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
