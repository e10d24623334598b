//! One task for a connection, for the request it has brought last and for its quiet streams: bytes in, an answer
//! worked out, bytes out.
//!
//! HTTP/2 wants a task for every request. Most requests take less time than handing them over does: a task that is
//! woken while another one runs wakes a thread, and so does the answer that wakes the connection. Therefore the last
//! request that has arrived is begun here, and gets a task of its own only if it has to wait. Those that have arrived
//! together with it get theirs at once, so that many requests on one connection use many processors.
//!
//! A watch is such a task as long as it has much to make, and comes back here when it waits for something to happen:
//! a write and the event of that write then leave together. One whose events are mere copies comes back with the first of
//! them: the many objects it may begin with are encrypted by the thread that has just copied them. They are copied as
//! there is room for them, so that others are not held up.
//!
//! ```text
//!   socket ▶ connection ─┬▶ GET a   ▶ a task
//!                        ├▶ WATCH b ▶ a task ──quiet──┐
//!                        └▶ PATCH c ▶ here            ▼
//!   socket ◀ connection ◀────answer─────┴─events─ quiet streams
//! ```

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use futures_util::{FutureExt as _, StreamExt as _};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use watchkeeper_wake::Bell;

use crate::cork::Outlet;

type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

tokio::task_local! {
    /// Whether the request that is being polled waits for something to send or for room to send it, and not for anything
    /// else.
    static IS_QUIET: Cell<bool>;
}

/// Says that the body of the answer that is being sent has nothing to send yet, or no work with it.
pub(crate) fn note_quiet() {
    // HTTP/1.1 has one request at a time, which nobody moves.
    let _ = IS_QUIET.try_with(|quiet| quiet.set(true));
}

/// How a request goes on.
enum Progress {
    Done,
    Quiet,
    Waiting,
}

fn poll_request(request: &mut Request, context: &mut Context<'_>) -> Progress {
    IS_QUIET.sync_scope(Cell::new(false), || match request.as_mut().poll(context) {
        Poll::Ready(()) => Progress::Done,
        Poll::Pending if IS_QUIET.with(Cell::get) => Progress::Quiet,
        Poll::Pending => Progress::Waiting,
    })
}

/// Runs the requests of one connection, and knows when they are done.
#[derive(Clone)]
pub(crate) struct Requests {
    tasks: TaskTracker,
    /// Cancelled when waiting for requests has taken too long.
    end: CancellationToken,
    shared: Arc<Shared>,
}

/// What a connection shares with the tasks of its requests.
#[derive(Default)]
struct Shared {
    /// The request that has arrived last and has not begun.
    last: Mutex<Option<Request>>,
    quiet: Mutex<Handover>,
    connection: AtomicWaker,
}

/// Streams that have become quiet, on their way to the connection.
#[derive(Default)]
struct Handover {
    /// Those that the connection has not taken yet.
    streams: Vec<Request>,
    /// The connection has ended, so nobody takes them any more. They must not stay here: hyper's streams hold their
    /// executor, so they would keep what keeps them, for ever.
    is_closed: bool,
}

impl Shared {
    /// Gives a quiet stream to the connection. One that comes too late goes.
    fn hand_over(&self, stream: Request) {
        let mut quiet = self.quiet.lock();
        if !quiet.is_closed {
            quiet.streams.push(stream);
            return;
        }
        drop(quiet);
        drop(stream);
    }

    /// The streams that have been handed over.
    fn take_over(&self) -> Vec<Request> {
        std::mem::take(&mut self.quiet.lock().streams)
    }

    fn close(&self) {
        self.quiet.lock().is_closed = true;
        drop(self.take_over());
    }
}

impl Requests {
    pub(crate) fn new(tasks: TaskTracker, end: CancellationToken) -> Self {
        let shared = Arc::default();
        Self { tasks, end, shared }
    }

    /// Begins the last request. If it has to wait, it goes on in a task of its own, or is returned as a quiet stream:
    /// both are to be polled at once, so nobody needs to be woken before.
    fn begin_last(&self) -> Option<Request> {
        let mut request = self.replace_last(None)?;
        match poll_request(&mut request, &mut Context::from_waker(Waker::noop())) {
            Progress::Done => None,
            Progress::Quiet => Some(request),
            Progress::Waiting => {
                self.spawn(request);
                None
            }
        }
    }

    fn spawn_last(&self) {
        if let Some(request) = self.replace_last(None) {
            self.spawn(request);
        }
    }

    fn replace_last(&self, request: Option<Request>) -> Option<Request> {
        std::mem::replace(&mut self.shared.last.lock(), request)
    }

    /// Lets a request go on in a task until it is done, or quiet.
    fn spawn(&self, request: Request) {
        let (end, shared) = (self.end.clone(), self.shared.clone());
        self.tasks.spawn(async move {
            let running = without_waking_itself(until_quiet(request));
            if let Some(Some(quiet)) = end.run_until_cancelled(running).await {
                shared.hand_over(quiet);
                shared.connection.wake();
            }
        });
    }
}

