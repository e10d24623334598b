//! The workers of a controller: take a key, reconcile it, and act on the result.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tracing::Instrument;
use watchkeeper_meta::ObjectKey;

use super::groups::Groups;
use super::own_writes::OwnWrites;
use super::{Action, BoxError, Reconciler, Request};
use crate::clock::now;
use crate::metrics::{Active, Counted, Outcome};
use crate::queue::{Queue, Work};
use crate::store::Store;

/// The reason a reconcile did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// It returned an error.
    #[error(transparent)]
    Failed(BoxError),
    /// It panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// The panic message, if it was text.
        message: String,
    },
    /// It exceeded its time limit and was dropped.
    #[error("dropped after {after:?}")]
    TimedOut {
        /// The time limit.
        after: Duration,
    },
}

impl ReconcileError {
    /// The first error of this type: the returned one, or one of its sources.
    ///
    /// An `anyhow::Error` hides the type of the error it was made from, but not of one it adds context to. Return it as
    /// `error.reallocate_into_boxed_dyn_error_without_backtrace()` if the outermost type matters.
    pub fn find<E: Error + 'static>(&self) -> Option<&E> {
        let Self::Failed(error) = self else {
            return None;
        };
        let mut next: Option<&(dyn Error + 'static)> = Some(&**error);
        while let Some(error) = next {
            let boxed = error.downcast_ref::<Box<E>>().map(|boxed| &**boxed);
            if let Some(found) = error.downcast_ref().or(boxed) {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

/// A failed reconcile, for [`ErrorPolicy`].
#[derive(Debug)]
pub struct FailedReconcile<'a> {
    /// The object's key.
    pub key: &'a ObjectKey,
    /// The number of earlier failures since the last success.
    pub attempts: u32,
    /// The error.
    pub error: &'a ReconcileError,
}

/// The action after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Retry, after a delay that grows with each failure.
    #[default]
    Retry,
    /// Retry after this time.
    RetryAfter(Duration),
    /// Wait until the object changes: a retry would not help.
    GiveUp,
}

/// Decides the action after a failure.
///
/// ```
/// # use std::sync::Arc;
/// use watchkeeper_client::Error;
/// use watchkeeper_runtime::controller::{ControllerOptions, OnError};
///
/// let options = ControllerOptions {
///     error_policy: Some(Arc::new(|failed| match failed.error.find::<Error>() {
///         Some(error) if error.is_invalid() => OnError::GiveUp,
///         _ => OnError::Retry,
///     })),
///     ..Default::default()
/// };
/// ```
pub type ErrorPolicy = Arc<dyn Fn(&FailedReconcile<'_>) -> OnError + Send + Sync>;

/// A type-erased reconciler, so that workers are compiled once.
pub(super) trait ErasedReconciler: Send + Sync {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Action, BoxError>>;
}

impl<R: Reconciler> ErasedReconciler for R {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Action, BoxError>> {
        async { self.reconcile(request).await.map_err(Into::into) }.boxed()
    }
}

/// The state all workers of a controller share.
pub(super) struct Worker {
    pub(super) name: Arc<str>,
    pub(super) reconciler: Arc<dyn ErasedReconciler>,
    pub(super) store: Store,
    pub(super) queue: Queue<ObjectKey>,
    pub(super) groups: Option<Groups>,
    pub(super) own_writes: Option<Arc<OwnWrites>>,
    pub(super) timeout: Option<Duration>,
    pub(super) policy: Option<ErrorPolicy>,
    pub(super) metrics: Option<Counted>,
}

impl Worker {
    pub(super) fn work(self: Arc<Self>, mut stopped: watch::Receiver<bool>) -> BoxFuture<'static, ()> {
        async move {
            loop {
                let work = tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stopped| *stopped) => return,
                    work = self.queue.next() => work,
                };
                let Some(work) = work else { return };
                match &self.groups {
                    None => self.handle(work).await,
                    Some(groups) => self.handle_grouped(groups, work, &stopped).await,
                }
            }
        }
        .boxed()
    }

