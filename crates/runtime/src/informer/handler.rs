//! Callbacks instead of a stream: a handler on its own task.

use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Notice, Subscription};
use crate::delta::{Cause, Delta};
use crate::view::{Untyped, View};

/// Receives changes, one call at a time and in order.
///
/// A handler of a kind gets structs, a plain `Handler` undecoded objects. If a call or its filter panics, the panic
/// is reported and the call counts as made; the next change is delivered.
///
/// ```
/// use std::sync::Arc;
///
/// use watchkeeper_runtime::delta::Cause;
/// use watchkeeper_runtime::informer::Handler;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Node { metadata: watchkeeper_meta::ObjectMeta }
/// # impl watchkeeper_client::ResourceType for Node {
/// #     fn resource() -> watchkeeper_meta::Resource {
/// #         watchkeeper_meta::Resource::cluster("", "v1", "Node", "nodes")
/// #     }
/// # }
///
/// struct Greeter;
///
/// impl Handler<Node> for Greeter {
///     async fn added(&mut self, node: Arc<Node>, _: Cause) {
///         println!("hello {:?}", node.metadata.name); // anything may be awaited here
///     }
/// }
/// ```
pub trait Handler<K: View = Untyped>: Send + 'static {
    /// An object was added.
    fn added(&mut self, _object: K::Handle, _cause: Cause) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// An object has changed or, with [`Cause::Resync`], is the same.
    fn updated(
        &mut self,
        _old: K::Handle,
        _new: K::Handle,
        _cause: Cause,
    ) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// An object was deleted; `final_state` is true if `last` is the state in which it was deleted.
    fn deleted(&mut self, _last: K::Handle, _final_state: bool) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// All objects that existed at the beginning have been delivered.
    fn synced(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// A running handler. Dropping this removes it.
#[derive(Debug)]
pub struct Registration {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
    synced: watch::Receiver<bool>,
    panics: Arc<AtomicU64>,
}

impl Registration {
    pub(super) fn start<K: View>(subscription: Subscription<K>, handler: impl Handler<K>) -> Self {
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

    /// Waits until the handler has processed everything that existed at the beginning. Returns `false` if it ends
    /// before.
    pub async fn synced(&self) -> bool {
        self.synced.clone().wait_for(|synced| *synced).await.is_ok()
    }

    /// True if the handler has processed everything that existed at the beginning.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// The number of calls that panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Removes the handler and waits until its last call has returned. Must not be called from the handler.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The task stops at its next await; a running call is completed.
        self.stop.send_replace(true);
    }
}

async fn run<K: View>(
    mut subscription: Subscription<K>,
    mut handler: impl Handler<K>,
    mut stopped: watch::Receiver<bool>,
    report: watch::Sender<bool>,
    panics: Arc<AtomicU64>,
) {
    loop {
        let notice = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            // Its filter is user code, too.
            notice = AssertUnwindSafe(subscription.next()).catch_unwind() => notice,
        };
        let synced = matches!(notice, Ok(Some(Notice::Synced)));
        let called = match notice {
            Ok(None) => return,
            Ok(Some(notice)) => AssertUnwindSafe(call(&mut handler, notice)).catch_unwind().await,
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

async fn call<K: View>(handler: &mut impl Handler<K>, notice: Notice<K::Handle>) {
    match notice {
        Notice::Synced => handler.synced().await,
        Notice::Change(Delta::Added { object, cause }) => handler.added(object, cause).await,
        Notice::Change(Delta::Updated { old, new, cause }) => handler.updated(old, new, cause).await,
        Notice::Change(Delta::Deleted {
            last, final_state, ..
        }) => handler.deleted(last, final_state).await,
    }
}
