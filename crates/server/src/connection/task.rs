//! The task of one connection: it reads requests, polls quiet streams and writes.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::bell::without_waking_itself;
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

    /// Drives the connection. Dropping the future stops it where it is.
    pub(crate) async fn drive(&mut self) -> C::Output {
        without_waking_itself(poll_fn(|context| self.poll(context))).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<C::Output> {
        // Quiet streams before the connection: the frames they send are written by this poll of the connection.
        self.poll_quiet(context);
        let progress = self.connection.as_mut().poll(context);
        if progress.is_ready() {
            // Uncork first: bytes that an upgraded connection's next user writes must not be held.
            self.outlet.open();
            self.outlet.release(context);
            return progress;
        }
        self.outlet.release(context);
        Poll::Pending
    }

    /// Lets the quiet streams send the frames they have by now.
    fn poll_quiet(&mut self, context: &mut Context<'_>) {
        self.quiet.extend(self.requests.handover.take(context));
        let quiet = poll_fn(|context| {
            while let Poll::Ready(Some(())) = self.quiet.poll_next_unpin(context) {}
            Poll::<()>::Pending
        });
        // Unconstrained: each stream sends what its flow-control window allows, which bounds the work. tokio's budget
        // for all of them would be used up by the first, and the others would be polled for nothing.
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
    async fn serve(requests: &Requests, brought: Vec<RequestFuture>) {
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
        ConnectionTask::new(std::future::ready(()), requests(), &noted)
            .drive()
            .await;
        assert_eq!(*noted.0.lock(), ["open", "released"]);
    }

    #[tokio::test]
    async fn a_request_that_panics_takes_nothing_with_it() {
        let requests = requests();
        let (answer, answers) = mpsc::channel();
        let fine: RequestFuture = Box::pin(async move { answer.send("fine").unwrap() });
        let panics: RequestFuture = Box::pin(async { panic!("on purpose") });
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
        ConnectionTask::new(connection, requests, NoOutlet).drive().await;
    }

    /// A stream that sends every number it gets, and says when it has none.
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
    async fn a_stream_has_a_task_until_it_is_quiet_and_goes_on_with_the_connection() {
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
    async fn what_a_stream_has_to_send_leaves_with_the_next_look_at_the_connection() {
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
    async fn a_stream_that_is_handed_over_too_late_goes() {
        let requests = requests();
        // As hyper's streams, it holds its executor.
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
