//! The requests of one HTTP/2 connection, and the tasks that run them.
//!
//! hyper asks its executor to run every request. [`Requests`] is that executor: it spawns a task for each. A response body
//! that waits for its next frame is *quiet* ([`note_quiet`]): its future is handed to the connection's task, which polls it
//! from then on.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bell::poll_again_when_woken;

/// A request being handled and answered, as hyper gives it to its executor.
pub(super) type RequestFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

tokio::task_local! {
    /// Set while a request is polled, if its response body only waits for a frame, or for capacity to send one.
    static IS_QUIET: Cell<bool>;
}

/// Called by a response body that has no frame yet, or whose frames are cheap to encode.
pub(crate) fn note_quiet() {
    // Not set on HTTP/1.1: there the connection's task polls the request anyway.
    let _ = IS_QUIET.try_with(|quiet| quiet.set(true));
}

/// The outcome of polling a request.
enum Progress {
    Done,
    /// Pending, and its body is quiet.
    Quiet,
    Waiting,
}

fn poll_request(request: &mut RequestFuture, context: &mut Context<'_>) -> Progress {
    IS_QUIET.sync_scope(Cell::new(false), || match request.as_mut().poll(context) {
        Poll::Ready(()) => Progress::Done,
        Poll::Pending if IS_QUIET.with(Cell::get) => Progress::Quiet,
        Poll::Pending => Progress::Waiting,
    })
}

/// Runs the requests of one connection.
#[derive(Clone)]
pub(crate) struct Requests {
    /// Tracks the running requests.
    pub(super) tasks: TaskTracker,
    /// Cancelled when draining has taken too long.
    end: CancellationToken,
    pub(super) handover: Arc<Handover>,
}

/// The state shared by the connection's task and the tasks of its requests.
#[derive(Default)]
pub(super) struct Handover {
    quiet: Mutex<QuietStreams>,
    connection: AtomicWaker,
}

/// Quiet streams that the connection's task has not taken yet.
#[derive(Default)]
struct QuietStreams {
    streams: Vec<RequestFuture>,
    /// The connection has ended. Later streams are dropped: they hold their executor, which holds this, so they would
    /// never be freed.
    is_closed: bool,
}

impl Handover {
    /// Gives a quiet stream to the connection's task; drops it if the connection has ended.
    pub(super) fn put(&self, stream: RequestFuture) {
        let mut quiet = self.quiet.lock();
        if !quiet.is_closed {
            quiet.streams.push(stream);
            return;
        }
        drop(quiet);
        drop(stream);
    }

    /// Takes the new quiet streams, and registers the task to be woken for the next ones.
    pub(super) fn take(&self, context: &Context<'_>) -> Vec<RequestFuture> {
        self.connection.register(context.waker());
        std::mem::take(&mut self.quiet.lock().streams)
    }

    /// The connection has ended.
    pub(super) fn close(&self) {
        let streams = {
            let mut quiet = self.quiet.lock();
            quiet.is_closed = true;
            std::mem::take(&mut quiet.streams)
        };
        drop(streams);
    }
}

impl Requests {
    pub(crate) fn new(tasks: TaskTracker, end: CancellationToken) -> Self {
        let handover = Arc::default();
        Self { tasks, end, handover }
    }

    /// Runs a request in its own task until it is done or quiet.
    fn spawn(&self, request: RequestFuture) {
        let (end, handover) = (self.end.clone(), self.handover.clone());
        self.tasks.spawn(async move {
            let running = poll_again_when_woken(until_quiet(request));
            if let Some(Some(quiet)) = end.run_until_cancelled(running).await {
                handover.put(quiet);
                handover.connection.wake();
            }
        });
    }
}

/// Polls a request until it is done; returns it if it becomes quiet first.
async fn until_quiet(mut request: RequestFuture) -> Option<RequestFuture> {
    let polling = poll_fn(|context| match poll_request(&mut request, context) {
        Progress::Waiting => Poll::Pending,
        progress => Poll::Ready(progress),
    });
    matches!(polling.await, Progress::Quiet).then_some(request)
}

impl<F> Executor<F> for Requests
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        // A panic ends this request only, also when the connection's task polls it.
        // Not an async block: it would have room for the future twice.
        self.spawn(Box::pin(AssertUnwindSafe(future).catch_unwind().map(drop)));
    }
}
