//! Callbacks instead of a stream: a handler on a task of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use watchkeeper_wire::Object;

use super::{Notice, Subscription};
use crate::delta::{Cause, Delta};

/// Is called with what changes, one call at a time and in order.
///
/// A call that panics, its filter's included, is reported and counts as made: the next change is told all the same.
pub trait Handler: Send + 'static {
    /// An object that was not there before.
    fn added(&mut self, _object: &Object, _cause: Cause) {}

    /// An object that has changed or, with [`Cause::Resync`], not.
    fn updated(&mut self, _old: &Object, _new: &Object, _cause: Cause) {}

    /// An object that is gone; `final_state` says whether this is the state in which it went.
    fn deleted(&mut self, _last: &Object, _final_state: bool) {}

    /// Everything that was there at the beginning has been told.
    fn synced(&mut self) {}
}

/// A handler that runs. Dropping this removes it.
#[derive(Debug)]
pub struct Registration {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
    synced: watch::Receiver<bool>,
    panics: Arc<AtomicU64>,
}

impl Registration {
    pub(super) fn start(subscription: Subscription, handler: impl Handler) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (report, synced) = watch::channel(false);
        let panics = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(run(subscription, handler, stopped, report, panics.clone()));
        Self {
            task,
            stop,
            synced,
            panics,
        }
    }

    /// Waits until the handler has returned from every call for what was there at the beginning.
    /// `false` if it ends before.
    pub async fn synced(&self) -> bool {
        self.synced.clone().wait_for(|synced| *synced).await.is_ok()
    }

    /// Whether the handler has seen everything that was there at the beginning.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// How many calls have panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Removes the handler and waits until its last call has returned. Do not call this from the handler.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The task sees it at its next await; a call under way is not torn.
        self.stop.send_replace(true);
    }
}

async fn run(
    mut subscription: Subscription,
    mut handler: impl Handler,
    mut stopped: watch::Receiver<bool>,
    report: watch::Sender<bool>,
    panics: Arc<AtomicU64>,
) {
    loop {
        let notice = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            // Its filter is the user's, too.
            notice = AssertUnwindSafe(subscription.next()).catch_unwind() => notice,
        };
        let synced = matches!(notice, Ok(Some(Notice::Synced)));
        let called = match notice {
            Ok(None) => return,
            Ok(Some(notice)) => catch_unwind(AssertUnwindSafe(|| call(&mut handler, notice))),
            Err(panic) => Err(panic),
        };
        if called.is_err() {
            panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!("a handler or its filter has panicked");
        }
        if synced {
            report.send_replace(true);
        }
    }
}

fn call(handler: &mut impl Handler, notice: Notice) {
    match notice {
        Notice::Synced => handler.synced(),
        Notice::Change(Delta::Added { object, cause }) => handler.added(&object, cause),
        Notice::Change(Delta::Updated { old, new, cause }) => handler.updated(&old, &new, cause),
        Notice::Change(Delta::Deleted {
            last, final_state, ..
        }) => handler.deleted(&last, final_state),
    }
}
