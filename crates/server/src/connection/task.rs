//! The task of one connection: it reads requests, polls quiet streams and writes.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::bell::poll_again_when_woken;
use super::cork::Outlet;
use super::requests::{RequestFuture, Requests};

/// Drives a connection whose executor is [`Requests`] to its end.
pub(crate) struct ConnectionTask<C, O> {
    connection: Pin<Box<C>>,
    requests: Requests,
    outlet: O,
    quiet: FuturesUnordered<RequestFuture>,
}

impl<C: Future, O: Outlet> ConnectionTask<C, O> {
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

    /// Drives the connection. Dropping the future stops it.
    pub(crate) async fn drive(&mut self) -> C::Output {
        poll_again_when_woken(poll_fn(|context| self.poll(context))).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<C::Output> {
        // Quiet streams before the connection: the frames they send are written by this poll of the connection.
        self.poll_quiet(context);
        let progress = self.connection.as_mut().poll(context);
        if progress.is_ready() {
            // Uncork first: the next user of an upgraded connection writes directly.
            self.outlet.open();
            self.outlet.release(context);
            return progress;
        }
        self.outlet.release(context);
        Poll::Pending
    }

    /// Polls the quiet streams, which send their available frames.
    fn poll_quiet(&mut self, context: &mut Context<'_>) {
        self.quiet.extend(self.requests.handover.take(context));
        let quiet = poll_fn(|context| {
            while let Poll::Ready(Some(())) = self.quiet.poll_next_unpin(context) {}
            Poll::<()>::Pending
        });
        // Unconstrained: each stream sends what its flow-control window allows, which bounds the work. tokio's budget
        // would be used up by the first stream, and the others would be polled in vain.
        let quiet = pin!(tokio::task::coop::unconstrained(quiet));
        let _ = quiet.poll(context);
    }
}

impl<C, O> Drop for ConnectionTask<C, O> {
    fn drop(&mut self) {
        self.requests.handover.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use hyper::rt::Executor as _;
    use parking_lot::Mutex;
    use tokio::sync::oneshot;
    use tokio::task::Id;
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    use super::super::requests::note_quiet;
    use super::*;

    /// More than a connection is polled before other tasks run.
    const MANY_POLLS: usize = 24;

    /// The outlet of a connection without bytes.
    struct NoOutlet;

    impl Outlet for NoOutlet {
        fn release(&self, _: &mut Context<'_>) {}
        fn open(&self) {}
    }

    fn requests() -> Requests {
        Requests::new(TaskTracker::new(), CancellationToken::new())
    }

    /// A connection that starts these requests when it is first polled, and ends when it is polled again.
    async fn serve(requests: &Requests, brought: Vec<RequestFuture>) {
        let mut brought = Some(brought);
        let connection = poll_fn(|context| match brought.take() {
            Some(brought) => {
                brought.into_iter().for_each(|request| requests.execute(request));
                // As a response does.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(()),
        });
        ConnectionTask::new(connection, requests.clone(), NoOutlet)
            .drive()
            .await;
        requests.tasks.close();
        requests.tasks.wait().await;
    }

    #[tokio::test]
    async fn requests_run_in_their_own_tasks_and_finish_after_their_connection() {
        let requests = requests();
        let (release, released) = oneshot::channel();
        let (answer, answers) = mpsc::channel();
        let waits: RequestFuture = Box::pin(async move {
            released.await.unwrap();
            answer.send(tokio::task::try_id()).unwrap();
        });
        let free: RequestFuture = Box::pin(async move { release.send(()).unwrap() });
        let (serving, here) = (serve(&requests, vec![waits, free]), tokio::task::try_id());
        serving.await;
        assert_ne!(answers.try_recv().unwrap(), here);
    }

    /// Records the calls.
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
    async fn an_upgraded_byte_stream_is_uncorked() {
        let noted = Noted::default();
        ConnectionTask::new(std::future::ready(()), requests(), &noted)
            .drive()
            .await;
        assert_eq!(*noted.0.lock(), ["open", "released"]);
    }

    #[tokio::test]
    async fn a_panicking_request_affects_no_other() {
        let requests = requests();
        let (answer, answers) = mpsc::channel();
        let fine: RequestFuture = Box::pin(async move { answer.send("fine").unwrap() });
        let panics: RequestFuture = Box::pin(async { panic!("on purpose") });
        serve(&requests, vec![fine, panics]).await;
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), ["fine"]);
    }

    #[tokio::test]
    async fn a_stream_that_becomes_quiet_during_a_poll_is_taken_over() {
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
        ConnectionTask::new(connection, requests, NoOutlet).drive().await;
    }

    /// A stream that sends every number it receives, and becomes quiet when it has none.
    fn stream(
        mut numbers: tokio::sync::mpsc::Receiver<u8>,
        sent: mpsc::Sender<(u8, Option<Id>)>,
    ) -> RequestFuture {
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
    async fn a_stream_has_its_own_task_until_it_is_quiet() {
        let requests = requests();
        let (number, numbers) = tokio::sync::mpsc::channel(1);
        let (sent, all_sent) = mpsc::channel();
        requests.execute(stream(numbers, sent));
        let connection = std::future::pending::<()>();
        let mut driver = ConnectionTask::new(connection, requests.clone(), NoOutlet);
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
    async fn frames_of_quiet_streams_leave_with_the_next_poll_of_the_connection() {
        let (requests, noted) = (requests(), Noted::default());
        let (number, mut numbers) = tokio::sync::mpsc::channel::<()>(1);
        let note = |what| noted.0.lock().push(what);
        let (sent, was_sent) = mpsc::channel();
        let stream: RequestFuture = Box::pin(poll_fn(move |context| {
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
        let mut driver = ConnectionTask::new(connection, requests.clone(), &noted);
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
    async fn a_stream_handed_over_after_the_end_is_dropped() {
        let requests = requests();
        // Like hyper's streams, it holds its executor.
        let stream = |alive: Arc<()>| -> RequestFuture {
            let executor = requests.clone();
            Box::pin(async move {
                std::future::pending::<()>().await;
                drop((alive, executor));
            })
        };
        let (before, after) = (Arc::new(()), Arc::new(()));
        let driver = ConnectionTask::new(std::future::pending::<()>(), requests.clone(), NoOutlet);
        requests.handover.put(stream(before.clone()));
        drop(driver);
        requests.handover.put(stream(after.clone()));
        assert_eq!((Arc::strong_count(&before), Arc::strong_count(&after)), (1, 1));
    }
}