    /// Handles a key if its group has capacity, then the deferred keys of the group.
    async fn handle_grouped(&self, groups: &Groups, work: Work<ObjectKey>, stopped: &watch::Receiver<bool>) {
        let (group, mut next) = groups.enter(work);
        while let Some(work) = next {
            self.handle(work).await;
            next = groups.leave(&group, *stopped.borrow());
        }
    }

    async fn handle(&self, work: Work<ObjectKey>) {
        let key = work.key().clone();
        if let Some(delay) = self.own_writes.as_ref().and_then(|own| own.stale(&key, now())) {
            return self.skip(work, delay);
        }
        let attempts = work.attempts();
        let own_writes = self.own_writes.as_ref();
        let request = Request {
            object: self.store.get(&key),
            attempts,
            writes: own_writes.map_or_else(Default::default, |own| own.writes_of(&key)),
            key: key.clone(),
        };
        let span = tracing::info_span!("reconcile", controller = &*self.name, %key, attempt = attempts + 1);
        let active = self.begin();
        let ended = self.call(request).instrument(span.clone()).await;
        let _entered = span.enter();
        let outcome = match ended {
            Ok(Action::Done) => {
                work.succeed();
                Outcome::Success
            }
            Ok(Action::After(after)) => {
                work.again_after(after);
                Outcome::RequeueAfter
            }
            Err(error) => {
                let failed = FailedReconcile {
                    key: &key,
                    attempts,
                    error: &error,
                };
                let then = self.decide(&failed);
                self.fail(work, &error, then);
                Outcome::failed(&error, then)
            }
        };
        if let Some(active) = active {
            active.ended(now(), outcome);
        }
    }

    async fn call(&self, request: Request) -> Result<Action, ReconcileError> {
        // The call itself may panic as well as its future.
        let call = AssertUnwindSafe(async { self.reconciler.call(request).await }).catch_unwind();
        let ended = match self.timeout {
            None => call.await,
            Some(after) => match tokio::time::timeout(after, call).await {
                Ok(ended) => ended,
                Err(_) => return Err(ReconcileError::TimedOut { after }),
            },
        };
        match ended {
            Ok(result) => result.map_err(ReconcileError::Failed),
            Err(panic) => Err(ReconcileError::Panicked {
                message: message_of(&*panic),
            }),
        }
    }

    fn decide(&self, failed: &FailedReconcile<'_>) -> OnError {
        let Some(policy) = &self.policy else {
            return OnError::Retry;
        };
        catch_unwind(AssertUnwindSafe(|| policy(failed))).unwrap_or_else(|_| {
            tracing::error!(controller = &*self.name, key = %failed.key, "the error policy has panicked, retrying");
            OnError::Retry
        })
    }

    fn fail(&self, work: Work<ObjectKey>, error: &ReconcileError, then: OnError) {
        let (controller, key) = (&*self.name, work.key().clone());
        let shown: &dyn Error = error;
        let after = match then {
            OnError::Retry => work.retry(),
            OnError::RetryAfter(after) => work.retry_after(after),
            OnError::GiveUp => {
                work.succeed();
                tracing::error!(controller, %key, error = shown, "reconcile failed, given up until the object changes");
                return;
            }
        };
        match error {
            ReconcileError::Panicked { .. } => {
                tracing::error!(controller, %key, error = shown, ?after, "reconcile panicked, retrying");
            }
            _ => tracing::warn!(controller, %key, error = shown, ?after, "reconcile failed, retrying"),
        }
    }

    /// The informers do not yet show what an earlier reconcile has written.
    fn skip(&self, work: Work<ObjectKey>, delay: Duration) {
        tracing::debug!(controller = &*self.name, key = %work.key(), ?delay, "own writes are not yet in the store");
        if let Some(metrics) = &self.metrics {
            metrics.skipped();
        }
        work.defer(delay);
    }

    fn begin(&self) -> Option<Active<'_>> {
        self.metrics.as_ref().map(|metrics| metrics.begun(now()))
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("something that is not text").to_owned()
}