/// Polls a request until it is done; returns it if it has become quiet before.
async fn until_quiet(mut request: Request) -> Option<Request> {
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
        // What panics ends alone, also where it is polled with its connection.
        let future = AssertUnwindSafe(future).catch_unwind();
        let request = Box::pin(async move { drop(future.await) });
        if let Some(earlier) = self.replace_last(Some(request)) {
            self.spawn(earlier);
        }
    }
}

/// A connection whose executor is [`Requests`], on its way to its end.
pub(crate) struct Driver<C, O> {
    connection: Pin<Box<C>>,
    requests: Requests,
    outlet: O,
    quiet: FuturesUnordered<Request>,
}

impl<C: Future, O: Outlet> Driver<C, O> {
    pub(crate) fn new(connection: C, requests: Requests, outlet: O) -> Self {
        Self {
            connection: Box::pin(connection),
            requests,
            outlet,
            quiet: FuturesUnordered::new(),
        }
    }

    pub(crate) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }

    /// Drives the connection. Dropping the future stops it where it is.
    pub(crate) async fn drive(&mut self) -> C::Output {
        without_waking_itself(poll_fn(|context| self.poll(context))).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<C::Output> {
        // Streams first: what they have to send is then written as the connection is polled, and leaves at once.
        self.poll_quiet(context);
        let progress = self.connection.as_mut().poll(context);
        if progress.is_ready() {
            // It has arrived, so it is done, even if nobody hears the answer.
            self.requests.spawn_last();
            // In this order: what the next user has written by now is let go, and nothing is held after that.
            self.outlet.open();
            self.outlet.release(context);
            return progress;
        }
        if let Some(quiet) = self.requests.begin_last() {
            self.quiet.push(quiet);
            self.poll_quiet(context);
        }
        self.outlet.release(context);
        Poll::Pending
    }

    /// Lets the quiet streams send what there is to send by now.
    fn poll_quiet(&mut self, context: &mut Context<'_>) {
        let shared = &self.requests.shared;
        shared.connection.register(context.waker());
        self.quiet.extend(shared.take_over());
        let quiet = poll_fn(|context| {
            while let Poll::Ready(Some(())) = self.quiet.poll_next_unpin(context) {}
            Poll::<()>::Pending
        });
        // Each sends as much as the client has room for, which bounds the work. A budget for all of them would be used
        // up by some, and the others be polled in vain.
        let quiet = pin!(tokio::task::coop::unconstrained(quiet));
        let _ = quiet.poll(context);
    }
}

impl<C, O> Drop for Driver<C, O> {
    fn drop(&mut self) {
        self.requests.shared.close();
    }
}

/// Polls a future again if something has happened to it while it was polled: an answer worked out on the
/// connection's task, or room for a frame of a watch. As a wake-up of the task, that would put it into the queue of a
/// thread and wake another thread to look at that queue.
async fn without_waking_itself<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    poll_fn(|task| bell.poll(task, &waker, |context| future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use tokio::sync::oneshot;
    use tokio::task::Id;

    use super::*;

    /// More often than a connection is polled before other tasks get their turn.
    const MANY_POLLS: usize = 24;

    /// Of a connection without bytes.
    struct NoOutlet;

    impl Outlet for NoOutlet {
        fn release(&self, _: &mut Context<'_>) {}
        fn open(&self) {}
    }

    fn requests() -> Requests {
        Requests::new(TaskTracker::new(), CancellationToken::new())
    }

    /// A connection that brings all of this the first time it is polled, and has ended the second time.
    async fn serve(requests: &Requests, brought: Vec<Request>) {
        let mut brought = Some(brought);
        let connection = poll_fn(|context| match brought.take() {
            Some(brought) => {
                brought.into_iter().for_each(|request| requests.execute(request));
                // As an answer does.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(()),
        });
        Driver::new(connection, requests.clone(), NoOutlet).drive().await;
        requests.tasks.close();
        requests.tasks.wait().await;
    }

    #[tokio::test]
    async fn the_last_request_is_answered_at_once_and_the_others_by_tasks() {
        let requests = requests();
        let (answer, answers) = mpsc::channel();
        let brought = ["a", "b", "c"].map(|name| -> Request {
            let answer = answer.clone();
            Box::pin(async move { answer.send((name, tokio::task::try_id())).unwrap() })
        });
        let (serving, here) = (serve(&requests, brought.into()), tokio::task::try_id());
        serving.await;
        let answered: Vec<_> = answers
            .try_iter()
            .map(|(name, task)| (name, task == here))
            .collect();
        assert_eq!(answered, [("c", true), ("a", false), ("b", false)]);
    }

    #[tokio::test]
    async fn a_request_that_waits_goes_on_in_a_task() {
        let requests = requests();
        let (release, released) = oneshot::channel();
        let (answer, answers) = mpsc::channel();
        let waits: Request = Box::pin(async move {
            released.await.unwrap();
            answer.send("waited").unwrap();
        });
        let free: Request = Box::pin(async move { release.send(()).unwrap() });
        let serving = serve(&requests, vec![waits]);
        let _ = tokio::join!(serving, free);
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), ["waited"]);
    }

    /// Remembers what was done.
    #[derive(Default)]
    struct Noted(Mutex<Vec<&'static str>>);

    impl Outlet for &Noted {
        fn release(&self, _: &mut Context<'_>) {
            self.0.lock().push("released");
        }

        fn open(&self) {
            self.0.lock().push("open");
        }
    }

    #[tokio::test]
    async fn nothing_is_held_for_good_when_a_byte_stream_gets_another_user() {
        let noted = Noted::default();
        Driver::new(std::future::ready(()), requests(), &noted)
            .drive()
            .await;
        assert_eq!(*noted.0.lock(), ["open", "released"]);
    }

    #[tokio::test]
    async fn a_request_that_panics_takes_nothing_with_it() {
        let requests = requests();
        let (answer, answers) = mpsc::channel();
        let fine: Request = Box::pin(async move { answer.send("fine").unwrap() });
        let panics: Request = Box::pin(async { panic!("on purpose") });
        serve(&requests, vec![fine, panics]).await;
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), ["fine"]);
    }

    #[tokio::test]
    async fn what_happens_while_the_connection_is_driven_is_seen() {
        let requests = requests();
        let mut polls = 0;
        let connection = poll_fn(|context| {
            polls += 1;
            match polls <= MANY_POLLS {
                true => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                false => Poll::Ready(()),
            }
        });
        Driver::new(connection, requests, NoOutlet).drive().await;
    }

    /// A stream that sends every number it gets, and says when it has none.
    fn stream(mut numbers: tokio::sync::mpsc::Receiver<u8>, sent: mpsc::Sender<(u8, Option<Id>)>) -> Request {
        Box::pin(poll_fn(move |context| {
            loop {
                match numbers.poll_recv(context) {
                    Poll::Ready(Some(number)) => sent.send((number, tokio::task::try_id())).unwrap(),
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        note_quiet();
                        return Poll::Pending;
                    }
                }
            }
        }))
    }

    #[tokio::test]
    async fn a_stream_has_a_task_until_it_is_quiet_and_goes_on_with_the_connection() {
        let requests = requests();
        let (number, numbers) = tokio::sync::mpsc::channel(1);
        let (sent, all_sent) = mpsc::channel();
        // What arrives before another request gets a task.
        let mut brought = Some([stream(numbers, sent), Box::pin(async {})]);
        let connection = poll_fn(|_| {
            let brought = brought.take().into_iter().flatten();
            brought.for_each(|request| requests.execute(request));
            Poll::<()>::Pending
        });
        let mut driver = Driver::new(connection, requests.clone(), NoOutlet);
        let here = tokio::task::try_id();
        let sending = async {
            for turn in 0..MANY_POLLS as u8 {
                number.send(turn).await.unwrap();
                while all_sent.try_recv().map(|(_, task)| task != here).unwrap_or(true) {
                    tokio::task::yield_now().await;
                }
            }
        };
        number.send(u8::MAX).await.unwrap();
        tokio::select! {
            () = driver.drive() => {}
            () = sending => {}
        }
    }

    #[tokio::test]
    async fn what_a_stream_has_to_send_leaves_with_the_next_look_at_the_connection() {
        let (requests, noted) = (requests(), Noted::default());
        let (number, mut numbers) = tokio::sync::mpsc::channel::<()>(1);
        let note = |what| noted.0.lock().push(what);
        let (sent, was_sent) = mpsc::channel();
        let stream: Request = Box::pin(poll_fn(move |context| {
            let received = numbers.poll_recv(context);
            received.is_ready().then(|| sent.send(()).unwrap());
            note_quiet();
            Poll::Pending
        }));
        requests.execute(stream);
        let connection = poll_fn(|_| {
            was_sent.try_iter().for_each(|()| note("sent"));
            note("looked");
            Poll::<()>::Pending
        });
        let mut driver = Driver::new(connection, requests.clone(), &noted);
        let sending = async {
            noted.0.lock().clear();
            number.send(()).await.unwrap();
            while noted.0.lock().len() < 3 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = driver.drive() => {}
            () = sending => {}
        }
        assert_eq!(noted.0.lock()[..3], ["sent", "looked", "released"]);
    }

    #[tokio::test]
    async fn a_stream_that_is_handed_over_too_late_goes() {
        let requests = requests();
        // As hyper's streams, it holds its executor.
        let stream = |alive: Arc<()>| -> Request {
            let executor = requests.clone();
            Box::pin(async move {
                std::future::pending::<()>().await;
                drop((alive, executor));
            })
        };
        let (before, after) = (Arc::new(()), Arc::new(()));
        let driver = Driver::new(std::future::pending::<()>(), requests.clone(), NoOutlet);
        requests.shared.hand_over(stream(before.clone()));
        drop(driver);
        requests.shared.hand_over(stream(after.clone()));
        assert_eq!((Arc::strong_count(&before), Arc::strong_count(&after)), (1, 1));
    }
}
